"""A view as one page: the frame with style and script, the verdict first, then every panel in a section of its own."""

import re
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import NamedTuple

import msgspec

from unslow.facts.errors import UserError
from unslow.page.html import diagnosis, markup
from unslow.page.html.curves import render_curve
from unslow.page.html.markup import NOTHING, Markup, Offer, join_markup, sentence, tag, text
from unslow.page.html.memory import render_answer, render_memory
from unslow.page.html.roofline import render_roofline
from unslow.page.html.speed import budgets, render_change, speeds
from unslow.page.html.timeline import render_timeline
from unslow.page.speeds import speed_row
from unslow.page.view import SubjectView, View
from unslow.show.console import clean_report, safe_text
from unslow.show.units import device_name, label, rate, value_text
from unslow.think.case.speed import DECODE, PREFILL
from unslow.think.judge.findings import FIRST_TOKEN
from unslow.think.report import Report, SubjectReport

_POLICY = (
    "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; img-src data:; "
    "base-uri 'none'; form-action 'none'"
)
_ASSETS = files("unslow.page.html") / "assets"
_CHARTS = ("roofline", "depth", "users")  # Small enough for three in a row
_BEFORE_CHARTS = ("speed", "findings", "budget", "memory", "timeline")
_PLACES = {"memory_bytes": "RAM", "physical_cores": "cores", "ram_read_bytes_per_s": "RAM bandwidth"}
_NOT_MASKED = "It may contain names, paths and addresses from this machine: check it before sharing."
_COMMAND = re.compile(r"unslow(?: [\w:/.@=\[\]-]+){0,6}")


class Serving(NamedTuple):
    """What makes a page live: the nonce that its policy allows, and the token that its questions carry."""

    nonce: str
    token: str


class Tab(NamedTuple):
    """A page of the server."""

    label: str
    href: str
    current: bool = False


class ShownSubject(NamedTuple):
    """A subject with its report and its numbers."""

    report: SubjectReport
    view: SubjectView
    number: int
    buttons: Mapping[str, str] = markup.NO_BUTTONS  # What the page can start, and what each button says


class Panel(NamedTuple):
    """What a panel is called, what is in it, how much room it takes, and its name in few words."""

    title: str
    content: Callable[[ShownSubject], Markup]
    wide: bool = False
    short: str = ""  # Where the title is long


def document(
    view: View,
    *,
    serving: Serving | None = None,
    title: str = "",
    offers: Sequence[Offer] = (),
    tabs: tuple[Tab, ...] = (),
) -> str:
    """The whole page: that of a server, or without `serving` a file that works without one."""
    view = clean_report(view)
    subjects = [_shown_subject(view, number) for number in range(len(view.report.subjects))]
    for number, shown in enumerate(subjects):
        memory = shown.view.memory
        if serving:
            buttons = markup.buttons_of(offers, number, alone=len(subjects) == 1)
            subjects[number] = shown._replace(buttons=buttons)
        elif memory and not memory.ready:  # its sliders would have no answers
            memory = msgspec.structs.replace(memory, sliders=())
            subjects[number] = shown._replace(view=msgspec.structs.replace(shown.view, memory=memory))
    parts = [_switch(subjects), *(_subject(shown, serving, offers) for shown in subjects)]
    if not subjects:
        parts += [tag("p", "Nothing to diagnose.", class_="empty"), markup.run_buttons(offers, 0)]
    privacy = markup.MASKED if view.masked else _NOT_MASKED
    foot = tag("footer", tag("p", f"Written by unslow {view.unslow_version}. {privacy}"))
    facts = [_fact(key, value) for key, value in (view.machine or view.report.machine).items()]
    day, _, clock = view.taken_at.partition("T")
    moment = f"{day} {clock[:5]}{' UTC' if clock.endswith(('+00:00', 'Z')) else ''}" if clock else day
    machine = tag("p", " · ".join(part for part in (*facts, moment) if part), class_="quiet")
    name = safe_text(title) or _title(subjects)
    return frame_page(name, join_markup([*parts, foot]), head=machine, serving=serving, tabs=tabs)


