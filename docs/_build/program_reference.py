"""The reference for programs: the Python functions and the tools of `unslow mcp`, from signatures and docstrings."""

from collections.abc import Callable, Iterator
from inspect import isclass, isfunction
from typing import Any

from docs._build.docstrings import NEEDED, Argument, docstring_of, paragraphs, type_text

import unslow
from unslow.commands._request import fields_of
from unslow.mcp.tools import MORE, Permissions, Tool, tools_for

_SCHEMAS = {
    "Report": "report", "FitReport": "fit", "PredictionReport": "prediction", "PlanReport": "plan",
    "CheckReport": "check", "Inventory": "models", "Snapshot": "snapshot", "View": "view", "DevicesReport": "devices",
    "ChoiceReport": "choice", "CostReport": "cost", "TiersReport": "tiers", "ApplyReport": "apply",
    "UndoReport": "undo", "FleetReport": "fleet", "CapacityReport": "capacity",
}  # fmt: skip
"""The schema of an answer, by its type."""
_HEAD = """# Python

`import unslow` takes as long as importing nothing: everything below is imported when it is used. Everything is typed,
nothing is printed, and an impossible request raises `unslow.UserError` with a `message` and a `hint`. Answers are frozen
structs; their fields are those of the JSON schemas, which later versions keep. How to use it:
[how_to/python.md](../how_to/python.md).
"""
_TOOLS_HEAD = """# Tools for agents

What `unslow mcp` serves ([how to set it up](../how_to/mcp.md)). Every answer has a text for a reader and, as structured
content, the same in the form of its schema. What is asked wrongly is answered with a message and a hint.
"""


def python_page() -> str:
    """The page of the Python package."""
    values = {name: getattr(unslow, name) for name in sorted(unslow.__all__) if name != "__version__"}
    functions = {name: value for name, value in values.items() if isfunction(value)}
    kinds = {name: value for name, value in values.items() if isclass(value)}
    blocks = [_HEAD, *("\n".join(_function(name, value)) for name, value in functions.items())]
    return "\n".join([*blocks, "## Types\n", *(_kind(name, value) for name, value in kinds.items()), ""])


def _function(name: str, function: Callable[..., Any]) -> Iterator[str]:
    words = docstring_of(function)
    yield f"## `unslow.{name}`\n"
    yield f"```python\n{_signature(name, function)}\n```\n"
    yield from (f"{text}\n" for text in (words.summary, *paragraphs(words.text)))
    if any(one.words for one in words.arguments):
        yield "| argument | type | default | what it is |\n|---|---|---|---|"
        yield "\n".join(_argument(one) for one in words.arguments) + "\n"
    yield f"{_returns(function)}\n"


def _signature(name: str, function: Callable[..., Any]) -> str:
    """What is given by its place; whatever is given by its name stands below with its type."""
    words = docstring_of(function)
    first = [_first(one) for one in words.arguments if not one.by_name]
    more = ["*", "..."] if any(one.by_name for one in words.arguments) else []
    return f"unslow.{name}({', '.join([*first, *more])}) -> {type_text(words.gives)}"


def _first(one: Argument) -> str:
    return one.name if one.default is NEEDED else f"{one.name}={one.default!r}"


def _argument(one: Argument) -> str:
    """A row of a table, where a bar would end a cell."""
    kind = type_text(one.kind).replace(" | ", "` or `")
    default = "" if one.default is NEEDED else f"`{one.default!r}`"
    return f"| `{one.name}` | `{kind}` | {default} | {one.words} |"


def _returns(function: Callable[..., Any]) -> str:
    kind = type_text(docstring_of(function).gives)
    schema = _SCHEMAS.get(kind)
    return f"Returns `{kind}`" + (f" ([schema]({schema}.schema.json))." if schema else ".")


def _kind(name: str, kind: type) -> str:
    schema = _SCHEMAS.get(name)
    words = " ".join((kind.__doc__ or "").split())
    return f"- `unslow.{name}`: {words}" + (f" ([schema]({schema}.schema.json))" if schema else "")


def tools_page() -> str:
    """The page of the tools."""
    tools = tools_for(Permissions(apply=True)).values()
    reading = ["\n".join(_tool(tool)) for tool in tools if not tool.changes]
    changing = ["\n".join(_tool(tool)) for tool in tools if tool.changes]
    note = "## With `--allow-apply` alone\n"
    return "\n".join([_TOOLS_HEAD, *reading, note, *changing])


def _tool(tool: Tool) -> Iterator[str]:
    yield f"{'###' if tool.changes else '##'} `{tool.name}`\n"
    yield f"{tool.description}\n"
    yield "| argument | what it is |\n|---|---|"
    seldom = [field for field in fields_of(tool.request) if field.option.seldom]
    for field in fields_of(tool.request):
        if field.option.only != "cli" and field not in seldom:
            yield f"| `{field.name}`{' (needed)' if field.is_needed else ''} | {field.option.text} |"
    if seldom:
        yield f"| `{MORE}` | an object with what is seldom needed, by name: |"
        yield from (f"| `{MORE}.{field.name}` | {field.option.text} |" for field in seldom)
    yield ""
