"""What changed in which version of a runtime, where that changes speed or what can be seen: one TOML each."""

import re
from functools import cache

import msgspec

from unslow.catalog import entries
from unslow.facts.account import Topic

_NUMBERS = re.compile(r"\d+")
_MOST_NUMBERS = 4


class VersionChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One change: from `version` on, `what` is so."""

    runtime: str
    """As the facts of a runtime name it, such as llama.cpp."""
    version: str
    topic: Topic
    what: str
    source: str
    undo: str = ""
    """How to have it as before, as a value of the setting that the topic is about; empty where one can't."""


@cache
def version_changes() -> tuple[VersionChange, ...]:
    """Every change that is known."""
    return tuple(change for _, change in entries("changes", VersionChange))


def changes_at(runtime: str, before: str, since: str) -> tuple[VersionChange, ...]:
    """The changes between the last good version and the first bad one; with no good one, those of exactly the bad."""
    bad, good = version_numbers(since), version_numbers(before)
    found = (c for c in version_changes() if c.runtime.lower() in runtime.lower() and bad)
    return tuple(c for c in found if _within(version_numbers(c.version), good, bad))


def _within(at: tuple[int, ...], good: tuple[int, ...], bad: tuple[int, ...]) -> bool:
    return good < at <= bad if good else at == bad


def version_numbers(version: str) -> tuple[int, ...]:
    """A version as numbers that compare: b1843 is (1843,), v0.15.5-rc1 is (0, 15, 5, 1), nothing is ()."""
    return tuple(int(n[:9]) for n in _NUMBERS.findall(version)[:_MOST_NUMBERS])
