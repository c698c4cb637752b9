"""Blocks of lines within a larger text: where they are, and facts that say so."""

import re
from typing import Any, TypeVar

import msgspec

from unslow.facts.machine import Facts
from unslow.facts.values import Known
from unslow.look.logs.dialect import Text

F = TypeVar("F", bound=Facts)
Span = tuple[int, int]
_MOST_BLANK = 2


def spans_of(text: Text, starts: re.Pattern[str], goes_on: re.Pattern[str]) -> tuple[Span, ...]:
    """Runs of lines that begin with one that `starts` finds and go on while `goes_on` finds, over a few blank lines."""
    spans: list[Span] = []
    end = 0
    for index, line in enumerate(text.lines):
        if index >= end and starts.search(line):
            end = _end(text, index + 1, goes_on)
            spans.append((index, end))
    return tuple(spans)


def _end(text: Text, index: int, goes_on: re.Pattern[str]) -> int:
    end, blank = index, 0
    for line in text.lines[index:]:
        index += 1
        if goes_on.search(line):
            end, blank = index, 0
        elif line.strip() or blank == _MOST_BLANK:
            break
        else:
            blank += 1
    return end


def block(text: Text, span: Span) -> str:
    """The lines of a span as one string."""
    return "\n".join(text.lines[span[0] : span[1]])


def placed(facts: F, where: str) -> F:
    """The facts, each from this place instead of from the tool that it names."""
    changes = {name: _placed(getattr(facts, name), where) for name in facts.__struct_fields__}
    return msgspec.structs.replace(facts, **changes)


def _placed(value: Any, where: str) -> Any:
    match value:
        case Known():
            return Known(_placed(value.value, where), value.origin, where)
        case Facts():
            return placed(value, where)
        case tuple() | list():
            return type(value)(_placed(each, where) for each in value)
        case _:
            return value
