"""Any answer as text."""

from collections.abc import Sequence

import msgspec

from unslow.commands.explain import Page
from unslow.facts.errors import UserError
from unslow.think.report import Report
from unslow.think.view.report import View


def to_json(report: msgspec.Struct | Sequence[msgspec.Struct]) -> str:
    """An answer as the JSON that `--json` gives, whose schema later versions keep.

    report: whatever a function of this package returned
    """
    from unslow.show._clean import as_json

    return as_json(report)


def to_text(report: msgspec.Struct, *, width: int = 100, color: bool = False) -> str:
    """An answer as a terminal shows it.

    report: whatever a function of this package returned
    width: columns
    color: with the codes of a terminal for colours
    """
    from unslow.show import render
    from unslow.show._kinds import kind_of
    from unslow.show._page import page_text

    shown = report.report if isinstance(report, View) else report
    if isinstance(shown, Page):
        return page_text(shown, width=width, color=color).rstrip("\n")
    if isinstance(shown, Report):
        return render(shown, "terminal", width=width, color=color).rstrip("\n")
    kind = kind_of(shown)
    if kind is None:
        raise UserError(f"{type(report).__name__} has no text of its own", "`unslow.to_json` shows it")
    return kind(shown, "terminal", width=width, color=color).rstrip("\n")


def to_html(view: View, *, title: str = "") -> str:
    """A view as one page of HTML that needs no other file and asks nobody; `view(masked=True)` is fit to be sent.

    view: what the function of that name gave; with ready=True its sliders move
    title: what to call it
    """
    from unslow.app.page_report import rendered

    return rendered(view, "html", title)
