"""Lanes above the rows of a timeline: where each phase was, and when a driver held the clocks back."""

from collections.abc import Iterable, Sequence

from unslow.show._html.labels import Box, fitted, width
from unslow.show._html.scales import Linear, sane
from unslow.show._html.svg import LINE, Drawing
from unslow.show._html.timeline_tracks import short_device
from unslow.show._units import span
from unslow.think.view.report import PhaseSpan, ThrottleMark, TimelineView

PHASES = {"load": "load", "queue": "queue", "prefill": "prompt", "decode": "answer", "idle": "idle"}
"""In the order of a request; others come after."""
MOST_LANES, MOST_SPANS = 8, 2000
_HIGH, _GAP = 12.0, 4.0
_THINNEST = 0.8
"""A short phase is still seen."""
_CLOSE = 0.6
"""Units: what lies closer together is one stretch."""


def lanes(drawing: Drawing, time: Linear, part: TimelineView) -> None:
    """A lane for each phase, so that requests at once don't hide each other, then one for each reason."""
    drawing.height = 2.0
    close_s = _CLOSE / max(1.0, time.end - time.start) * time.high
    for phase, found in list(joined_spans(part.spans[:MOST_SPANS], close_s).items())[:MOST_LANES]:
        _phase(drawing, time, phase, found)
    for marks in list(_reasons(part.marks))[:MOST_LANES]:
        _reason(drawing, time, marks)
    drawing.height += _GAP


def joined_spans(spans: Iterable[PhaseSpan], close_s: float) -> dict[str, list[tuple[float, float]]]:
    """Stretches by phase, in order, those that touch as one."""
    found: dict[str, list[tuple[float, float]]] = {phase: [] for phase in PHASES}
    for one in sorted(spans, key=lambda one: one.start_s):
        stretches = found.setdefault(one.phase, [])
        start, end = sane(one.start_s), sane(one.end_s)
        if stretches and start - stretches[-1][1] <= close_s:
            stretches[-1] = stretches[-1][0], max(stretches[-1][1], end)
        else:
            stretches.append((start, end))
    return {phase: stretches for phase, stretches in found.items() if stretches}


def _phase(drawing: Drawing, time: Linear, phase: str, found: Sequence[tuple[float, float]]) -> None:
    top, words = drawing.height, PHASES.get(phase, phase)
    drawing.words(time.start - 8, top + _HIGH - 2, fitted(words, time.start - 8), "end")
    drawing.line(time.start, top + _HIGH, time.end, top + _HIGH, "grid")
    class_ = f"phase phase-{phase}" if phase in PHASES else "phase"
    for start, end in found:
        drawing.box(_stretch(time, start, end, top, _HIGH), class_, f"{words}: {_when(start, end)}")
    drawing.height = top + _HIGH + _GAP


def _when(start: float, end: float) -> str:
    return f"{span(max(0.0, end - start))} from {span(max(0.0, start))} on"


def _stretch(time: Linear, start: float, end: float, top: float, high: float) -> Box:
    left = min(time.at(start), time.end - _THINNEST)
    return Box(left, top, max(time.at(end), left + _THINNEST), top + high)


def _reasons(marks: Sequence[ThrottleMark]) -> list[list[ThrottleMark]]:
    """Marks of the same reason together, those that cost speed first."""
    groups: dict[tuple[bool, str], list[ThrottleMark]] = {}
    for mark in marks:
        groups.setdefault((not mark.harmful, mark.reason), []).append(mark)
    return [groups[key] for key in sorted(groups)]


def _reason(drawing: Drawing, time: Linear, marks: Sequence[ThrottleMark]) -> None:
    """The stretches with a pattern, and their words in the same lane where it is empty, else above."""
    name, said = _reason_words(marks)
    stretches = joined_spans((PhaseSpan(phase="", start_s=m.start_s, end_s=m.end_s) for m in marks), 0)[""]
    bold = name == "harmful"
    room = width(said, bold=bold) + 10
    first, last = time.at(stretches[0][0]), time.at(stretches[-1][1])
    beside = first - room if first - room >= 0 else last + 10 if last + room <= drawing.format.width else None
    top = drawing.height + (LINE + 2 if beside is None else 2)
    words = fitted(said, drawing.format.width, bold=bold)
    drawing.words(0 if beside is None else beside, top + (-3 if beside is None else 10), words, class_=f"{name}-words")
    drawing.line(time.start, top + _HIGH, time.end, top + _HIGH, "grid")
    for start, end in stretches:
        drawing.box(_stretch(time, start, end, top, _HIGH), f"throttle {name}", f"{said}: {_when(start, end)}", name)
    drawing.height = top + _HIGH + _GAP


def _reason_words(marks: Sequence[ThrottleMark]) -> tuple[str, str]:
    """Its class, and what it says."""
    devices = ", ".join(dict.fromkeys(short_device(mark.device) for mark in marks))
    reason = marks[0].reason.replace("_", " ")
    return (
        ("harmful", f"{reason}, costs speed: {devices}") if marks[0].harmful else ("harmless", f"{reason}: {devices}")
    )
