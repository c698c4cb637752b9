"""The verdict: one sentence with the number, why, and what to do first."""

import re
from collections.abc import Mapping

from unslow.show._html.buttons import NO_BUTTONS, pressed
from unslow.show._html.markup import NOTHING, Markup, joined, tag, text
from unslow.show._html.words import VERDICTS, badge
from unslow.show._units import rate
from unslow.think.report import SubjectReport

_SENTENCES = re.compile(r"(?<=[^\W_][.!?])\s+(?=[A-Z`])")
_NEXT = re.compile(r"(?:^|\s)(?P<name>First|To find out): (?P<what>.+)$", re.DOTALL)
"""What to do, which a summary ends with."""
_DECODE = "decode_tokens_per_s"
_NO_DEVICE = "unknown hardware"


def render(subject: SubjectReport, number: int, buttons: Mapping[str, str] = NO_BUTTONS) -> Markup:
    """The head of a subject; `buttons` are what the page can start."""
    told, found = _parted(subject.summary)
    first, *rest = _SENTENCES.split(told, maxsplit=1)
    sign, title = VERDICTS[subject.verdict], f"verdict-{number}-title"
    return tag(
        "section",
        tag("p", badge(sign), " ", tag("span", subject_name(subject), class_="subject"), class_="kicker"),
        tag("div", _figure(subject), tag("h2", text(first), id=title), class_="headline"),
        tag("p", text(rest[0]), class_="lead") if rest else NOTHING,
        _next(*found, buttons) if found else NOTHING,
        tag("p", _server(subject), class_="quiet") if subject.url else NOTHING,
        id=f"verdict-{number}",
        class_=f"verdict {sign.tone}",
        data_panel="verdict",
        aria_labelledby=title,
        tabindex="-1",
    )


def _parted(summary: str) -> tuple[str, tuple[str, str] | None]:
    """What is, and what to do about it."""
    found = _NEXT.search(summary)
    return (summary[: found.start()], (found["name"], found["what"])) if found and found.start() else (summary, None)


def _next(name: str, what: str, buttons: Mapping[str, str]) -> Markup:
    """What to do next, on a line of its own: it is what most came for."""
    said = (pressed(what, buttons) or what) if name != "First" else what
    return tag("p", tag("b", f"{'Do this first' if name == 'First' else name}: "), text(said), class_="next")


def subject_name(subject: SubjectReport) -> str:
    """Runtime, model and device on a line."""
    return " · ".join(name for name in (subject.runtime, subject.model, device_name(subject)) if name)


def device_name(subject: SubjectReport) -> str:
    """The first device, with how many are like it; empty where none is known."""
    if not subject.devices or subject.devices[0] == _NO_DEVICE:
        return ""
    alike, device = subject.devices.count(subject.devices[0]), subject.devices[0]
    device = device.replace("(R)", "").replace("(TM)", "")
    return f"{alike} x {device}" if alike > 1 else device


def _figure(subject: SubjectReport) -> Markup:
    """The measured speed in large figures."""
    speed = subject.measured.get(_DECODE)
    if speed is None:
        return NOTHING
    return tag("p", tag("strong", rate(speed)), " ", tag("span", "tok/s", class_="unit"), class_="figure")


def _server(subject: SubjectReport) -> Markup:
    process = f", process {subject.pid}" if subject.pid else ""
    return joined([subject.url, process])
