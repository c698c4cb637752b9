"""A view as one page: the verdict first, then the proof; every subject in a section of its own."""

from collections import Counter
from collections.abc import Sequence

import msgspec

from unslow.show._clean import cleaned, safe
from unslow.show._html.buttons import buttons_of
from unslow.show._html.frame import Serving, Tab, framed
from unslow.show._html.live import Offered, run_buttons
from unslow.show._html.markup import NOTHING, Markup, joined, tag
from unslow.show._html.memory import render_answer
from unslow.show._html.panels import Shown, arranged, is_empty, panel_names, panel_of, sections, shown_of
from unslow.show._html.verdict import device_name, render
from unslow.show._html.words import MASKED, VERDICTS, badge
from unslow.show._labels import label, worded_value
from unslow.show._units import rate
from unslow.think.view.report import View, WhatIf

__all__ = ["Tab", "document", "panel", "panel_names"]
_PLACES = {"memory_bytes": "RAM", "physical_cores": "cores", "ram_read_bytes_per_s": "from RAM"}


def document(
    view: View,
    *,
    live: bool = False,
    nonce: str = "",
    token: str = "",
    title: str = "",
    offers: Sequence[Offered] = (),
    tabs: tuple[Tab, ...] = (),
) -> str:
    """The whole page: a file that asks nobody, or where it is live that of a server, with its nonce and token."""
    view, serving = cleaned(view), Serving(nonce, token) if live else None
    subjects = [shown_of(view, number) for number in range(len(view.report.subjects))]
    if live:
        alone = len(subjects) == 1
        subjects = [shown._replace(buttons=buttons_of(offers, shown.number, alone=alone)) for shown in subjects]
    else:
        subjects = [_answered(shown) for shown in subjects]
    parts = [_switch(subjects), *(_subject(shown, serving, offers) for shown in subjects)]
    if not subjects:
        parts += [tag("p", "Nothing was found to diagnose.", class_="empty"), run_buttons(offers, 0)]
    name, content = safe(title) or _title(subjects), joined([*parts, _foot(view)])
    return framed(name, content, head=_machine(view), serving=serving, tabs=tabs)


def panel(view: View, number: int, name: str, offers: Sequence[Offered] = ()) -> str:
    """One panel of the page, as the server sends it; UserError where there is no such thing."""
    buttons = buttons_of(offers, number, alone=len(view.report.subjects) == 1)
    shown = shown_of(view, number)._replace(buttons=buttons)
    return panel_of(shown._replace(report=cleaned(shown.report), view=cleaned(shown.view)), name)


def _title(subjects: list[Shown]) -> str:
    if len(subjects) != 1:
        return "unslow: what runs here" if subjects else "unslow"
    report = subjects[0].report
    device = device_name(report)
    return f"unslow: {report.model}{f' on {device}' if device else ''}"


def _machine(view: View) -> Markup:
    """The machine on one line, and when it was looked at."""
    facts = [_fact(key, value) for key, value in (view.machine or view.report.machine).items()]
    return tag("p", " · ".join(part for part in (*facts, _moment(view.taken_at)) if part), class_="quiet")


def _fact(key: str, value: str | float) -> str:
    if isinstance(value, str):
        return _counted(value.replace("(R)", "").replace("(TM)", "").split(", "))
    return f"{worded_value(key, value)} {_PLACES.get(key) or label(key)}"


def _counted(names: Sequence[str]) -> str:
    """Those that are alike counted."""
    return ", ".join(f"{many} x {name}" if many > 1 else name for name, many in Counter(names).items())


def _moment(taken_at: str) -> str:
    day, _, clock = taken_at.partition("T")
    return f"{day} {clock[:5]}{' UTC' if clock.endswith(('+00:00', 'Z')) else ''}" if clock else day


def _switch(subjects: list[Shown]) -> Markup:
    """Where there are several subjects, a way to each."""
    if len(subjects) < 2:  # noqa: PLR2004 (one needs no way)
        return NOTHING
    items = [tag("li", _way(shown)) for shown in subjects]
    return tag("nav", tag("ol", *items), aria_label="What was looked at", class_="switch")


def _way(shown: Shown) -> Markup:
    report = shown.report
    speed = report.measured.get("decode_tokens_per_s")
    measured = f" · {rate(speed)} tok/s" if speed is not None else ""
    words = (badge(VERDICTS[report.verdict]), " ", tag("b", report.model), f" {report.runtime}{measured}")
    place = report.url.partition("://")[2] or report.url  # two of one model are told apart by it
    where = tag("span", f" {place}", class_="quiet") if place else NOTHING
    return tag("a", *words, where, href=f"#verdict-{shown.number}")


def _subject(shown: Shown, serving: Serving | None, offers: Sequence[Offered]) -> Markup:
    made = sections(shown)
    ways = [(identity, short, is_empty(html)) for identity, short, html in made]  # a run may fill what is empty
    links = [tag("a", short, href=f"#{one}", hidden=empty) for one, short, empty in ways if serving or not empty]
    return tag(
        "article",
        render(shown.report, shown.number, shown.buttons),
        tag("nav", *links, class_="contents", aria_label=f"On this page: {shown.report.model}"),
        tag("div", run_buttons(offers, shown.number), arranged(made), class_="panels"),
        NOTHING if serving else _ready(shown),
        aria_labelledby=f"verdict-{shown.number}-title",
        data_subject=shown.number,
    )


def _answered(shown: Shown) -> Shown:
    """Without sliders where a file has no answers for them."""
    memory = shown.view.memory
    if memory is None or memory.ready:
        return shown
    bare = msgspec.structs.replace(memory, sliders=())
    return shown._replace(view=msgspec.structs.replace(shown.view, memory=bare))


def _ready(shown: Shown) -> Markup:
    """The answers of the sliders, for a file that can ask nobody."""
    memory = shown.view.memory
    return joined(_answer(one, memory.now, shown.number) for one in memory.ready) if memory else NOTHING


def _answer(answer: WhatIf, now: WhatIf, number: int) -> Markup:
    """An answer for where one slider was moved; nothing where several were, or none."""
    moved = [(knob, value) for knob, value in answer.settings.items() if now.settings.get(knob) != value]
    if len(moved) != 1:
        return NOTHING
    ((knob, value),) = moved
    html = render_answer(answer, number)
    return tag("template", html, class_="ready", data_subject=number, data_knob=knob, data_value=value)


def _foot(view: View) -> Markup:
    masked = (
        MASKED if view.masked else "It may hold names, paths and addresses of this machine: look before you share it."
    )
    return tag("footer", tag("p", f"Written by unslow {view.unslow_version}. {masked}"))
