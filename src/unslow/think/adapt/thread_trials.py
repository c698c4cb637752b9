"""How many threads computed: as the runtime says, else as somebody who tried several numbers tells."""

import re
from typing import NamedTuple

from unslow.facts.account import Comparison, Topic
from unslow.facts.snapshot import Case
from unslow.facts.values import Known
from unslow.think.adapt.experiments import experiment_on, is_clear
from unslow.think.adapt.sides import counts_of, set_elsewhere, slow_side_has_more, slow_side_names

_MORE_CORES = re.compile(
    r"\be-cores?\b|efficiency cores?|\ball (?:\w+ )?(?:cores|threads|cpus)\b|hyper-?threading|\bsmt\b"
)


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
    slow, fast = counts_of(tried, Topic.THREADS)
    if fast and set_elsewhere(case.runtime.threads, tried) == fast:
        return None  # the faster number is the one in use
    other = case.runtime.threads.value_or(0)  # of two numbers that somebody names, the one that the text here lacks
    return ThreadTrial(tried, slow or (other if other != fast else 0), fast or (other if other != slow and slow else 0))


def fewer_are_faster(tried: Comparison) -> bool | None:
    """Whether the slow side has more threads, or those on slow cores; None where the text does not tell."""
    more = slow_side_has_more(tried, Topic.THREADS)
    return slow_side_names(tried, _MORE_CORES) if more is None else more


def threads_of(case: Case) -> tuple[int, str] | None:
    """The number of threads and the fact that tells it; None where nothing does."""
    tried = thread_trial(case)
    if tried and tried.slow_threads and tried.slow_threads != case.runtime.threads.value_or(0):
        return tried.slow_threads, "account.comparisons"
    return (case.runtime.threads.value, "runtime.threads") if isinstance(case.runtime.threads, Known) else None