def panel(view: View, number: int, name: str, offers: Sequence[Offer] = ()) -> Markup:
    """One panel of the page, as the server sends it; UserError where there is no such thing."""
    if not 0 <= number < len(view.report.subjects):
        raise UserError(f"no subject {number}", f"there are {len(view.report.subjects)}, numbered from 0")
    if name not in PANEL_NAMES:
        raise UserError(f"no panel {name[:60]!r}", f"panels: {', '.join(PANEL_NAMES)}")
    report, drawn, *_ = _shown_subject(view, number)
    buttons = markup.buttons_of(offers, number, alone=len(view.report.subjects) == 1)
    shown = ShownSubject(clean_report(report), clean_report(drawn), number, buttons)
    return diagnosis.render_verdict(shown.report, number, buttons) if name == "verdict" else section(shown, name)


def render_html(report: Report, *, width: int, color: bool, everything: bool) -> str:  # noqa: ARG001 (one signature for all)
    """The page of the report alone: what it does not hold is not drawn."""
    subjects = []
    for number, subject in enumerate(report.subjects):
        decode = speed_row(subject, DECODE, ceiling=subject.expected.ceiling_tokens_per_s)
        rows = (decode, speed_row(subject, PREFILL), speed_row(subject, FIRST_TOKEN))
        told = tuple(row for row in rows if row.measured is not None or row.achievable)
        subjects.append(SubjectView(number=number, speeds=told))
    version, machine = report.unslow_version, report.machine
    view = View(unslow_version=version, machine=machine, report=report, subjects=tuple(subjects), masked=False)
    return document(view)


def _shown_subject(view: View, number: int) -> ShownSubject:
    drawn = next((s for s in view.subjects if s.number == number), SubjectView(number=number))
    return ShownSubject(view.report.subjects[number], drawn, number)


def _title(subjects: list[ShownSubject]) -> str:
    if len(subjects) != 1:
        return "unslow: running models" if subjects else "unslow"
    report = subjects[0].report
    device = device_name(report)
    return f"unslow: {report.model}{f' on {device}' if device else ''}"


def _fact(key: str, value: str | float) -> str:
    if isinstance(value, str):
        names = value.replace("(R)", "").replace("(TM)", "").split(", ")
        return ", ".join(f"{many} x {name}" if many > 1 else name for name, many in Counter(names).items())
    return f"{value_text(key, value)} {_PLACES.get(key) or label(key)}"


def _switch(subjects: list[ShownSubject]) -> Markup:
    if len(subjects) < 2:  # noqa: PLR2004 (one needs no way)
        return NOTHING
    items = []
    for shown in subjects:
        report = shown.report
        speed = report.measured.get("decode_tokens_per_s")
        measured = f" · {rate(speed)} tok/s" if speed is not None else ""
        sign = markup.badge(markup.VERDICTS[report.verdict])
        words = (sign, " ", tag("b", report.model), f" {report.runtime}{measured}")
        place = report.url.partition("://")[2] or report.url  # two of one model are told apart by it
        where = tag("span", f" {place}", class_="quiet") if place else NOTHING
        items.append(tag("li", tag("a", *words, where, href=f"#verdict-{shown.number}")))
    return tag("nav", tag("ol", *items), aria_label="Subjects", class_="switch")


