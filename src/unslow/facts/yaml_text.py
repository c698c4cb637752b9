"""YAML as this program writes it, for a person to read: long texts as blocks, everything doubtful in quotes."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence

_PLAIN = re.compile(r"[A-Za-z_/][\w ./:-]*(?<![: ])")
_MEANT = re.compile(r"(?i)true|false|yes|no|on|off|null|y|n")
"""Words that YAML takes for something else than text."""

Value = str | int | float | Mapping[str, "Value"] | Sequence["Value"]


def as_yaml(value: Value) -> str:
    """The whole, with a newline at its end."""
    return "\n".join(_lines(value, 0)) + "\n"


def in_quotes(text: str) -> str:
    """A text in double quotes, which YAML reads as JSON does."""
    return json.dumps(text, ensure_ascii=False)


def in_compose_quotes(text: str) -> str:
    """The same for a compose file, in which a single dollar begins a variable."""
    return in_quotes(text.replace("$", "$$"))


def _lines(value: Value, depth: int) -> Iterator[str]:
    pad = "  " * depth
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _entry(f"{pad}{_text(key)}:", inner, depth)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for inner in value:
            first, *rest = _lines(inner, depth + 1) if _is_nested(inner) else [f"{pad}  {_scalar(inner)}"]
            yield f"{pad}- {first.strip()}"
            yield from rest


def _entry(head: str, inner: Value, depth: int) -> Iterator[str]:
    if _is_nested(inner):
        yield head
        yield from _lines(inner, depth + 1)
    elif isinstance(inner, str) and "\n" in inner:
        yield f"{head} |-"
        yield from (f"{'  ' * (depth + 1)}{line}".rstrip() for line in inner.splitlines())
    else:
        yield f"{head} {_scalar(inner)}"


def _is_nested(value: Value) -> bool:
    return not isinstance(value, str | int | float) and bool(value)


def _scalar(value: Value) -> str:
    if isinstance(value, str):
        return _text(value)
    return json.dumps(value) if isinstance(value, int | float) else ("{}" if isinstance(value, Mapping) else "[]")


def _text(text: str) -> str:
    """As it is, else in the quotes that leave most of it as it is."""
    if _PLAIN.fullmatch(text) and not _MEANT.fullmatch(text) and ": " not in text:
        return text
    single = '"' in text and "'" not in text and text.isprintable()
    return f"'{text}'" if single else in_quotes(text)
