"""`src/unslow/__init__.pyi`: the public names with their types, for whoever checks a program that uses the package.

The functions that are made from requests have no signature that a type checker could read, so it is written out here.
"""

import textwrap
from collections.abc import Callable, Iterator
from inspect import getdoc, isfunction
from typing import Any

from docs._build.docstrings import NEEDED, Argument, docstring_of, type_text

import unslow

_HEAD = """# written by `make docs`
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

"""


def stub() -> str:
    """The whole file."""
    values = {name: getattr(unslow, name) for name in unslow.__all__ if name != "__version__"}
    made = {name: value for name, value in values.items() if isfunction(value) and hasattr(value, "__signature__")}
    others = {name: value for name, value in values.items() if name not in made}
    imports = sorted(f"from {value.__module__} import {name} as {name}" for name, value in others.items())
    names = "".join(f'    "{name}",\n' for name in unslow.__all__)
    functions = "\n".join(line for name, value in made.items() for line in _function(name, value))
    return _HEAD + "\n".join(imports) + f"\n\n__version__: str\n__all__ = [\n{names}]\n\n{functions}"


def _function(name: str, function: Callable[..., Any]) -> Iterator[str]:
    words = docstring_of(function)
    yield f"def {name}("
    for number, one in enumerate(words.arguments):
        if one.by_name and (number == 0 or not words.arguments[number - 1].by_name):
            yield "    *,"
        yield f"    {_argument(one)},"
    yield f") -> {type_text(words.gives)}:"
    doc = textwrap.indent((getdoc(function) or "").strip(), "    ").lstrip()
    yield f'    """{doc}\n    """'
    yield ""


def _argument(one: Argument) -> str:
    default = "" if one.default is NEEDED else f" = {one.default!r}".replace("'", '"')
    return f"{one.name}: {type_text(one.kind)}{default}"
