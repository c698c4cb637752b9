"""Kinds of reports: the formats that each has, and how it is shown in them."""

import importlib
import pkgutil
from collections.abc import Callable, Iterable
from typing import Any, Generic, TypeVar

from rich.console import Group, RenderableType

from unslow.facts.errors import UserError
from unslow.show._clean import as_json, cleaned
from unslow.show._console import TextConsole

R = TypeVar("R")
_KINDS: dict[str, "ReportKind[Any]"] = {}
"""By the name of the type that is shown."""


class ReportKind(Generic[R]):
    """Shows reports of one type (None: any with its fields); called with one, a format, the width, and colours or not.

    `terminal(report, width)` gives what is printed, `markdown(report)` and `openmetrics(report)` give a text; what else
    the caller passes goes to each of them. Reports are cleaned before, but for `clean=False`: that kind does it itself.
    `crop=False` is for lines to copy, which may be wider than the terminal.
    """

    def __init__(  # noqa: PLR0913 (one for each format, and what differs between kinds)
        self,
        report: type[R] | None,
        terminal: Callable[..., RenderableType | Iterable[RenderableType]],
        *,
        json: Callable[[R], str] = as_json,
        markdown: Callable[..., str] | None = None,
        openmetrics: Callable[..., str] | None = None,
        called: str = "this answer",
        clean: bool = True,
        crop: bool = True,
    ) -> None:
        self._terminal, self._json, self._called, self._clean, self._crop = terminal, json, called, clean, crop
        self._texts = {"markdown": markdown, "openmetrics": openmetrics}
        self.formats = ("terminal", "json", *(form for form, text in self._texts.items() if text))
        if report is not None:
            _KINDS[report.__name__] = self

    def check_format(self, form: str) -> None:
        """UserError where there is no such format of it: better before a measurement than after it."""
        if form not in self.formats:
            raise UserError(f"there is no format {form!r} of {self._called}", f"try one of {', '.join(self.formats)}")

    def __call__(self, report: R, form: str, *, width: int, color: bool, **options: Any) -> str:
        """The report in that format."""
        self.check_format(form)
        if form == "json":
            return self._json(report)
        shown: Any = cleaned(report) if self._clean else report  # type: ignore[type-var]
        if text := self._texts.get(form):
            return text(shown, **options)
        console = TextConsole(width=width, color=color)
        parts = self._terminal(shown, console.width, **options)
        console.print(Group(*parts) if isinstance(parts, Iterable) else parts, crop=self._crop)
        return console.text


def kind_of(report: object) -> ReportKind[Any] | None:
    """The kind that a report is of, found by presence; None where it has no text of its own."""
    name = type(report).__name__
    modules = [info.name for info in pkgutil.iter_modules(importlib.import_module("unslow.show").__path__)]
    # those that are named as the report first, as all of them take a second
    for module in sorted(modules, key=lambda module: not name.lower().startswith(module.strip("_"))):
        if name in _KINDS:
            break
        importlib.import_module(f"unslow.show.{module}")
    return _KINDS.get(name)
