"""Sizes and durations as programs in Go print them: `22.7 GiB`, `5.4 GB`, `1m2.3s`, `843ms`."""

import re

_SIZE = re.compile(r"(?<![-\d.])(\d{1,18}(?:\.\d{1,9})?)\s?([KMGTP]?)(i?)B\b", re.IGNORECASE)
_PLAIN = re.compile(r"\d{1,18}")
_POWERS = {"": 0, "K": 1, "M": 2, "G": 3, "T": 4, "P": 5}
_PART = r"\d{1,15}(?:\.\d{1,12})?(?:h|ms|m|s|µs|μs|us|ns)"  # both Greek letters: keyboards and fonts differ
_DURATION = re.compile(rf"(?:{_PART}){{1,6}}")
_PARTS = re.compile(r"(\d{1,15}(?:\.\d{1,12})?)(h|ms|m|s|µs|μs|us|ns)")
_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "µs": 1e-6, "μs": 1e-6, "us": 1e-6, "ns": 1e-9}
_MOST_BYTES = 2**60
_MOST_SECONDS = 1e9

DURATION = _DURATION.pattern
"""A duration inside another pattern."""


def size_bytes(text: str) -> int | None:
    """The first size of a text, or a bare number of bytes; None where there is neither."""
    sizes = all_sizes(text)
    if sizes:
        return sizes[0]
    plain = _PLAIN.fullmatch(text.strip())
    return int(plain[0]) if plain and int(plain[0]) < _MOST_BYTES else None


def all_sizes(text: str) -> list[int]:
    """Every size of a text such as `[22.0 GiB 11.5 GiB]`; GB is decimal and GiB is not, as Ollama writes them."""
    found = []
    for number, letter, binary in _SIZE.findall(text):
        size = round(float(number) * (1024 if binary else 1000) ** _POWERS[letter.upper()])
        if size < _MOST_BYTES:
            found.append(size)
    return found


def seconds(text: str) -> float | None:
    """A duration in seconds; None where the text is none."""
    text = text.strip()
    if not _DURATION.fullmatch(text):
        return None
    total = sum(float(number) * _SECONDS[unit] for number, unit in _PARTS.findall(text))
    return total if total < _MOST_SECONDS else None
