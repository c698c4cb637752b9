"""What a person tells of a case: remarks, complaints and experiments, and what arithmetic may not decide alone."""

import re
from functools import lru_cache
from typing import NamedTuple, TypeVar

from unslow.facts.account import Comparison, Metric, Remark, Topic
from unslow.facts.snapshot import Case
from unslow.facts.values import Fact, Known, Origin, Unknown
from unslow.think.case.runtime import NEWEST, build_number, runs_ggml
from unslow.think.memo import once

WORTH_COMPARING = 1.15  # Two speeds that are closer are the same speed, measured twice
_AMOUNT = re.compile(r"(\d{1,6}(?:\.\d+)?)\s?(?:-\s?\d{1,6}(?:\.\d+)?\s?)?([gmt])i?b\b", re.IGNORECASE)
_UNITS = {"m": 1e6, "g": 1e9, "t": 1e12}


def remarks_on(case: Case, *topics: Topic) -> list[Remark]:
    """What somebody says they saw of any of these."""
    return [r for r in case.account.remarks.value_or(()) if r.topic in topics and not r.denied]


def denies(case: Case, topic: Topic) -> bool:
    """Whether somebody says that it is not so."""
    return any(r.topic is topic and r.denied for r in case.account.remarks.value_or(()))


def compared_by(case: Case, *topics: Topic) -> Comparison | None:
    """The two speeds that are furthest apart and differ in one of these; None where none differ by enough."""
    now = (c for c in case.account.comparisons.value_or(()) if c.slow > 0 and c.now != "fast")
    widest = max((c for c in now if set(topics) & set(c.differs)), key=told_ratio, default=None)
    return widest if is_clear(widest) else None


def told_ratio(comparison: Comparison) -> float:
    """How many times faster the fast side is."""
    return comparison.fast / comparison.slow if comparison.slow > 0 else 0.0


def times_as_fast(comparison: Comparison) -> str:
    """How much faster the fast side is, in words; without a figure where none was told."""
    return "clearly faster" if comparison.worded else f"{told_ratio(comparison):.1f} times as fast"


def gain_of(comparison: Comparison) -> float | None:
    """How many times faster the fast side is, where somebody told a figure."""
    return None if comparison.worded else told_ratio(comparison)


def complains(case: Case, *metrics: Metric) -> bool:
    """Whether somebody finds it slow, in one of these phases or without saying in which."""
    metric = case.account.slow_metric
    return isinstance(metric, Known) and (metric.value in metrics or metric.value in {"total", "unknown"})


def amount_bytes(text: str) -> float:
    """The largest amount of memory that a text names; 0 where it names none."""
    return max((float(m[1]) * _UNITS[m[2].lower()] for m in _AMOUNT.finditer(text)), default=0.0)


_ANY_PHASE = ("unknown", "total")
_CIRCUMSTANCES = (Topic.DEPTH, Topic.CONTEXT)  # What people say beside an experiment to tell where they measured


def experiment_on(case: Case, *topics: Topic, metrics: tuple[Metric, ...] = ()) -> Comparison | None:
    """Two speeds between which nothing but these differs, of several the widest apart; a nameless metric fits any.

    Where the fast side is the one in use, the experiment is over: it explains nothing of today.
    """
    now = (c for c in case.account.comparisons.value_or(()) if c.slow > 0 and c.now != "fast")
    alone = (c for c in now if c.differs and set(c.differs) <= set(topics))
    found = (c for c in alone if not metrics or c.metric in (*metrics, *_ANY_PHASE))
    return max(found, key=told_ratio, default=None)


def tried(case: Case, topic: Topic, *beside: Topic) -> Comparison | None:
    """Two clearly different speeds that differ in a topic; `beside` may be named too, as how far into the context."""
    same = experiment_on(case, topic, *beside, *_CIRCUMSTANCES)
    return same if same is not None and topic in same.differs and is_clear(same) else None


def is_clear(comparison: Comparison | None) -> bool:
    """Whether there are two speeds and they really differ."""
    return comparison is not None and told_ratio(comparison) >= WORTH_COMPARING


@once
def is_report(case: Case) -> bool:
    """Whether a person wrote this down: then something was too slow for them."""
    account, run = case.account, case.run
    told = (getattr(account, name) for name in account.__struct_fields__)
    names = (case.machine.gpus, case.machine.system.name, case.model.name, case.runtime.name, case.runtime.version)
    speeds = (run.decode_tokens_per_s, run.prefill_tokens_per_s, run.load_s, case.runtime.name)
    return any(isinstance(f, Known) for f in told) or any(
        isinstance(f, Known) and f.origin is Origin.TOLD for f in (*names, *speeds)
    )


