"""Amounts of money as people write them: `RTX 3090=700`, `H100=2.5/h`, `0.5/1.5 per M`."""

import re

from unslow.facts.errors import UserError

_NUMBER = re.compile(
    r"(?:usd|eur|gbp|[$€£])?\s*(\d{1,9}(?:[,_]\d{3})*(?:\.\d{1,6})?)\s*+([km]?)\s*+(?:usd|eur|gbp|[$€£])?",
    re.IGNORECASE,
)
_GOAL = re.compile(r"(\d{1,6}(?:\.\d{1,3})?)\s*(?:tok(?:ens?)?\s*(?:/|per)\s*s(?:ec(?:ond)?)?|t/s|tps)?", re.IGNORECASE)
_HOURLY = re.compile(r"(?<!\s)\s*(?:/|per|an)\s*h(?:our|r)?\s*$", re.IGNORECASE)
_PER_MILLION = re.compile(r"(?<!\s)\s*(?:/|per)\s*(?:1?\s?m(?:tok|illion(?: tokens)?)?)\s*$", re.IGNORECASE)
_LONGEST = 200


def parsed_amount(text: str, what: str = "the price") -> float:
    """An amount from `700`, `1,499`, `$1.5k` or `2m`; UserError where it is none."""
    match = _NUMBER.fullmatch(text.strip()[:_LONGEST])
    if not match:
        raise UserError(f"{what}: {text[:40]!r} is no amount", "write it like 700 or 1499.50")
    return float(match[1].replace(",", "").replace("_", "")) * {"": 1, "k": 1e3, "m": 1e6}[match[2].lower()]


def parsed_goal(text: str) -> float:
    """Tokens per second from `20 tok/s`, `20 t/s` or `20`; UserError where it is none."""
    match = _GOAL.fullmatch(text.strip()[:_LONGEST])
    if not match or not float(match[1]):
        raise UserError(f"--goal {text[:40]!r} is no speed", 'write it like "20 tok/s"')
    return float(match[1])


def named_amount(text: str, flag: str) -> tuple[str, float]:
    """A name and an amount from `RTX 3090=700` or `H100=2.5/h`; UserError where one of them is missing."""
    name, between, amount = text[:_LONGEST].rpartition("=")
    if not between or not name.strip():
        example = '"H100=2.5/h"' if flag == "--rent" else '"RTX 3090=700"'
        raise UserError(f"{flag} {text[:40]!r} has no name and amount", f"write it like {flag} {example}")
    return name.strip(), parsed_amount(_HOURLY.sub("", amount), flag)


def two_amounts(text: str, flag: str = "--api") -> tuple[str, float, float]:
    """A name, which may be empty, and what a million tokens cost in and out, from `0.5/1.5 per M`."""
    name, _, amounts = text[:_LONGEST].rpartition("=")
    parts = _PER_MILLION.sub("", amounts).split("/")
    if len(parts) > 2:  # noqa: PLR2004 (in and out)
        raise UserError(f"{flag} {text[:40]!r} has more than two amounts", f'write it like {flag} "0.5/1.5 per M"')
    numbers = [parsed_amount(part, flag) for part in parts]
    return name.strip(), numbers[0], numbers[-1]
