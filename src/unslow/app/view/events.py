"""What a run tells while it goes on, kept for whoever comes later, and bounded."""

import threading
import time
from typing import Any, Literal

import msgspec

from unslow.think.view.report import Shown, TimelineView

EventKind = Literal["progress", "said", "answer", "timeline", "done", "failed"]
MOST_EVENTS = 500
"""Of a run of hours, the last ones."""
_NEWEST_ONLY: frozenset[EventKind] = frozenset({"progress", "timeline"})
"""Each of these makes the one before it pointless."""


class AnswerSeen(Shown, frozen=True, kw_only=True):
    """One request that was answered, and how fast; a speed that it is too short to tell is None."""

    case: str
    prompt_tokens: int
    generated_tokens: int
    decode_tokens_per_s: float | None = None
    prefill_tokens_per_s: float | None = None
    first_token_s: float | None = None
    users: int = 1
    round: int = 1
    """0 is the warm-up, which counts for nothing."""


class Event(Shown, frozen=True, kw_only=True):
    """One thing that a run told; `number` counts from 1."""

    number: int
    kind: EventKind
    at_s: float
    """Since the run began."""
    text: str = ""
    hint: str = ""
    share: float | None = None
    answer: AnswerSeen | None = None
    timeline: TimelineView | None = None
    stopped: bool = False
    """Of the last one: whether it was ended early."""


class Events:
    """A bounded list that any thread may write and read."""

    def __init__(self) -> None:
        self._kept: list[Event] = []
        self._count = 0
        self._began_s = time.monotonic()
        self._lock = threading.Lock()

    def tell(self, kind: EventKind, **what: Any) -> None:
        """One event more."""
        with self._lock:
            self._count += 1
            kept = [event for event in self._kept if event.kind != kind] if kind in _NEWEST_ONLY else self._kept
            event = Event(number=self._count, kind=kind, at_s=round(time.monotonic() - self._began_s, 3), **what)
            self._kept = [*kept[-(MOST_EVENTS - 1) :], event]

    def after(self, since: int) -> list[Event]:
        """Those with a larger number, oldest first."""
        with self._lock:
            return [event for event in self._kept if event.number > since]


def encoded(event: Event) -> bytes:
    """The event as a line of JSON."""
    return msgspec.json.encode(event) + b"\n"
