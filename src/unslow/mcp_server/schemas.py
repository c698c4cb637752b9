"""JSON schemas of what a tool takes and gives, from the functions and structs themselves."""

import re
import types
import typing
from collections.abc import Callable, Collection, Sequence
from typing import Annotated, Any, Literal, Union

import msgspec

from unslow.api.documented import NEEDED, Argument, documented

_PLAIN = (str, int, float, bool)
_LEFT_OUT, _NONE = re.compile(r"\bNone for\b"), re.compile(r"\bNone\b")
_INSIDE = frozenset({"progress"})
"""Arguments that a program gives and an agent can't."""


def arguments_of(function: Callable[..., Any], without: Collection[str] = ()) -> type[msgspec.Struct]:
    """What may be asked: the arguments of a function that JSON has, each with its words; nothing else is taken."""
    asked = [one for one in documented(function).arguments if one.name not in _INSIDE | set(without)]
    fields: list[Any] = [_field(one) for one in asked]
    return msgspec.defstruct(function.__name__, fields, kw_only=True, forbid_unknown_fields=True)


def _field(argument: Argument) -> tuple[Any, ...]:
    kind: Any = Annotated[plain(argument.kind), msgspec.Meta(description=in_json(argument.words))]
    return (argument.name, kind) if argument.default is NEEDED else (argument.name, kind, argument.default)


def in_json(words: str) -> str:
    """Words about Python as whoever writes JSON needs them."""
    return _NONE.sub("null", _LEFT_OUT.sub("by default", words))


def plain(kind: Any) -> Any:
    """A type without what only a program can hand over, and without None: what is not given is left out."""
    if typing.get_origin(kind) is Sequence:
        return Sequence[plain(typing.get_args(kind)[0])]  # type: ignore[misc]
    if typing.get_origin(kind) not in (Union, types.UnionType):
        return kind
    return Union[tuple(one for one in typing.get_args(kind) if _is_plain(one))]  # noqa: UP007 (their number varies)


def _is_plain(kind: Any) -> bool:
    return kind in _PLAIN or typing.get_origin(kind) in (Sequence, Literal)


def schema_of(kind: type[msgspec.Struct], extra: dict[str, dict[str, Any]] | None = None) -> dict[str, Any]:
    """The schema of a struct with an object at its root, as the protocol wants it, and further properties."""
    (root,), parts = msgspec.json.schema_components([kind], ref_template="#/$defs/{name}")
    own = parts.pop(root["$ref"].rpartition("/")[2])
    own["properties"] = {name: _short(one) for name, one in own["properties"].items()} | (extra or {})
    return {**own, "$defs": parts} if parts else own


def _short(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema of a property without a default that says nothing."""
    return {name: value for name, value in schema.items() if name != "default" or value not in (None, [], ())}
