"""What the buyer's commands ask alike: the work that a device is bought for, and the buyer's own prices."""

import re
from typing import Annotated

from unslow.commands._request import Kind, LongRequest, Option, Quant, parse_size

_AMOUNT = re.compile(
    r"(?:usd|eur|gbp|[$€£])?\s*(\d{1,9}(?:[,_]\d{3})*(?:\.\d{1,6})?)\s*+([km]?)\s*+(?:usd|eur|gbp|[$€£])?",
    re.IGNORECASE,
)
_GOAL = re.compile(r"(\d{1,6}(?:\.\d{1,3})?)\s*(?:tok(?:ens?)?\s*(?:/|per)\s*s(?:ec(?:ond)?)?|t/s|tps)?", re.IGNORECASE)
_PRICES = "prices (yours override the built-in ones)"
_LONGEST = 200


def parse_amount(text: str) -> float:
    """An amount from `700`, `1,499`, `$1.5k` or `2m`; ValueError where it is none."""
    match = _AMOUNT.fullmatch(text.strip()[:_LONGEST])
    if not match:
        raise ValueError
    return float(match[1].replace(",", "").replace("_", "")) * {"": 1, "k": 1e3, "m": 1e6}[match[2].lower()]


def parse_goal(text: str) -> float:
    """Tokens per second from `20 tok/s`, `20 t/s` or `20`; ValueError where it is none."""
    match = _GOAL.fullmatch(text.strip()[:_LONGEST])
    if not match or not float(match[1]):
        raise ValueError
    return float(match[1])


def _parse_memory(text: str) -> int:
    """A size of memory; a number alone is GB."""
    text = text.strip()
    size = parse_size(f"{text}GB" if text.replace(".", "", 1).isdecimal() else text)
    if not size:
        raise ValueError
    return size


AMOUNT = Kind("an amount such as 700 or 1499.50", parse_amount, float | str, (int, float))
GOAL = Kind('a speed such as "20 tok/s"', parse_goal, float | str, (int, float))
MEMORY = Kind("a memory size such as 24 or 24GB", _parse_memory, str, int)


class Work(LongRequest, frozen=True, kw_only=True):
    """The model, and how it is used."""

    model: Annotated[str, Option("model name, file, URL or stored model", metavar="MODEL", needed=True)]
    quant: Quant = None
    context: Annotated[
        int, Option("tokens in the context: 8192 (default) or 32k", "-c", metavar="N", least=0, most=2**27)
    ] = 8192
    users: Annotated[
        int, Option("concurrent conversations, each with this context (default: 1)", metavar="N", least=1, most=4096)
    ] = 1
    prompt: Annotated[
        int,
        Option("prompt tokens for the prefill prediction (default: 512)", metavar="N", least=1, most=2**24,
               seldom=True),
    ] = 512  # fmt: skip
    kv_type: Annotated[str, Option("KV cache type (default: f16)", "-ctk", metavar="TYPE", seldom=True)] = "f16"
    price: Annotated[
        tuple[str, ...], Option('price of one device: "RTX 3090=700"; repeatable', metavar="NAME=AMOUNT", group=_PRICES)
    ] = ()
    prices: Annotated[
        str,
        Option("TOML file with [prices], [rents], [apis], currency and electricity", metavar="FILE.toml", group=_PRICES,
               seldom=True),
    ] = ""  # fmt: skip
    currency: Annotated[
        str,
        Option(
            "currency of your prices (default: USD; built-in prices apply to USD only)",
            metavar="NAME",
            group=_PRICES,
            seldom=True,
        ),
    ] = ""
