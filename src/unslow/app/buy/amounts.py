"""Amounts of money as people write them: `RTX 3090=700`, `H100=2.5/h`, `0.5/1.5 per M`."""

import re

from unslow.commands._buying import parse_amount
from unslow.facts.errors import UserError

_HOURLY = re.compile(r"(?<!\s)\s*(?:/|per|an)\s*h(?:our|r)?\s*$", re.IGNORECASE)
_PER_MILLION = re.compile(r"(?<!\s)\s*(?:/|per)\s*(?:1?\s?m(?:tok|illion(?: tokens)?)?)\s*$", re.IGNORECASE)
_LONGEST = 200


def amount_of(text: str, what: str = "the price") -> float:
    """An amount from `700`, `1,499`, `$1.5k` or `2m`; UserError where it is none."""
    try:
        return parse_amount(text)
    except ValueError:
        raise UserError(f"{what}: {text[:40]!r} is no amount", "write it like 700 or 1499.50") from None


def named_amount(text: str, flag: str) -> tuple[str, float]:
    """A name and an amount from `RTX 3090=700` or `H100=2.5/h`; UserError where one of them is missing."""
    name, between, amount = text[:_LONGEST].rpartition("=")
    if not between or not name.strip():
        example = '"H100=2.5/h"' if flag == "--rent" else '"RTX 3090=700"'
        raise UserError(f"{flag} {text[:40]!r} has no name and amount", f"write it like {flag} {example}")
    return name.strip(), amount_of(_HOURLY.sub("", amount), flag)


def two_amounts(text: str, flag: str = "--api") -> tuple[str, float, float]:
    """A name, which may be empty, and what a million tokens cost in and out, from `0.5/1.5 per M`."""
    name, _, amounts = text[:_LONGEST].rpartition("=")
    parts = _PER_MILLION.sub("", amounts).split("/")
    if len(parts) > 2:  # noqa: PLR2004 (in and out)
        raise UserError(f"{flag} {text[:40]!r} has more than two amounts", f'write it like {flag} "0.5/1.5 per M"')
    numbers = [amount_of(part, flag) for part in parts]
    return name.strip(), numbers[0], numbers[-1]
