"""Values out of JSON that somebody else wrote: of the right type and of a sane size, or unknown with the reason.

An answer that is not there may be given as Unknown; then so is everything in it.
"""

from typing import Any

from unslow.facts.values import LARGEST_COUNT, Fact, Unknown, failed, is_reading, reported

MOST_AMOUNT = 1e15
LONGEST_TEXT = 500


def at(data: Any, *keys: str | int) -> Any:
    """What lies at the end of a path; None where it leads nowhere."""
    for key in keys:
        if isinstance(key, str) and isinstance(data, dict):
            data = data.get(key)
        elif isinstance(key, int) and isinstance(data, list) and 0 <= key < len(data):
            data = data[key]
        else:
            return None
    return data


def objects(data: Any, *keys: str | int, most: int = 1000) -> list[dict[str, Any]]:
    """The objects of a list at the end of a path, so many at most; none where there is no such list."""
    found = at(data, *keys)
    return [part for part in found[:most] if isinstance(part, dict)] if isinstance(found, list) else []


def word(data: Any, *keys: str | int) -> str:
    """A text, cut where it is endless; empty where there is none."""
    value = at(data, *keys)
    return value[:LONGEST_TEXT] if isinstance(value, str) else ""


def text(data: Any, source: str, *keys: str | int) -> Fact[str]:
    """A text that is not empty."""
    value = word(data, *keys)
    return reported(value, source) if value else missing(data, source, keys[-1])


def count(data: Any, source: str, *keys: str | int) -> Fact[int]:
    """A whole number, nought or more."""
    value = at(data, *keys)
    sane = type(value) is int and 0 <= value < LARGEST_COUNT
    return reported(value, source) if sane else missing(data, source, keys[-1])


def amount(data: Any, source: str, *keys: str | int) -> Fact[float]:
    """A finite number, nought or more."""
    value = at(data, *keys)
    sane = type(value) in (int, float) and 0 <= value < MOST_AMOUNT and is_reading(value)
    return reported(float(value), source) if sane else missing(data, source, keys[-1])


def truth(data: Any, source: str, *keys: str | int) -> Fact[bool]:
    """True or false."""
    value = at(data, *keys)
    return reported(value, source) if isinstance(value, bool) else missing(data, source, keys[-1])


def missing(data: Any, source: str, what: str | int) -> Unknown:
    """Why something is not in an answer: the reason of the answer itself, where that is Unknown."""
    return data if isinstance(data, Unknown) else failed(f"{source} holds no {what}")
