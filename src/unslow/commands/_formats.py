"""The formats of a report, and any answer as text."""

import importlib
import pkgutil
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from unslow.commands._diagnosis_options import FORMATS
from unslow.facts.errors import UserError
from unslow.think.report import Page, Report

if TYPE_CHECKING:
    from unslow.page.view import View
    from unslow.show.console import ReportKind

_RENDERERS = {
    "html": ("unslow.page.html.document", "render_html"),
    "json": ("unslow.show.clean", "render_json"),
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


def check_format(form: str) -> None:
    """UserError where there is no such format: better before a measurement than after it."""
    if form not in FORMATS:
        raise UserError(f"there is no format {form!r}", f"try one of {', '.join(FORMATS)}")


def render(report: Report, form: str, *, width: int, color: bool, everything: bool = False) -> str:
    """The report in that format; `everything` also shows what is usually left out."""
    check_format(form)
    module, name = _RENDERERS[form]
    text: str = getattr(importlib.import_module(module), name)(report, width=width, color=color, everything=everything)
    return text


def kind_of(report: object) -> "ReportKind[Any] | None":
    """The kind that a report is of, those of `unslow.show` found by presence; None where it has no text of its own."""
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
    from unslow.show.clean import as_json

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
        raise UserError(f"{type(report).__name__} has no text of its own", "`unslow.to_json` shows it")
    return kind(shown, "terminal", width=width, color=color).rstrip("\n")


def to_html(view: "View", *, title: str = "") -> str:
    """A view as one page of HTML that needs no other file and asks nobody; `view(masked=True)` is fit to be sent.

    view: what the function of that name gave; with ready=True its sliders move
    title: what to call it
    """
    from unslow.page.report import render_view

    return render_view(view, "html", title)
