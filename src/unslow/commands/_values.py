"""Values as people write them: 128k tokens, 24GB of memory, 80GB/s, 1%. Each kind of value knows how it is read."""

import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from unslow.facts.errors import UserError
from unslow.facts.units import GB, GIB, KIB, MB, MIB

_COUNT = re.compile(r"(-?)(\d{1,12})([km]?)", re.IGNORECASE)
_SIZE = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)\s*([kmgt]i?b?|)", re.IGNORECASE)
_SIZE_UNITS = {"": MIB, "k": KIB, "m": MIB, "g": GIB, "t": 1024 * GIB}
"""A memory of 24 GB has 24 GiB, whatever a disk of 24 GB has; a bare number is MiB, as llama.cpp counts margins."""
_SPEED = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)\s*([mgt]i?b?|)(?:/s|ps)?", re.IGNORECASE)
_SPEED_UNITS = {"": GB, "gb": GB, "g": GB, "gib": GIB, "mb": MB, "mib": MIB, "tb": 1000 * GB, "t": 1000 * GB,
                "tib": 1024 * GIB}  # fmt: skip
_PERCENT = re.compile(r"(\d{1,3}(?:\.\d{1,6})?)\s*%?")
_SWITCHES = {"true": True, "1": True, "on": True, "false": False, "0": False, "off": False}


class Kind(NamedTuple):
    """What values of an option look like."""

    form: str
    """Completes "must be ..."."""
    parse: Callable[[str], Any]
    """From a text; ValueError where it has not this form."""
    takes: Any
    """The type that a Python program may give."""
    of: type | tuple[type, ...] = str
    """Values of these types need no parsing."""
    choices: tuple[str, ...] = ()

    def value(self, given: Any) -> Any:
        """The value; ValueError where it can't be one."""
        if isinstance(given, self.of) and isinstance(given, bool) == (self.of is bool) and self.of is not str:
            return given
        if isinstance(given, str | int | float | Path) and not isinstance(given, bool):
            return self.parse(str(given))
        raise ValueError


def parse_count(text: str) -> int:
    """A whole number, from `8192` or `128k`, which is 128 times 1024; ValueError where it is none."""
    match = _COUNT.fullmatch(text.strip())
    if not match:
        raise ValueError
    return int(f"{match[1]}{match[2]}") * {"": 1, "k": KIB, "m": MIB}[match[3].lower()]


def parse_number(text: str) -> float:
    """A number that is finite; ValueError where it is none."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError
    return number


def parse_size(text: str) -> int:
    """Bytes, from `512`, which is MiB, `24GB` or `24GiB`; ValueError where it is neither."""
    match = _SIZE.fullmatch(text.strip())
    if not match:
        raise ValueError
    return int(float(match[1]) * _SIZE_UNITS[match[2].lower()[:1]])


def parse_speed(text: str) -> float:
    """Bytes per second, from `80`, which is GB/s, `80GB/s` or `1.8TB/s`; ValueError where it is none."""
    match = _SPEED.fullmatch(text.strip())
    factor = _SPEED_UNITS.get(match[2].lower()) if match else None
    if not match or not factor or not float(match[1]):
        raise ValueError
    return float(match[1]) * factor


def parse_percent(text: str) -> float:
    """A share, from a percentage such as `1%` or `0.5`; ValueError where it is none."""
    match = _PERCENT.fullmatch(text.strip())
    if not match:
        raise ValueError
    return float(match[1]) / 100


def parse_switch(text: str) -> bool:
    """Yes or no; ValueError where it is neither."""
    if text.lower() not in _SWITCHES:
        raise ValueError
    return _SWITCHES[text.lower()]


def size_of(text: str) -> int:
    """Bytes, as `parse_size`; UserError where the text is no size."""
    try:
        return parse_size(text)
    except ValueError:
        raise UserError(f"{text!r} is no size of memory", "write it like 24GB, 512MiB or 1TB") from None


def one_of(choices: tuple[str, ...], words: Mapping[str, str] | None = None) -> Kind:
    """One of a few words; `words` has what else people call them, in small letters and digits alone."""

    def parse(text: str) -> str:
        plain = re.sub(r"[^a-z0-9]", "", text.lower())
        meant = (words or {}).get(plain) or next((one for one in choices if re.sub(r"\W|_", "", one) == plain), "")
        if not meant:
            raise ValueError
        return meant

    return Kind(f"one of {', '.join(choices)}", parse, str, choices=choices)


TEXT = Kind("a text", str, str)
PATH = Kind("a text", str, str | Path)
TARGET = Kind("a text", str, str | int | Path)
COUNT = Kind("a whole number such as 8192 or 128k", parse_count, int | str, int)
NUMBER = Kind("a number", parse_number, float, (int, float))
SIZE = Kind("a size of memory such as 24GB, 512MiB or 1TB", parse_size, str)
SPEED = Kind("a speed of memory such as 80GB/s", parse_speed, str)
PERCENT = Kind("a percentage such as 1% or 0.5%", parse_percent, str)
SWITCH = Kind("true or false", parse_switch, bool, bool)
