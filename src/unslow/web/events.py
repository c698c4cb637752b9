"""What a run tells the page: one JSON object a line, `event` says what it is, `number` where to go on from."""

from typing import Literal

import msgspec

RunKind = Literal["diagnose", "bench", "depth", "users"]
RunState = Literal["running", "done", "stopped", "failed"]


class Line(msgspec.Struct, frozen=True, kw_only=True, tag_field="event"):
    """One line; `events?since=NUMBER` gives those after it."""

    number: int = 0


class ProgressLine(Line, frozen=True, kw_only=True, tag="progress"):
    """What is being done, and how much of it is done."""

    text: str
    share: float | None = None
    """None of a remark that stays, such as how much is sent and to whom."""


class SampleLine(Line, frozen=True, kw_only=True, tag="sample"):
    """The newest values of what is watched, by name."""

    at_s: float
    values: dict[str, float]


class PassLine(Line, frozen=True, kw_only=True, tag="pass"):
    """One request was answered."""

    text: str
    tokens_per_s: float | None = None


class PanelLine(Line, frozen=True, kw_only=True, tag="panel"):
    """A panel of the page has changed: its new HTML."""

    subject: int
    name: str
    html: str


class DoneLine(Line, frozen=True, kw_only=True, tag="done"):
    """It is over and the page's view is new: `stopped` where somebody ended it early."""

    text: str
    stopped: bool = False
    reload: bool = False
    """Whether the page has other subjects now, or in another order."""
    anyway: str = ""
    """What measuring all the same would do, with `evict`; empty where nothing was in the way."""


class ErrorLine(Line, frozen=True, kw_only=True, tag="error"):
    """It could not be done."""

    message: str
    hint: str = ""
    anyway: str = ""
    """What it would do all the same, with `evict`; empty where that would not help."""


RunLine = ProgressLine | SampleLine | PassLine | PanelLine | DoneLine | ErrorLine


class RunWanted(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What to measure: the subject by its number in the view, None for whatever runs."""

    kind: RunKind
    subject: int | None = None
    quick: bool = False
    evict: bool = False
    """Measure even if a chat must then read its prompt again."""


class RunShown(msgspec.Struct, frozen=True, kw_only=True):
    """A run and how far it is."""

    id: str
    kind: RunKind
    subject: int | None
    state: RunState
    text: str = ""
    share: float = 0.0
    schema: str = "unslow.run/1"


class Offer(msgspec.Struct, frozen=True, kw_only=True):
    """What a run would do, told before it is started."""

    kind: RunKind
    subject: int | None = None
    """By its number in the view; None where nothing runs and the embedded engine is measured."""
    label: str
    words: str
    """What is sent, and to whom."""
    refused: str = ""
    """Why it can't be started now; empty where it can."""
