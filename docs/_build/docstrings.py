"""What a public function takes, in the words of its docstring: for the reference and for the stub of the package."""

import inspect
import re
import typing
from collections.abc import Callable, Iterator
from types import UnionType
from typing import Any, NamedTuple, Union

_MODULE = re.compile(r"\b(?:typing|collections\.abc|pathlib|unslow(?:\.\w+)+)\.(?=\w)")
_CLASS = re.compile(r"<class '([\w.]+)'>")
_ARGUMENT = re.compile(r"(\w+): (.+)")
NEEDED = inspect.Parameter.empty
"""The default of an argument that has none."""


class Argument(NamedTuple):
    """One argument: its type as Python has it, and what it is for."""

    name: str
    kind: Any
    default: Any
    words: str
    by_name: bool
    """Whether it can't be given by its place."""


class Docstring(NamedTuple):
    """A function as its docstring has it."""

    summary: str
    """The first line."""
    text: str
    """What stands between it and the arguments; may be empty."""
    arguments: tuple[Argument, ...]
    gives: Any
    """The type of the answer, or its name."""


def docstring_of(function: Callable[..., Any]) -> Docstring:
    """The docstring taken apart: every line `name: words` at its end is about an argument."""
    signature = inspect.signature(function)
    text, words = _apart(inspect.getdoc(function) or "", set(signature.parameters))
    summary, _, rest = text.partition("\n")
    arguments = (
        Argument(name, one.annotation, one.default, words.get(name, ""), one.kind is inspect.Parameter.KEYWORD_ONLY)
        for name, one in signature.parameters.items()
    )
    return Docstring(summary, rest.strip(), tuple(arguments), signature.return_annotation)


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


def type_text(kind: Any) -> str:
    """A type as one writes it."""
    if isinstance(kind, str):
        return kind
    if typing.get_origin(kind) in (Union, UnionType):
        return " | ".join(type_text(one) for one in typing.get_args(kind))
    text = _CLASS.sub(r"\1", str(kind)).replace("NoneType", "None")
    return _MODULE.sub("", text).replace("'", '"')
