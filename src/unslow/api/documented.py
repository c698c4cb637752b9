"""What a function of this package takes, in the words of its docstring: for the reference and for tools of agents."""

import inspect
import re
import typing
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

_ARGUMENT = re.compile(r"(\w+): (.+)")
NEEDED = inspect.Parameter.empty
"""The default of an argument that has none."""


class Argument(NamedTuple):
    """One argument: its type as Python has it, and what it is for."""

    name: str
    kind: Any
    default: Any
    words: str


class Documented(NamedTuple):
    """A function as its docstring has it."""

    summary: str
    """The first line."""
    text: str
    """What stands between it and the arguments; may be empty."""
    arguments: tuple[Argument, ...]


def documented(function: Callable[..., Any]) -> Documented:
    """The docstring taken apart: every line `name: words` at its end is about an argument."""
    parameters = inspect.signature(function).parameters
    kinds = typing.get_type_hints(function)
    text, words = _apart(inspect.getdoc(function) or "", set(parameters))
    summary, _, rest = text.partition("\n")
    arguments = (Argument(name, kinds[name], one.default, words.get(name, "")) for name, one in parameters.items())
    return Documented(summary, rest.strip(), tuple(arguments))


def _apart(doc: str, names: set[str]) -> tuple[str, dict[str, str]]:
    """The text before the arguments, and the words of each, those of several lines joined."""
    text, words = [], dict[str, str]()
    for line in doc.splitlines():
        match = _ARGUMENT.fullmatch(line)
        if match and match[1] in names:
            words[match[1]] = match[2]
        elif words and line.strip():
            last = next(reversed(words))
            words[last] += f" {line.strip()}"
        elif not words:
            text.append(line)
    return "\n".join(text).strip(), words


def paragraphs(text: str) -> Iterator[str]:
    """A text of a docstring, each paragraph in one line."""
    return (" ".join(part.split()) for part in text.split("\n\n") if part.strip())