def _subject(shown: ShownSubject, serving: Serving | None, offers: Sequence[Offer]) -> Markup:
    made, links = {name: section(shown, name) for name in _PANELS}, []
    for name, html in made.items():
        is_empty = html.endswith(" hidden></section>")
        if serving or not is_empty:  # a run may fill what is empty
            links.append(
                tag("a", _PANELS[name].short or _PANELS[name].title, href=f"#{name}-{shown.number}", hidden=is_empty)
            )
    before = [made.pop(name) for name in _BEFORE_CHARTS]
    charts = tag("div", *(made.pop(name) for name in _CHARTS), class_="beside")
    return tag(
        "article",
        diagnosis.render_verdict(shown.report, shown.number, shown.buttons),
        tag("nav", *links, class_="contents", aria_label=f"On this page: {shown.report.model}"),
        tag("div", markup.run_buttons(offers, shown.number), *before, charts, *made.values(), class_="panels"),
        NOTHING if serving else _ready_answers(shown),
        aria_labelledby=f"verdict-{shown.number}-title",
        data_subject=shown.number,
    )


def _ready_answers(shown: ShownSubject) -> Markup:
    """The answers for one slider moved at a time, for a file without a server."""
    memory, parts = shown.view.memory, []
    for answer in memory.ready if memory else ():
        now = memory.now.settings if memory else {}
        moved = [(knob, value) for knob, value in answer.settings.items() if now.get(knob) != value]
        if len(moved) == 1:
            html, number, (knob, value) = render_answer(answer, shown.number), shown.number, moved[0]
            parts.append(tag("template", html, class_="ready", data_subject=number, data_knob=knob, data_value=value))
    return join_markup(parts)


def section(shown: ShownSubject, name: str) -> Markup:
    """A panel; where it has nothing to show it is an empty element, which a fragment can replace."""
    made, identity = _PANELS[name], f"{name}-{shown.number}"
    content = made.content(shown)
    if not content:
        return tag("section", id=identity, data_panel=name, hidden=True)
    return tag(
        "section",
        tag("h3", made.title, id=f"{identity}-title"),
        content,
        id=identity,
        class_="panel wide" if made.wide else "panel",
        data_panel=name,
        aria_labelledby=f"{identity}-title",
    )


def _missing(shown: ShownSubject) -> Markup:
    if shown.report.verdict == "failed":  # a way to measure what does not run would lead nowhere
        return NOTHING
    titles = {name: one.title for name, one in _PANELS.items()}
    reasons: dict[str, list[tuple[str, str]]] = {}
    for name, missing in shown.view.missing.items():
        title = titles.get(name) or titles.get(name.removesuffix("s")) or name
        reasons.setdefault(missing.why, []).append((title, missing.how_to_get))
    parts = []
    for why, found in reasons.items():
        lines = [tag("p", tag("b", f"{', '.join(title for title, _ in found)}: "), text(f"{why}."))]
        for way in filter(None, dict.fromkeys(how for _, how in found)):
            button = markup.button_words(way, shown.buttons)
            is_command = not button and _COMMAND.fullmatch(way)
            lines.append(markup.command(way) if is_command else tag("p", "How to get it: ", button or text(way)))
        parts.append(tag("div", *lines, class_="not-there"))
    return join_markup(parts)


def _content(source: str, name: str, render: Callable[..., Markup]) -> Callable[[ShownSubject], Markup]:
    """What draws that part of the view or of the report; a part of the view is drawn with the subject's number."""

    def content(shown: ShownSubject) -> Markup:
        part = getattr(getattr(shown, source), name)
        number = (shown.number,) if source == "view" else ()
        return render(part, *number) if part else NOTHING

    return content


def _notes(shown: ShownSubject) -> Markup:
    notes, expected = [*shown.report.notes], shown.report.expected
    if expected.achievable and expected.basis == "calibrated":
        notes.append("Expected speeds are based on rates measured on this machine")
    elif expected.achievable:
        notes.append("Expected speeds are based on the device catalog; `unslow calibrate` makes them more accurate")
    elif expected.because:
        notes.append(f"No prediction: {expected.because}")
    return tag("ul", *(tag("li", sentence(note)) for note in notes), class_="notes") if notes else NOTHING


