"""What is shown, as JSON and as parts of the page: the view, the report, the memory with other settings."""

from typing import Any

from unslow.facts.errors import UserError
from unslow.web.book import NotThereError
from unslow.web.desk import Desk
from unslow.web.endpoint import Endpoint, Question
from unslow.web.parameters import Parameter

KNOBS = (
    Parameter("context", "tokens of context of all slots", "count"),
    Parameter("gpu_layers", "layers on the GPUs", "count"),
    Parameter("kv_type", "of the cache: f16, q8_0"),
    Parameter("quant", "of the weights: Q4_K_M"),
    Parameter("slots", "conversations at a time", "count"),
)


def view(desk: Desk, _question: Question) -> Any:
    """Every number of the page."""
    return desk.seen().view


def report(desk: Desk, _question: Question) -> Any:
    """The diagnosis alone."""
    return desk.seen().view.report


def snapshot(desk: Desk, _question: Question) -> bytes:
    """What was seen, fit to be sent to a stranger."""
    from unslow.facts.masking import masked  # noqa: PLC0415 (imported when asked)
    from unslow.facts.snapshot import dump_snapshot  # noqa: PLC0415

    return dump_snapshot(masked(desk.seen().snapshot))


def what_if(desk: Desk, question: Question) -> Any:
    """The memory and the speed with other settings; those that are not named stay as they are."""
    return desk.what_if(question.path["number"], dict(question.flags))


def what_if_html(desk: Desk, question: Question) -> str:
    """The same as a part of the page."""
    from unslow.show._html.memory import render_answer  # noqa: PLC0415

    number = question.path["number"]
    return str(render_answer(desk.what_if(number, dict(question.flags)), number))


def panel_html(desk: Desk, question: Question) -> str:
    """One panel of the page."""
    number, name = question.path["number"], question.path["name"]
    return panel_of(desk, number, name.removesuffix(".html"))


def panel_of(desk: Desk, number: int, name: str) -> str:
    """A panel by its name; NotThereError where there is none."""
    from unslow.show._html.document import panel  # noqa: PLC0415
    from unslow.web.offers import offers_of  # noqa: PLC0415

    seen = desk.seen()
    found = seen.view
    if not 0 <= number < len(found.subjects):
        raise NotThereError(f"there is no subject {number}", f"there are {len(found.subjects)}, counted from 0")
    try:
        return str(panel(found, number, name, offers_of(seen, desk.wanted)))
    except (KeyError, UserError) as error:
        raise NotThereError(f"there is no panel {name[:60]!r}", "see the view for those that there are") from error


_VIEW = "unslow.think.view.report:View"
ENDPOINTS = (
    Endpoint("/view", "Every number of the page", _VIEW, view),
    Endpoint("/report", "The diagnosis, as `unslow diagnose --json` gives it", "unslow.think.report:Report", report),
    Endpoint("/snapshot", "What was seen, masked", "unslow.facts.snapshot:Snapshot", snapshot),
    Endpoint(
        "/subjects/{number:int}/what-if",
        "Memory and speed with other settings",
        "unslow.think.view.report:WhatIf",
        what_if,
        KNOBS,
    ),
    Endpoint("/subjects/{number:int}/what-if.html", "The same as HTML", "", what_if_html, KNOBS, media="text/html"),
    Endpoint("/subjects/{number:int}/panels/{name}", "A panel as HTML", "", panel_html, media="text/html"),
)
