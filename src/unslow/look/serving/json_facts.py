"""Settings within a JSON answer, each checked for its kind: a server may send anything."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from unslow.facts.units import GIB
from unslow.facts.values import LARGEST_COUNT, Known, reported
from unslow.look.json_fields import at

_MOST_GIBIBYTES = 2**30
_LONGEST_TEXT = 200


class Place(NamedTuple):
    """A fact, where it lies, and what kind it must be; a kind gives None for any other."""

    fact: str
    path: tuple[str, ...]
    kind: Callable[[Any], Any]


def facts_at(data: Any, places: Sequence[Place], source: str) -> dict[str, Known[Any]]:
    """The facts that are there; the first place of a fact counts."""
    facts: dict[str, Known[Any]] = {}
    for fact, path, kind in places:
        value = kind(at(data, *path))
        if value is not None:
            facts.setdefault(fact, reported(value, f"{source}: {'.'.join(path)}"))
    return facts


def count(value: Any) -> int | None:
    """A whole number above nought."""
    return value if type(value) is int and 0 < value < LARGEST_COUNT else None


def share(value: Any) -> float | None:
    """A share of one."""
    return float(value) if type(value) in (int, float) and 0 < value <= 1 else None


def truth(value: Any) -> bool | None:
    """On or off."""
    return value if isinstance(value, bool) else None


def untruth(value: Any) -> bool | None:
    """Off where it is on, as of `disable_something`."""
    return not value if isinstance(value, bool) else None


def text(value: Any) -> str | None:
    """A word that chooses something."""
    chosen = isinstance(value, str) and value not in ("", "auto")
    return value[:_LONGEST_TEXT].removeprefix("torch.") if chosen else None


def gibibytes(value: Any) -> int | None:
    """A size in GiB, in bytes."""
    return round(value * GIB) if type(value) in (int, float) and 0 <= value < _MOST_GIBIBYTES else None