_PANELS = {
    "speed": Panel("Speed", _content("view", "speeds", lambda rows, _: speeds(rows)), wide=True),
    "findings": Panel("Causes", lambda shown: diagnosis.findings(shown.report)),
    "budget": Panel("Where the time goes", lambda s: budgets(s.report.budget, s.report.findings), short="Time"),
    "memory": Panel("Memory", _content("view", "memory", render_memory), wide=True),
    "timeline": Panel("Timeline", _content("view", "timeline", render_timeline), wide=True),
    "roofline": Panel("Roofline", _content("view", "roofline", render_roofline)),
    "depth": Panel("Speed by context depth", _content("view", "depth", render_curve), short="Depth"),
    "users": Panel("Speed by concurrent users", _content("view", "users", render_curve), short="Users"),
    "change": Panel("Before and after", _content("view", "change", render_change), wide=True),
    "missing": Panel("Not available", _missing, wide=True),
    "contradictions": Panel(
        "Contradictions", _content("report", "contradictions", diagnosis.contradictions), wide=True
    ),
    "checklist": Panel("Checklist", _content("report", "checklist", diagnosis.checklist)),
    "untold": Panel("Undetermined", lambda s: diagnosis.undetermined_causes(s.report, s.buttons)),
    "understood": Panel("What the text says", _content("report", "known", diagnosis.text_facts), short="Text"),
    "ruled_out": Panel("Ruled out", _content("report", "ruled_out", diagnosis.ruled_out_causes)),
    "notes": Panel("Notes", _notes),
}
PANEL_NAMES = ("verdict", *_PANELS)


def frame_page(
    title: str, content: Markup, *, head: Markup = NOTHING, serving: Serving | None = None, tabs: tuple[Tab, ...] = ()
) -> str:
    """A whole document; `head` stands beside the name in its header. Without `serving` it is a file."""
    theme = tag("button", "Dark theme", type="button", id="theme", class_="only-script", aria_pressed="false")
    links = [tag("a", tab.label, href=tab.href, aria_current="page" if tab.current else None) for tab in tabs]
    nav = tag("nav", *links, aria_label="Pages", class_="tabs") if tabs else NOTHING
    header = tag("header", tag("div", tag("h1", title), head, class_="names"), nav, theme)
    # What tells areas apart without their colour
    line = tag("path", d="M-2,2 l4,-4 M0,8 l8,-8 M6,10 l4,-4", class_="hatch-line")
    pattern = tag("pattern", line, id="hatch", width="8", height="8", patternUnits="userSpaceOnUse")
    patterns = tag("svg", tag("defs", pattern), width="0", height="0", class_="patterns", aria_hidden="true")
    body = tag(
        "body",
        tag("a", "Skip to content", class_="skip", href="#main"),
        header,
        tag("main", content, id="main", tabindex="-1"),
        markup.run_bar() if serving else NOTHING,
        tag("p", "", id="said", class_="for-ears", role="status", aria_live="polite"),
        patterns,
    )
    return f"<!doctype html>\n{tag('html', _head(title, serving), body, lang='en')}\n"


def _head(title: str, serving: Serving | None) -> Markup:
    nonce = serving.nonce if serving else None
    hashes = (b64encode(sha256(content.encode()).digest()).decode() for content in (script(), style()))
    policy = _POLICY.format(*hashes)
    return tag(
        "head",
        tag("meta", charset="utf-8"),
        NOTHING if serving else tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="referrer", content="no-referrer"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("meta", name="unslow-token", content=serving.token) if serving else NOTHING,
        tag("link", rel="icon", href="data:,"),
        tag("title", title),
        tag("style", Markup(style()), nonce=nonce),
        tag("script", Markup(script()), nonce=nonce),
    )


@cache
def style() -> str:
    """The style sheet, that of the charts included."""
    return "\n".join((_ASSETS / name).read_text(encoding="utf-8") for name in ("style.css", "charts.css"))


@cache
def script() -> str:
    """The script."""
    return (_ASSETS / "page.js").read_text(encoding="utf-8")
