"""What sources state of one fact, in words, each with its place."""

from collections.abc import Callable, Sequence
from typing import Any

from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Statement
from unslow.facts.values import Known, Origin

_STATED = (Origin.REPORTED, Origin.MEASURED, Origin.TOLD)


def stated(runtimes: Sequence[Runtime], name: str) -> Known[Any] | None:
    """What the last source that knows says of a fact; a default or an estimate states nothing."""
    return next(iter(all_stated(reversed(list(runtimes)), name)), None)


def all_stated(runtimes: Any, name: str) -> list[Known[Any]]:
    """What each source states of a fact."""
    facts = [getattr(runtime, name) for runtime in runtimes]
    return [fact for fact in facts if isinstance(fact, Known) and fact.origin in _STATED]


def statement(fact: Known[Any], say: Callable[[Any], str], role: str = "") -> Statement:
    """A fact as a sentence; `role` tells what kind of source states it."""
    return Statement(says=f"{role}: {say(fact.value)}" if role else say(fact.value), source=fact.source)
