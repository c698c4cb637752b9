"""The panels of a subject: each a section with an id of its own, so that the server can send one alone."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from unslow.facts.errors import UserError
from unslow.show._html import change, curves, memory, roofline, timeline, verdict
from unslow.show._html.budget import budgets
from unslow.show._html.buttons import NO_BUTTONS
from unslow.show._html.checklist import checklist
from unslow.show._html.findings import findings
from unslow.show._html.markup import NOTHING, Markup, joined, sentence, tag
from unslow.show._html.missing import contradictions, not_there, ruled_out, understood, untold
from unslow.show._html.speed import speeds
from unslow.think.report import SubjectReport
from unslow.think.view.report import SubjectView, View


class Shown(NamedTuple):
    """A subject with its report and its numbers."""

    report: SubjectReport
    view: SubjectView
    number: int
    buttons: Mapping[str, str] = NO_BUTTONS
    """What the page can start, and what each button says; a file has none."""


class Panel(NamedTuple):
    """What a panel is called, also in few words, what is in it, and how much room it takes."""

    title: str
    short: str
    content: Callable[[Shown], Markup]
    wide: bool = False


def panel_names() -> tuple[str, ...]:
    """Every panel in the order of the page."""
    return ("verdict", *_PANELS)


def panel_of(shown: Shown, name: str) -> Markup:
    """One panel of a subject; UserError where there is no such thing."""
    if name == "verdict":
        return verdict.render(shown.report, shown.number, shown.buttons)
    if name not in _PANELS:
        raise UserError(f"there is no panel {name!r}", f"try one of {', '.join(panel_names())}")
    return section(shown, name)


def shown_of(view: View, number: int) -> Shown:
    """A subject by its place in the report."""
    if not 0 <= number < len(view.report.subjects):
        raise UserError(f"there is no subject {number}", f"the report has {len(view.report.subjects)}")
    drawn = next((s for s in view.subjects if s.number == number), SubjectView(number=number))
    return Shown(view.report.subjects[number], drawn, number)


def section(shown: Shown, name: str) -> Markup:
    """A panel; where it has nothing to show it is an empty element, which a fragment can replace."""
    panel_, identity = _PANELS[name], f"{name}-{shown.number}"
    content = panel_.content(shown)
    if not content:
        return tag("section", id=identity, data_panel=name, hidden=True)
    return tag(
        "section",
        tag("h3", panel_.title, id=f"{identity}-title"),
        content,
        id=identity,
        class_="panel wide" if panel_.wide else "panel",
        data_panel=name,
        aria_labelledby=f"{identity}-title",
    )


def sections(shown: Shown) -> list[tuple[str, str, Markup]]:
    """All panels in the order of the page, each with its id, its short name and itself."""
    return [(f"{name}-{shown.number}", one.short, section(shown, name)) for name, one in _PANELS.items()]


def arranged(made: list[tuple[str, str, Markup]]) -> Markup:
    """The panels as they stand, the small charts beside each other."""
    charts = [html for identity, _, html in made if identity.rpartition("-")[0] in _CHARTS]
    before = [html for identity, _, html in made if identity.rpartition("-")[0] in _BEFORE_CHARTS]
    after = [html for _, _, html in made if html not in charts and html not in before]
    return joined([*before, tag("div", *charts, class_="beside"), *after])


def is_empty(html: Markup) -> bool:
    """Whether a panel shows nothing."""
    return html.endswith(" hidden></section>")


def _missing(shown: Shown) -> Markup:
    """Every panel that could not be drawn, those with one reason together."""
    titles = {name: one.title for name, one in _PANELS.items()}
    if shown.report.verdict == "failed":  # a way to measure what does not run would lead nowhere
        return NOTHING
    reasons: dict[str, list[tuple[str, str]]] = {}
    for name, missing in shown.view.missing.items():
        title = titles.get(name) or titles.get(name.removesuffix("s")) or name
        reasons.setdefault(missing.why, []).append((title, missing.how_to_get))
    return joined(
        not_there(why, [title for title, _ in found], [how for _, how in found], shown.buttons)
        for why, found in reasons.items()
    )


def _speed(shown: Shown) -> Markup:
    return speeds(shown.view.speeds) if shown.view.speeds else NOTHING


def _memory(shown: Shown) -> Markup:
    return Markup(memory.render(shown.view.memory, shown.number)) if shown.view.memory else NOTHING


def _roofline(shown: Shown) -> Markup:
    return Markup(roofline.render(shown.view.roofline, shown.number)) if shown.view.roofline else NOTHING


def _timeline(shown: Shown) -> Markup:
    return Markup(timeline.render(shown.view.timeline, shown.number)) if shown.view.timeline else NOTHING


def _depth(shown: Shown) -> Markup:
    return Markup(curves.render(shown.view.depth, shown.number)) if shown.view.depth else NOTHING


def _users(shown: Shown) -> Markup:
    return Markup(curves.render(shown.view.users, shown.number)) if shown.view.users else NOTHING


def _change(shown: Shown) -> Markup:
    return Markup(change.render(shown.view.change, shown.number)) if shown.view.change else NOTHING


def _contradictions(shown: Shown) -> Markup:
    return contradictions(shown.report.contradictions) if shown.report.contradictions else NOTHING


def _checklist(shown: Shown) -> Markup:
    return checklist(shown.report.checklist) if shown.report.checklist else NOTHING


def _understood(shown: Shown) -> Markup:
    return understood(shown.report.known) if shown.report.known else NOTHING


def _ruled_out(shown: Shown) -> Markup:
    return ruled_out(shown.report.ruled_out) if shown.report.ruled_out else NOTHING


def _notes(shown: Shown) -> Markup:
    notes = [*shown.report.notes, *_basis(shown.report)]
    return tag("ul", *(tag("li", sentence(note)) for note in notes), class_="notes") if notes else NOTHING


def _basis(subject: SubjectReport) -> list[str]:
    """What the expectation rests on."""
    expected = subject.expected
    if expected.because and not expected.achievable:
        return [f"There is no prediction: {expected.because}"]
    if not expected.achievable:
        return []
    if expected.basis == "calibrated":
        return ["What is expected rests on rates that were measured on this machine"]
    return ["What is expected rests on the catalogue of devices; `unslow calibrate` makes it sharper"]


_PANELS = {
    "speed": Panel("How fast it is", "Speed", _speed, wide=True),
    "findings": Panel("Why", "Why", lambda shown: findings(shown.report)),
    "budget": Panel("Where the time goes", "Time", lambda s: budgets(s.report.budget, s.report.findings)),
    "memory": Panel("Memory", "Memory", _memory, wide=True),
    "timeline": Panel("The run over time", "Timeline", _timeline, wide=True),
    "roofline": Panel("Roofline", "Roofline", _roofline),
    "depth": Panel("Speed by depth of the context", "Depth", _depth),
    "users": Panel("Speed by users at once", "Users", _users),
    "change": Panel("Before and after", "Before and after", _change, wide=True),
    "missing": Panel("What could not be drawn", "Not drawn", _missing, wide=True),
    "contradictions": Panel("What can't all be right", "Contradictions", _contradictions, wide=True),
    "checklist": Panel("Checklist", "Checklist", _checklist),
    "untold": Panel("What could not be told", "Open", lambda shown: untold(shown.report, shown.buttons)),
    "understood": Panel("What the text says", "Text", _understood),
    "ruled_out": Panel("Ruled out", "Ruled out", _ruled_out),
    "notes": Panel("How it was measured", "How", _notes),
}
_CHARTS = ("roofline", "depth", "users")
"""Small enough for three in a row."""
_BEFORE_CHARTS = ("speed", "findings", "budget", "memory", "timeline")
