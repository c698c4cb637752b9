"""Lets another thread watch a measurement: who looks says what it began, and asks whether to go on.

An observer belongs to the thread that measures; where there is none, nothing is told and nothing is asked.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple

from unslow.facts.machine import Machine

if TYPE_CHECKING:
    from unslow.look.system.live import ClosingSystem


class ObservedAnswer(NamedTuple):
    """One request that was answered: which it was, and how fast."""

    case: str
    prompt_tokens: int
    generated_tokens: int
    decode_tokens_per_s: float | None
    prefill_tokens_per_s: float | None
    round: int = 1  # 0 is the warm-up, which counts for nothing


class Observer:
    """Whoever watches; this one does not care. Each method is called by the thread that measures."""

    is_stopping = False  # Whether what is known by now is enough

    def looked_at(self, machine: Machine) -> None:
        """The machine on which it is measured."""

    def sampling(self, sampler: Any) -> None:  # a `Sampler`, whose package imports this module
        """A sampler has started; it may be asked from any thread."""

    def on_answer(self, answer: ObservedAnswer) -> None:
        """A request was answered."""

    def on_system(self, door: "ClosingSystem") -> None:
        """What is measured is seen through this door, which can be closed from any thread."""


_OBSERVER: ContextVar[Observer | None] = ContextVar("who watches a measurement", default=None)


def current_observer() -> Observer | None:
    """Who watches this thread."""
    return _OBSERVER.get()


@contextmanager
def observed_by(watcher: Observer) -> Iterator[None]:
    """Tell this observer of all that this thread measures."""
    before = _OBSERVER.set(watcher)
    try:
        yield
    finally:
        _OBSERVER.reset(before)
