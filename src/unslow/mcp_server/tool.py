"""One tool: a function of this package as an agent calls it."""

import difflib
import typing
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple

import msgspec

from unslow.api.documented import documented, paragraphs
from unslow.app.progress import Progress
from unslow.facts.errors import UserError
from unslow.mcp_server.schemas import arguments_of, in_json, schema_of


class Answer(NamedTuple):
    """What a tool gives: the report for a program, the text for a reader."""

    report: msgspec.Struct
    text: str
    extra: Mapping[str, str] = {}

    def fields(self) -> dict[str, Any]:
        """All of it as JSON has it."""
        return {**msgspec.to_builtins(self.report), **self.extra}


class Tool(NamedTuple):
    """A verb, what it takes, and what it gives."""

    name: str
    title: str
    description: str
    takes: type[msgspec.Struct]
    gives: dict[str, Any]
    """The schema of its answer."""
    answer: Callable[[dict[str, Any], Progress], Answer]
    changes: bool = False
    """Whether it can change something."""

    def asked(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments, checked; UserError that says what is wrong with which."""
        try:
            said = {name: value for name, value in arguments.items() if value is not None}
            given = msgspec.convert(said, self.takes, strict=False)  # agents write numbers as texts too
        except msgspec.ValidationError as error:
            raise UserError(f"{self.name}: {error}", self._near(arguments)) from error
        return msgspec.structs.asdict(given)

    def _near(self, arguments: Mapping[str, Any]) -> str:
        known = [field.name for field in msgspec.structs.fields(self.takes)]
        strange = next((name for name in arguments if name not in known), "")
        near = difflib.get_close_matches(strange, known, 1)
        return f"did you mean {near[0]}?" if near else f"it takes {', '.join(known)}"


def described(function: Callable[..., Any]) -> str:
    """What a tool does, in the words of its function."""
    words = documented(function)
    return in_json("\n\n".join([words.summary, *paragraphs(words.text)]))


def tool_of(
    function: Callable[..., Any],
    title: str,
    text: Callable[[Any], str],
    *,
    without: Collection[str] = (),
    checked: Callable[[dict[str, Any]], None] = lambda _: None,
) -> Tool:
    """A function of the package that changes nothing, as a tool; `checked` raises where it may not be asked so."""
    takes = arguments_of(function, without)
    needs_progress = any(one.name == "progress" for one in documented(function).arguments)

    def answer(given: dict[str, Any], progress: Progress) -> Answer:
        checked(given)
        report = function(**given, **({"progress": progress} if needs_progress else {}))
        return Answer(report, text(report))

    gives = schema_of(typing.get_type_hints(function)["return"])
    return Tool(function.__name__, title, described(function), takes, gives, answer)
