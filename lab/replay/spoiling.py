"""What hostile servers say: the right answer with every number, text or shape in it made wrong.

Each takes JSON, or the text of an answer that is none, and the API key that was sent.
"""

import itertools
import json
import re
from collections.abc import Callable
from typing import Any

ESCAPES = "\x1b]0;owned\x07\x1b[2J\x1b[31mred\x9b5m\u202egnp.exe"
_NOT_UTF8_MARK = "\ue000"
_NOT_UTF8 = b"\xff\xfe\xc3\x28"
_NUMBER = re.compile(r"(?<=[ ,=:])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?(?=$|[,\s}])", re.MULTILINE)


def _leaves(value: Any, change: Callable[[Any], Any]) -> Any:
    """The same shape with every leaf changed."""
    match value:
        case dict():
            return {name: _leaves(part, change) for name, part in value.items()}
        case list():
            return [_leaves(part, change) for part in value]
        case _:
            return change(value)


def numbers(value: Any, _key: str) -> Any:
    """Numbers that no counter shows, in turn; JSON has a word for each of them."""
    turn = itertools.cycle([-1, 1e308, 2**70, -1e-300, -(2**63)])
    if isinstance(value, str):
        return _NUMBER.sub(lambda _: str(next(turn)), value)
    return _leaves(value, lambda leaf: next(turn) if _is_number(leaf) else leaf)


def not_numbers(value: Any, _key: str) -> Any:
    """What is no number, in turn; Python writes it into JSON, which has no word for it."""
    turn = itertools.cycle([float("nan"), float("inf"), float("-inf")])
    if isinstance(value, str):
        return _NUMBER.sub(lambda _: {"nan": "NaN", "inf": "+Inf"}.get(str(next(turn)), "-Inf"), value)
    return _leaves(value, lambda leaf: next(turn) if _is_number(leaf) else leaf)


def _is_number(leaf: Any) -> bool:
    return isinstance(leaf, int | float) and not isinstance(leaf, bool)


def types(value: Any, _key: str) -> Any:
    """Every leaf of another type than it should be."""
    others: dict[type, Any] = {str: 17, int: "seventeen", float: ["1.5"], bool: "yes", type(None): {}}
    return value[::-1] if isinstance(value, str) else _leaves(value, lambda leaf: others[type(leaf)])


def shapes(value: Any, _key: str) -> Any:
    """Lists where objects should be, and the other way round."""
    match value:
        case dict():
            return [shapes(part, "") for part in value.values()]
        case list():
            return {str(i): shapes(part, "") for i, part in enumerate(value)}
        case _:
            return value


def _with(value: Any, more: str) -> Any:
    if isinstance(value, str):
        return "\n".join(f"{line}{more}" for line in value.split("\n"))
    return _leaves(value, lambda leaf: f"{leaf}{more}" if isinstance(leaf, str) else leaf)


def escapes(value: Any, _key: str) -> Any:
    """Texts that would drive a terminal."""
    return _with(value, ESCAPES)


def echo(value: Any, key: str) -> Any:
    """Texts that hold the key that was sent."""
    return _with(value, f" Bearer {key}" if key else "")


def marked(value: Any, _key: str) -> Any:
    """Texts with a mark for `spoiled`."""
    return _with(value, _NOT_UTF8_MARK)


def spoiled(data: bytes) -> bytes:
    """The mark as bytes that are no UTF-8."""
    escaped = json.dumps(_NOT_UTF8_MARK).strip('"').encode()
    return data.replace(escaped, _NOT_UTF8).replace(_NOT_UTF8_MARK.encode(), _NOT_UTF8)
