"""The page of facts: every path of a snapshot that a cause may read, and every question that a case answers."""

import ast
import inspect
import re
import textwrap
import typing
from collections.abc import Iterator
from functools import cached_property
from types import UnionType
from typing import Any

import msgspec

from unslow.catalog.questions import readings
from unslow.facts.knob import Knob
from unslow.facts.snapshot import Case
from unslow.facts.values import Known, Unknown
from unslow.think.case.cure import Cure
from unslow.think.case.group import Group
from unslow.think.case.view import CaseView
from unslow.think.causes import all_causes

HEAD = """# Facts and questions

A snapshot holds facts, each `known` with its value, origin and source, or `unknown` with the reason and how to get it.
A cause names them by path (`case.need("runtime.compute.threads")`, `case.cite(...)`) or reads them by attribute
(`case.runtime.compute.threads.get()`); `N` is a place in a list.
In the file, a subject's facts stand below `subjects.N`, and what is inside a known fact below its `value`. What follows from them is asked of the view of a case: `case.host.cores`.
"""


def facts_page() -> str:
    """The page in Markdown."""
    facts, needed = [HEAD, "## Facts\n"], _needed_by()
    for field in msgspec.structs.fields(Case):
        if inspect.isclass(field.type) and issubclass(field.type, msgspec.Struct):
            rows = "\n".join(
                f"| `{path}` | {kind} | {words} | {', '.join(needed.get(path, ()))} |"
                for path, kind, words in _facts(field.type, field.name)
            )
            facts.append(
                f"### `{field.name}`\n\n| path | type | meaning | declared as needed by |\n|---|---|---|---|\n{rows}\n"
            )
    questions = ["## Questions\n"]
    for name, group in _groups():
        rows = "\n".join(f"| `case.{name}.{call}` | {words} |" for call, words in _questions(group))
        where = group.__module__.removeprefix("unslow.").replace(".", "/")
        questions.append(
            f"### `case.{name}`\n\n{inspect.getdoc(group)} (`{where}.py`)\n\n| question | answer |\n|---|---|\n{rows}\n"
        )
    return "\n".join((*facts, *questions, _prices_and_fixes()))


def _prices_and_fixes() -> str:
    """What a finding is priced with, what its fixes turn, and the readings that `ask` can name."""
    meanings = _field_docstrings(Cure)
    cures = "\n".join(f"| `{name}` | {meanings.get(name, '')} |" for name in Cure._fields)
    return f"""## Cures, knobs, readings

A `Cure` says what is different without the cause, so that physics can price it.

| field | meaning |
|---|---|
{cures}

Knobs of fixes: {", ".join(f"`{knob.name}`" for knob in Knob)}.

Readings that `ask` can name in braces, each spelled for the system, GPU and runtime at hand:
{", ".join(f"`{name}`" for name in sorted(readings()))}.
"""


def _needed_by() -> dict[str, list[str]]:
    """The causes that declare a fact as one of their needs, by its path."""
    found: dict[str, list[str]] = {}
    for name, cause in all_causes().items():
        for path in {p for need in cause.needs for p in ((need,) if isinstance(need, str) else need)}:
            found.setdefault(re.sub(r"\.0\.", ".N.", path), []).append(f"`{name}`")
    return found


def _facts(kind: type[msgspec.Struct], path: str) -> Iterator[tuple[str, str, str]]:
    """Path, type and meaning of every fact of a struct, the structs in it included; `N` is a place in a list.
    In the file, a subject's facts stand below `subjects.N`, and what is inside a known fact below its `value`."""
    meanings = _field_docstrings(kind)
    for field in msgspec.structs.fields(kind):
        here, inner, number = f"{path}.{field.name}", _value_type(field.type), ""
        if typing.get_origin(inner) in (list, tuple):
            element = _value_type(typing.get_args(inner)[0])
            inner, number = (element, ".N") if _is_struct(element) else (inner, "")
        if _is_struct(inner):
            yield from _facts(inner, here + number)
        else:
            yield here, _type_name(inner), meanings.get(field.name, "")


def _value_type(kind: Any) -> Any:
    """The type of the value: what `Fact[...]` and `Annotated[...]` hold."""
    if typing.get_origin(kind) is typing.Annotated:
        return _value_type(typing.get_args(kind)[0])
    if typing.get_origin(kind) in (typing.Union, UnionType):
        parts = [part for part in typing.get_args(kind) if part not in (Unknown, type(None))]
        return _value_type(parts[0]) if len(parts) == 1 else kind
    if typing.get_origin(kind) is Known:
        return _value_type(typing.get_args(kind)[0])
    return kind


def _is_struct(kind: Any) -> bool:
    return inspect.isclass(kind) and issubclass(kind, msgspec.Struct)


def _type_name(kind: Any) -> str:
    if typing.get_origin(kind) is typing.Literal:
        return ", ".join(map(str, typing.get_args(kind)))
    if typing.get_origin(kind) in (list, tuple):
        return f"list of {_type_name(_value_type(typing.get_args(kind)[0]))}"
    if typing.get_origin(kind) is dict:
        return "table"
    return getattr(kind, "__name__", str(kind))


def _field_docstrings(kind: type) -> dict[str, str]:
    """What is said of the fields of a class, beside them or below."""
    source = textwrap.dedent(inspect.getsource(kind))
    body, lines = ast.parse(source).body[0], source.splitlines()
    assert isinstance(body, ast.ClassDef)
    found = dict[str, str]()
    for field, below in zip(body.body, [*body.body[1:], None], strict=True):
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name):
            beside = lines[(field.end_lineno or field.lineno) - 1].partition("  # ")[2]
            match below:
                case ast.Expr(ast.Constant(str(words))):
                    found[field.target.id] = " ".join(words.split())
                case _ if beside:
                    found[field.target.id] = f"{beside}."
    return found


def _groups() -> Iterator[tuple[str, type[Group]]]:
    for name, made in vars(CaseView).items():
        if isinstance(made, cached_property) and inspect.isclass(made.func) and issubclass(made.func, Group):
            yield name, made.func


def _questions(group: type[Group]) -> Iterator[tuple[str, str]]:
    """Every public property and method of a group, with the first line of its docstring."""
    for name, member in vars(group).items():
        function = member.func if isinstance(member, cached_property) else member
        if name.startswith("_") or not inspect.isfunction(function):
            continue
        arguments = [one.name for one in inspect.signature(function).parameters.values()][1:]
        call = name if isinstance(member, cached_property) else f"{name}({', '.join(arguments)})"
        yield call, (inspect.getdoc(function) or "").partition("\n")[0].replace("|", "\\|")
