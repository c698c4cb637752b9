"""What public bug reports teach: the words in which people say what they saw, and how often each cause is behind it."""

import re
from functools import cache, partial
from typing import Any, NamedTuple

import msgspec

from unslow.catalog import entry
from unslow.facts.account import Topic

_words = partial(entry, "words", kind=dict[str, Any])


class Phrases(NamedTuple):
    """How a topic is spoken of, and what takes a match back where it stands before it."""

    says: re.Pattern[str]
    unless: re.Pattern[str] | None = None


@cache
def remark_phrases() -> dict[Topic, Phrases]:
    """Observations by topic."""
    return {
        Topic(name): Phrases(_any(said["says"]), _any(said["unless"]) if "unless" in said else None)
        for name, said in _words("remarks").items()
    }


@cache
def difference_phrases() -> dict[Topic, re.Pattern[str]]:
    """What differs, by topic."""
    return {Topic(name): _any(patterns) for name, patterns in _words("differences").items()}


class Presence(NamedTuple):
    """How a label says that a thing is there, and how that it is not."""

    there: re.Pattern[str]
    lacking: re.Pattern[str] | None = None


@cache
def presence_phrases() -> dict[Topic, Presence]:
    """What says that a side of a comparison has a thing, by topic: where nothing else is said, its very name."""
    found = {topic: Presence(pattern) for topic, pattern in difference_phrases().items()}
    for name, said in _words("sides").items():
        topic = Topic(name)
        there = _any(said["with"]) if "with" in said else found[topic].there
        found[topic] = Presence(there, _any(said["without"]))
    return found


def _any(patterns: list[str]) -> re.Pattern[str]:
    return _compile_pattern("|".join(f"(?:{pattern})" for pattern in patterns))


def _compile_pattern(pattern: str) -> re.Pattern[str]:
    """The pattern, with endings of words as long as words are: a text without blanks would be read many times."""
    return re.compile(pattern.replace(r"\w*", r"\w{0,24}").replace(r"\w+", r"\w{1,24}"))


class NumberPhrase(NamedTuple):
    """A fact, how its value is read, and the words around it."""

    path: str
    kind: str
    says: re.Pattern[str]


@cache
def number_phrases() -> tuple[NumberPhrase, ...]:
    """Numbers and settings by the fact that they are."""
    return tuple(
        NumberPhrase(said["path"], said["as"], _compile_pattern(said["says"])) for said in _words("numbers")["fact"]
    )


@cache
def version_phrases() -> dict[str, re.Pattern[str]]:
    """How people say which version was well and since which it is not; `VERSION` stands for any of them."""
    table = _words("versions")
    version = _any(table["version"]).pattern
    return {name: _any([p.replace("VERSION", f"(?:{version})") for p in table[name]]) for name in table}


@cache
def runtime_words() -> tuple[tuple[str, str], ...]:
    """What runtimes are called in prose, the longer name first, and their name in facts."""
    pairs = ((word, name) for name, words in _words("runtimes").items() for word in words)
    return tuple(sorted(pairs, key=lambda pair: -len(pair[0])))


class _CauseCounts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    source: str
    reports: int
    seen: dict[str, float]


def cause_frequency(cause: str) -> float:
    """The share of reports that a cause is behind, with one more report for each: unreported causes happen too."""
    counted = entry("causes", "frequency", _CauseCounts)
    return (counted.seen.get(cause, 0.0) + 1) / (counted.reports + len(counted.seen))
