"""Views for the tests of the page, and what a browser would read of it."""

from functools import cache
from html.parser import HTMLParser

import chart_samples
import msgspec
from all_firing import FIRING

from unslow.page.html.document import document
from unslow.page.view import ChangeRow, ChangeView, Missing, SpeedRow, SubjectView, View, WhatIf
from unslow.think.case.view import CaseView
from unslow.think.judge.judge import judge
from unslow.think.report import Range, Report, SubjectReport

VOID = {"br", "hr", "img", "input", "link", "meta"}


class Parsed(HTMLParser):
    """The elements of a page with their attributes, its text, and whether every one that is opened is closed."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.open: list[str] = []
        self.broken: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.broken.append(tag)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)

    def all(self, tag: str, **wanted: str) -> list[dict[str, str | None]]:
        return [
            attributes
            for name, attributes in self.elements
            if name == tag and all(attributes.get(key.rstrip("_")) == value for key, value in wanted.items())
        ]


def change() -> ChangeView:
    def reach(mid: float) -> Range:
        return Range(low=0.9 * mid, mid=mid, high=1.1 * mid)

    row = ChangeRow(
        metric="decode_tokens_per_s", before=reach(16), after=reach(196), speedup=reach(12.2), verdict="faster"
    )
    return ChangeView(
        verdict="faster",
        because="it is 12 times as fast",
        rows=(row,),
        changes=("-ngl 20 → not set",),
        source="unslow verify",
    )


@cache
def subject(cause: str = "gpu_layers_set_too_low") -> SubjectReport:
    return judge(CaseView(FIRING[cause]()))


def moved(knob: str, value: str) -> WhatIf:
    now = chart_samples.spilling()
    return msgspec.structs.replace(
        now, settings={**now.settings, knob: value}, verdict="fits", summary=f"Fits with {knob} at {value}"
    )


def view(*reports: SubjectReport, **changes: object) -> View:
    """One of everything."""
    report = Report(
        unslow_version="1.2", machine={"gpus": "H200, H200", "memory_bytes": 2**36}, subjects=reports or (subject(),)
    )
    memory = msgspec.structs.replace(
        chart_samples.memory(), ready=(moved("context", "8192"), moved("context", "4096"), moved("gpu_layers", "60"))
    )
    row = SpeedRow(
        metric="decode_tokens_per_s",
        measured=16.0,
        as_configured=Range(low=12, mid=34, high=72),
        achievable=Range(low=180, mid=232, high=300),
        ceiling=1038.0,
        goal=100.0,
    )
    drawn = {
        "speeds": (row,),
        "memory": memory,
        "roofline": chart_samples.roofline(),
        "timeline": chart_samples.recorded_timeline(),
        "depth": chart_samples.depth_curve(),
        "users": chart_samples.users_curve(),
        "change": change(),
    }
    subjects = tuple(SubjectView(number=n, **(drawn | changes)) for n in range(len(report.subjects)))
    return View(unslow_version="1.2", taken_at="2026-01-02T03:04:05+00:00", report=report, subjects=subjects)


def bare() -> View:
    """Nothing drawn, and the reasons."""
    why = {name: Missing(why="nothing was watched", how_to_get="unslow bench") for name in ("memory", "timeline")}
    return msgspec.structs.replace(view(), subjects=(SubjectView(number=0, missing=why),))


@cache
def page() -> str:
    """The file with one of everything."""
    return document(view())


def parsed(shown: View, **how: object) -> Parsed:
    return Parsed(document(shown, **how))