def blames(case: Case, *metrics: Metric) -> bool:
    """Whether a person finds one of these phases slow; a report that names no phase may be about any of them."""
    unnamed = not isinstance(case.account.slow_metric, Known)
    return complains(case, *metrics) or (unnamed and is_report(case))


def names_phase(case: Case, *metrics: Metric) -> bool:
    """Whether a person names one of these phases as the slow one."""
    return case.account.slow_metric.value_or("") in metrics


# Which side of an experiment has what: the slow one, the fast one, or nobody tells.
# What reads prose is imported where there is some: most reports have none, and it takes as long as a whole judgement.

T = TypeVar("T")


def slow_side_has(trial: Comparison, *topics: Topic) -> bool | None:
    """Whether the slow side is the one with one of these things; None where the text does not tell."""
    from unslow.think.text.sides import side_with  # noqa: PLC0415

    side = side_with(*labels(trial), *topics)
    return None if side is None else side == "slow"


def slow_side_has_more(trial: Comparison, topic: Topic) -> bool | None:
    """Whether the slow side is the one with more of a thing that is counted; None where the text does not tell."""
    from unslow.think.text.sides import side_with_more  # noqa: PLC0415

    side = side_with_more(*labels(trial), topic)
    return None if side is None else side == "slow"


def slow_side_names(trial: Comparison, pattern: re.Pattern[str]) -> bool | None:
    """Whether a word stands beside the slow side alone, or the fast one alone; None where beside both or neither."""
    slow, fast = (bool(pattern.search(label)) for label in labels(trial))
    return None if slow == fast else slow


def counts_of(trial: Comparison, topic: Topic) -> tuple[int, int]:
    """How many of a thing the slow and the fast side have; 0 where the text does not tell."""
    from unslow.think.text.sides import label_counts  # noqa: PLC0415

    return label_counts(*labels(trial), topic)


def set_elsewhere(fact: Fact[T], trial: Comparison) -> T | None:
    """A setting as something else than the account of the trial shows it: the trial's own text names both sides."""
    if not isinstance(fact, Known):
        return None
    own_text, trials_text = (source.rpartition(":")[0] or source for source in (fact.source, trial.source))
    return fact.value if own_text != trials_text else None


@lru_cache(maxsize=256)
def labels(trial: Comparison) -> tuple[str, str]:
    """What is said of the slow side and of the fast one; older accounts hold it in their text only."""
    if trial.slow_is or trial.fast_is:
        return trial.slow_is, trial.fast_is
    from unslow.think.text.comparisons import labels_in  # noqa: PLC0415

    return labels_in(trial)


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


FITS_ITSELF_SINCE = 7407
"""The build of llama.cpp from which it places by itself as many layers as fit (December 2025)."""
_PLACE_THEMSELVES = ("ollama", "lm studio", "jan", "gpt4all", "vllm", "sglang", "localai")
_OTHER_PHASES: tuple[Metric, ...] = ("prefill", "first_token", "load")
_OTHER_STORIES = (Topic.COPIES_TO_GPU, Topic.RELOADS, Topic.QUEUED, Topic.PROMPT_AGAIN, Topic.THROTTLED)


def tells_only_of_slowness(case: Case) -> bool:
    """Whether nothing but slow generation is told: no version that was faster, no trial, no other phase."""
    account = case.account
    tried = any(comparison.differs for comparison in account.comparisons.value_or(()))
    if tried or isinstance(account.version_since, Known) or names_phase(case, *_OTHER_PHASES):
        return False
    return not remarks_on(case, *_OTHER_STORIES)


def lost_since_a_version(case: Case) -> bool:
    """Whether the author says that another version or driver was well."""
    if isinstance(case.account.version_since, Known) or isinstance(case.account.version_before, Known):
        return True
    if remarks_on(case, Topic.GOING_BACK_HELPS):
        return True
    topics = {topic for comparison in case.account.comparisons.value_or(()) for topic in comparison.differs}
    return bool(topics & {Topic.VERSION, Topic.DRIVER})


def places_layers_itself(case: Case) -> bool | None:
    """Whether the runtime chooses how many layers go to the GPU; None where its name or its age is not known."""
    name = case.runtime.name.value_or("").lower()
    if not name or isinstance(case.runtime.fit, Known):
        return case.runtime.fit.value_or(None)
    if any(each in name for each in _PLACE_THEMSELVES):
        return True
    if not runs_ggml(case):
        return None
    build = build_number(case.runtime.version.value_or(""))
    return None if build == NEWEST else build >= FITS_ITSELF_SINCE


def settings_unread(case: Case) -> bool:
    """Whether layers may have been set by hand on a server of llama.cpp that nobody could read the command line of."""
    runtime = case.runtime
    unread = isinstance(runtime.command, Unknown) and isinstance(runtime.gpu_layers_set, Unknown)
    return unread and not is_report(case) and runtime.name.value_or("") == "llama.cpp"
