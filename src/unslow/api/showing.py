"""Any answer as text."""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from unslow.facts.errors import UserError
from unslow.think.view.report import View


def to_json(report: msgspec.Struct | Sequence[msgspec.Struct]) -> str:
    """An answer as the JSON that `--json` gives, whose schema later versions keep.

    report: whatever a function of this package returned
    """
    from unslow.show._clean import as_json  # noqa: PLC0415 (imported when used)

    return as_json(report)


def to_text(report: msgspec.Struct, *, width: int = 100, color: bool = False) -> str:
    """An answer as a terminal shows it.

    report: whatever a function of this package returned
    width: columns
    color: with the codes of a terminal for colours
    """
    shown = _renderer(report.report if isinstance(report, View) else report)
    if shown is None:
        raise UserError(f"{type(report).__name__} has no text of its own", "`unslow.to_json` shows it")
    return shown(width=width, color=color).rstrip("\n")


def to_html(view: View, *, title: str = "") -> str:
    """A view as one page of HTML that needs no other file and asks nobody; `view(masked=True)` is fit to be sent.

    view: what the function of that name gave; with ready=True its sliders move
    title: what to call it
    """
    from unslow.app.page_report import rendered  # noqa: PLC0415 (imported when used)

    return rendered(view, "html", title)


def _renderer(report: msgspec.Struct) -> Callable[..., str] | None:
    """What shows a report, by the name of its type: only that one is imported."""
    import functools  # noqa: PLC0415
    import importlib  # noqa: PLC0415

    name = type(report).__name__
    if name == "Page":
        return functools.partial(importlib.import_module("unslow.show._page").page_text, report)
    place = _SHOWN.get(name)
    if place is None:
        return None
    render: Any = getattr(importlib.import_module(f"unslow.show{place[0]}"), place[1])
    return functools.partial(render, report, "terminal")


_SHOWN = {
    "Report": ("", "render"),
    "FitReport": ("._fit", "render_fit"),
    "PredictionReport": ("._predict", "render_predict"),
    "PlanReport": ("._plan", "render_plan"),
    "CheckReport": ("._check", "render_check"),
    "Inventory": ("._models", "render_models"),
    "ApplyReport": ("._apply", "render_apply"),
    "UndoReport": ("._apply", "render_undo"),
    "DevicesReport": ("._devices", "render_devices"),
    "ChoiceReport": ("._choose", "render_choose"),
    "CostReport": ("._cost", "render_cost"),
    "TiersReport": ("._tiers", "render_tiers"),
    "FleetReport": ("._fleet", "render_fleet"),
    "CapacityReport": ("._capacity", "render_capacity"),
}
"""Modules of `show` and their functions, by the type that they show."""
