"""How many threads computed: as the runtime says, else as somebody who tried several numbers tells."""

import re
from typing import NamedTuple

from unslow.facts.account import Comparison, Topic
from unslow.facts.snapshot import Case
from unslow.facts.values import Known
from unslow.think.adapt.experiments import experiment_on, is_clear

_COUNTED = (
    r"(?:(?<![\w-])-t\s?(?P<flag>\d{1,4})\b|threads?\s?[=:]?\s?(?P<after>\d{1,4})\b|\b(?P<before>\d{1,4}) threads?)"
)
_PAIR = re.compile(_COUNTED + r"[^\d.;]{0,24}?(?P<speed>\d{1,6}(?:\.\d{1,3})?)", re.IGNORECASE)
_WORDED = re.compile(
    r"(?P<a>\d{1,4})(?: threads?| cores?)?[^.;\d]{0,24}?\b(?P<which>faster|slower|quicker|better|worse) than "
    r"(?:with |using |at |on )?(?P<b>\d{1,4})\b(?! ?(?:x|%|tok|t/s|times))",
    re.IGNORECASE,
)
_NEAR = 0.02
"""Speeds that are this close in proportion are the same figure, rounded."""


_FASTER = frozenset({"faster", "quicker", "better"})


class ThreadTrial(NamedTuple):
    """Two numbers of threads that somebody tried; 0 where the text does not tell it."""

    speeds: Comparison
    slow_threads: int
    fast_threads: int


def thread_trial(case: Case) -> ThreadTrial | None:
    """A trial with other numbers of threads that made a real difference."""
    tried = experiment_on(case, Topic.THREADS)
    if tried is None or not is_clear(tried):
        return None
    if tried.worded:
        return _worded(case, tried)
    pairs = [(float(m["speed"]), int(m["flag"] or m["after"] or m["before"])) for m in _PAIR.finditer(tried.text)]
    slow, fast = _with(pairs, tried.slow), _with(pairs, tried.fast)
    other = case.runtime.threads.value_or(0)  # of two numbers that somebody names, the one that the text here lacks
    return ThreadTrial(tried, slow or (other if other != fast else 0), fast or (other if other != slow and slow else 0))


def _worded(case: Case, tried: Comparison) -> ThreadTrial:
    """Two numbers that are held against one another; else the number that is set is the slow one."""
    match = _WORDED.search(tried.text)
    if match is None:
        return ThreadTrial(tried, case.runtime.threads.value_or(0), 0)
    a, b = int(match["a"]), int(match["b"])
    return ThreadTrial(tried, b, a) if match["which"].lower() in _FASTER else ThreadTrial(tried, a, b)


def _with(pairs: list[tuple[float, int]], speed: float) -> int:
    return next((count for value, count in pairs if abs(value - speed) <= _NEAR * speed), 0)


def threads_of(case: Case) -> tuple[int, str] | None:
    """The number of threads and the fact that tells it; None where nothing does."""
    tried = thread_trial(case)
    if tried and tried.slow_threads and tried.slow_threads != case.runtime.threads.value_or(0):
        return tried.slow_threads, "account.comparisons"
    return (case.runtime.threads.value, "runtime.threads") if isinstance(case.runtime.threads, Known) else None
