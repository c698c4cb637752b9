"""Makes a report safe for a terminal and for JSON: a server or file name can hold escape sequences or megabytes."""

import re
from typing import Any, TypeVar

import msgspec

from unslow.think.report import Report

Shown = TypeVar("Shown", bound=msgspec.Struct)

_LONGEST = 4000  # A command line that names many tensors is the longest text that has to stay whole
# control characters (but for the newline), and those that turn the direction of writing
_UNSAFE = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def cleaned(report: Shown) -> Shown:
    """The report without characters that do more than stand there, and with long texts cut."""
    return msgspec.convert(_cleaned(msgspec.to_builtins(report)), type(report))


def safe(text: str) -> str:
    """The text without what could drive a terminal, and cut where it is endless."""
    text = without_controls(text)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def without_controls(text: str) -> str:
    """All of the text, such as a traceback, without what could drive a terminal."""
    return _UNSAFE.sub("�", text)


def as_json(value: object) -> str:
    """A value as indented JSON that is safe to show."""
    return safe_json(msgspec.json.format(msgspec.json.encode(value), indent=2).decode())


def safe_json(text: str) -> str:
    """The same JSON with those characters as their numbers, which mean the same: they stand only in strings."""
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _cleaned(value: Any) -> Any:
    match value:
        case str():
            return safe(value)
        case list() | tuple():
            return [_cleaned(v) for v in value]
        case dict():
            return {_cleaned(k): _cleaned(v) for k, v in value.items()}
        case _:
            return value


def render_json(report: Report, *, width: int, color: bool, everything: bool) -> str:  # noqa: ARG001 (one signature for all)
    """The whole report, indented."""
    return as_json(report)
