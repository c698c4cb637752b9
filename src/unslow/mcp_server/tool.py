"""One tool: a command of this package as an agent calls it."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import msgspec

from unslow.app.progress import Progress
from unslow.commands._request import Request
from unslow.facts.errors import UserError
from unslow.mcp_server.schemas import MORE


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
    request: type[Request]
    """Its docstring is the description of the tool."""
    answer: Callable[[Any, Progress], Answer]
    changes: bool = False
    """Whether it can change something."""

    @property
    def description(self) -> str:
        """What it does."""
        return " ".join((inspect.getdoc(self.request) or "").split())

    def asked(self, arguments: Mapping[str, Any]) -> Request:
        """The request; UserError that says what is wrong with which argument."""
        more = arguments.get(MORE) or {}
        if not isinstance(more, Mapping):
            raise UserError(f"{MORE} must be an object", "with the arguments that are seldom needed, by name")
        return self.request.from_flags({**{k: v for k, v in arguments.items() if k != MORE}, **more})


def tool_of(
    name: str,
    title: str,
    request: type[Request],
    answer: Callable[..., Any],
    text: Callable[[Any], str],
    check: Callable[[Request], None],
) -> Tool:
    """A command that changes nothing, as a tool; `check` raises where it may not be asked so."""
    takes_progress = "progress" in inspect.signature(answer).parameters

    def answered(asked: Request, progress: Progress) -> Answer:
        check(asked)
        report = answer(asked, progress) if takes_progress else answer(asked)
        return Answer(report, text(report))

    return Tool(name, title, request, answered)
