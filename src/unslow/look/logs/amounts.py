"""Numbers with their units, as the tools of AMD, Intel, Apple and Microsoft print them."""

import re
from typing import Any

from unslow.facts.units import GIB, KIB, MHZ, MIB
from unslow.facts.values import Fact, not_supported, reported

# A comma is a decimal one (Task Manager follows the country), but not where three digits follow: those are thousands.
_AMOUNT = re.compile(
    r"(?<![\w.])x?(-?\d{1,18}(?:\.\d{1,9}|,\d{1,2}(?!\d))?)(?!\.?\d|[eE][+-]?\d)\s*(?:°\s*)?([A-Za-z%]{0,4})"
)
_NOTHING = ("", "n/a", "na", "none", "unsupported", "unknown", "-", "[n/a]")

# These tools count memory in powers of two, whether they call it MB or MiB.
_SIZES = {"b": 1, "kb": KIB, "kib": KIB, "mb": MIB, "mib": MIB, "gb": GIB, "gib": GIB, "k": KIB, "m": MIB, "g": GIB,
          "tb": 1024 * GIB, "tib": 1024 * GIB}  # fmt: skip
_SCALES = {"": 1, "%": 0.01, "c": 1, "w": 1, "mw": 1e-3, "mhz": MHZ, "ghz": 1e3 * MHZ, "hz": 1, "x": 1, **_SIZES}


def amount(text: str, unit: str, source: str) -> Fact[Any]:
    """The first number in SI; `unit` is what it is in where the text names none that is known."""
    match = _AMOUNT.search(text)
    if text.strip().casefold() in _NOTHING or not match:
        return not_supported(f'{source} says "{text.strip()[:40]}"')
    name, written = unit.casefold(), match[2].casefold()
    if written and written in _SCALES and (written in _SIZES) == (name in _SIZES):
        name = written
    value = round(float(match[1].replace(",", ".")) * _SCALES[name], 6)
    return reported(round(value) if name in _SIZES or value.is_integer() else value, source)


def word(text: str, source: str) -> Fact[Any]:
    """The text itself, or that the tool has none."""
    plain = text.strip()
    return not_supported(f'{source} says "{plain}"') if plain.casefold() in _NOTHING else reported(plain, source)
