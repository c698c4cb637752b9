"""The formats of a report, and any answer as text."""

import importlib
import pkgutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import msgspec

from unslow.commands._request import TARGET, Kind, Option, Request
from unslow.facts.errors import UserError
from unslow.facts.snapshot import Snapshot
from unslow.think.report import Page, Report

if TYPE_CHECKING:
    from unslow.page.view import View
    from unslow.show.console import ReportKind

EXIT = {"failed": 1, "slow": 1, "cannot_tell": 3, "normal": 0}
"""The worst verdict first: one slow server among healthy ones is something found."""
ANY_TARGET = Kind("a text", str, str | int | Path | Snapshot, Snapshot)
FORMATS = ("html", "json", "markdown", "openmetrics", "terminal")  # Of a diagnosis
FORMATS_TEXT = ", ".join(["terminal (default)", *(form for form in FORMATS if form != "terminal")])
SHORTEST_S, LONGEST_S = 5, 3600  # Of a diagnosis
_RENDERERS = {
    "html": ("unslow.page.html.document", "render_html"),
    "json": ("unslow.show.console", "render_json"),
    "markdown": ("unslow.show.markdown", "render"),
    "openmetrics": ("unslow.fleet.openmetrics", "render_openmetrics"),
    "terminal": ("unslow.show.diagnosis", "render"),
}
_KIND_HOMES = {
    "CapacityReport": "unslow.fleet.capacity.report",
    "ChoiceReport": "unslow.buy.show",
    "CostReport": "unslow.buy.show",
    "DevicesReport": "unslow.buy.show",
    "FleetReport": "unslow.fleet.show",
    "TiersReport": "unslow.buy.show",
}
"""Where reports are shown that no file of `unslow.show` shows."""


class Looking(Request, frozen=True, kw_only=True):
    """The target, the time and the manners of a diagnosis."""

    target: Annotated[
        str | None,
        Option("URL, process id, snapshot or recording folder", metavar="TARGET", kind=TARGET, positional=True),
    ] = None
    passive: Annotated[bool, Option("only observe: send no prompt and start nothing")] = False
    quick: Annotated[bool, Option("finish in about 10 seconds (default: at most 60)", apart="time")] = False
    thorough: Annotated[bool, Option("measure more, for up to 300 seconds", apart="time")] = False
    seconds: Annotated[
        float | None,
        Option("finish within this many seconds", metavar="N", least=SHORTEST_S, most=LONGEST_S, apart="time"),
    ] = None
    goal: Annotated[
        float | None, Option("the speed you want, in tokens per second", metavar="TOK_S", least=1e-3, most=1e9)
    ] = None
    context: Annotated[int | None, Option("the context length you need", metavar="TOKENS", least=1, most=10**9)] = None
    api_key: Annotated[str | None, Option("API key for the server (or UNSLOW_API_KEY)", metavar="KEY")] = None
    log: Annotated[str | None, Option("the server's log file, if it is not found automatically", metavar="FILE")] = None
    evict: Annotated[bool, Option("measure even if it evicts a conversation's prompt cache")] = False
    model: Annotated[
        str | None, Option("synthetic model for the embedded engine, such as llama_1b", metavar="SHAPE")
    ] = None
    save: str | None = None  # This and the next are options of a command that is `Keeping`
    record: str | None = None


class Keeping(Looking, frozen=True, kw_only=True):
    """One that can also write what was seen."""

    save: Annotated[str | None, Option("also write the snapshot (masked)", metavar="FILE", only="cli")] = None
    record: Annotated[
        str | None, Option("also record all raw data, to replay the diagnosis anywhere", metavar="DIR", only="cli")
    ] = None


def check_format(form: str) -> None:
    """UserError where there is no such format: better before a measurement than after it."""
    if form not in FORMATS:
        raise UserError(f"unknown format {form!r}", f"available: {', '.join(FORMATS)}")


def render(report: Report, form: str, *, width: int, color: bool, everything: bool = False) -> str:
    """The report in that format; `everything` also shows what is usually left out."""
    check_format(form)
    module, name = _RENDERERS[form]
    text: str = getattr(importlib.import_module(module), name)(report, width=width, color=color, everything=everything)
    return text


def exit_status(report: Report) -> int:
    """Of a command that shows this report: the worst verdict decides."""
    verdicts = [subject.verdict for subject in report.subjects]
    return next((status for verdict, status in EXIT.items() if verdict in verdicts), 3)


def kind_of(report: object) -> "ReportKind[Any] | None":
    """The kind that a report is of, those of `unslow.show` found by presence; None where it has no text form."""
    from unslow import show
    from unslow.show.console import KINDS

    name = type(report).__name__
    homes = [f"unslow.show.{info.name}" for info in pkgutil.iter_modules(show.__path__)]
    # those that are named as the report first, as all of them take a second
    homes.sort(key=lambda home: not name.lower().startswith(home.rpartition(".")[2]))
    for home in [_KIND_HOMES[name]] if name in _KIND_HOMES else homes:
        if name in KINDS:
            break
        importlib.import_module(home)
    return KINDS.get(name)


def to_json(report: msgspec.Struct | Sequence[msgspec.Struct]) -> str:
    """An answer as the JSON that `--json` gives, whose schema later versions keep.

    report: whatever a function of this package returned
    """
    from unslow.show.console import as_json

    return as_json(report)


def to_text(report: msgspec.Struct, *, width: int = 100, color: bool = False) -> str:
    """An answer as a terminal shows it.

    report: whatever a function of this package returned
    width: columns
    color: with the codes of a terminal for colours
    """
    from unslow.page.view import View
    from unslow.show.explain import page_text

    shown = report.report if isinstance(report, View) else report
    if isinstance(shown, Page):
        return page_text(shown, width=width, color=color).rstrip("\n")
    if isinstance(shown, Report):
        return render(shown, "terminal", width=width, color=color).rstrip("\n")
    kind = kind_of(shown)
    if kind is None:
        raise UserError(f"{type(report).__name__} has no text form", "use `unslow.to_json`")
    return kind(shown, "terminal", width=width, color=color).rstrip("\n")


def to_html(view: "View", *, title: str = "") -> str:
    """A view as one page of HTML that needs no other file and asks nobody; `view(masked=True)` is fit to be sent.

    view: what the function of that name gave; with ready=True its sliders move
    title: what to call it
    """
    from unslow.page.report import render_view

    return render_view(view, "html", title)
