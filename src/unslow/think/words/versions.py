"""Runtimes and their versions in prose: which one, and between which two it got slow."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from unslow.catalog.report_words import runtime_words, version_phrases
from unslow.facts.values import NOT_LOOKED, Fact, told
from unslow.think.words.lines import Line

_LABEL = re.compile(r"^(?:runtime|software|backend|engine|server|version)\b[^:]{0,20}:")
_UPDATE = re.compile(r"\bfrom v?\d[\d.]{1,12}\w{0,6} to (?:version )?v?(\d[\d.]{1,12}\d)")
_OTHER_PACKAGE = re.compile(r"\b(?!transformers|vllm|sglang)\w+==[\d.]{3,12}")
_BUILD = re.compile(r"^b(\d{3,6})\b|\(build (\d{3,6})\)|\bbuild b?(\d{3,6})\b")


class Versions(NamedTuple):
    """The runtime that is meant, its version, and the border between well and slow."""

    name: Fact[str] = NOT_LOOKED
    version: Fact[str] = NOT_LOOKED
    before: Fact[str] = NOT_LOOKED
    since: Fact[str] = NOT_LOOKED


def versions_told(lines: Sequence[Line]) -> Versions:
    """Which runtime of which version, and where the border is."""
    name, version = _runtime(lines)
    before, since = _border(lines, version)
    return Versions(name, version, before, since)


def _runtime(lines: Sequence[Line]) -> tuple[Fact[str], Fact[str]]:
    for line in [*(x for x in lines if _LABEL.match(x.text)), *lines]:
        for word, name in runtime_words():
            at = line.text.find(word)
            if at >= 0:
                return told(name, line.where), _version_at(line, at, word)
    return NOT_LOOKED, NOT_LOOKED


def _version_at(line: Line, at: int, word: str) -> Fact[str]:
    """The version beside a runtime's name: the newer of an update, one behind it, or a build of llama.cpp before it."""
    rest = line.text[at + len(word) : at + len(word) + 48]
    if update := _UPDATE.search(rest):
        return told(update[1], line.where)
    near = _OTHER_PACKAGE.sub(lambda found: " " * len(found[0]), rest[:24])
    number = version_phrases()["version"].search(near)
    short = re.match(r"\W{1,3}(?:version )?(\d{1,2}\.\d{1,3})\b", near)
    build = _BUILD.search(line.text)
    found = number[0] if number else short[1] if short else f"b{build[1] or build[2] or build[3]}" if build else ""
    return told(found, line.where) if found else NOT_LOOKED


def versions_in(text: str) -> list[str]:
    """Every version that a text names."""
    return [match[0] for match in version_phrases()["version"].finditer(text)]


def other_version(one: str, other: str) -> bool:
    """Whether two texts name one version each, of the same kind, and not the same one."""
    ours, theirs = set(versions_in(one)), set(versions_in(other))
    return len(ours) == len(theirs) == 1 and ours != theirs and {*map(_kind, ours)} == {*map(_kind, theirs)}


def _border(lines: Sequence[Line], version: Fact[str]) -> tuple[Fact[str], Fact[str]]:
    before: Fact[str] = NOT_LOOKED
    since: Fact[str] = NOT_LOOKED
    for line in lines:
        if slower := version_phrases()["slower"].search(line.text):
            named = slower.groupdict()
            old = next(value for name, value in named.items() if name.startswith("old") and value)
            new = next((v for name, v in named.items() if name.startswith("new") and v), version.value_or(""))
            if old != new:
                return told(old, line.where), told(new, line.where) if new else NOT_LOOKED
        if pair := version_phrases()["pair"].search(line.text):
            older, newer = sorted((pair["a"], pair["b"]), key=_order)
            if older != newer:
                return told(older, line.where), told(newer, line.where)
        if (match := version_phrases()["since"].search(line.text)) and since == NOT_LOOKED:
            since = told(_named(match), line.where)
        if (match := version_phrases()["before"].search(line.text)) and before == NOT_LOOKED:
            before = told(_named(match), line.where)
        if before == NOT_LOOKED:
            before = _older(line, version.value_or(""))
    return before, since


def _named(match: re.Match[str]) -> str:
    return next(value for value in match.groupdict().values() if value)


def _older(line: Line, version: str) -> Fact[str]:
    """Another, older version in a line with a number: people quote what the last good one gave."""
    if not version or not re.search(r"\d", line.text):
        return NOT_LOOKED
    others = [
        v
        for v in version_phrases()["version"].findall(line.text)
        if _kind(v) == _kind(version) and _order(v) < _order(version)
    ]
    return told(others[0], line.where) if others else NOT_LOOKED


def _kind(version: str) -> str:
    return "build" if version.startswith("b") else version.partition(" ")[0] if " " in version else "version"


def _order(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d{1,9}", version)) or (0,)
