"""What a person says about a case: remarks, complaints and experiments."""

import re
from collections.abc import Iterable
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, TypeVar

from unslow.facts.account import Comparison, Metric, Remark, Topic
from unslow.facts.values import Fact, Known, MissingFactError, Origin, Unknown
from unslow.think.case.group import Citations, Group
from unslow.think.report import Evidence

WORTH_COMPARING = 1.15  # Two speeds that are closer are the same speed, measured twice
_AMOUNT = re.compile(r"(\d{1,6}(?:\.\d+)?)\s?(?:-\s?\d{1,6}(?:\.\d+)?\s?)?([gmt])i?b\b", re.IGNORECASE)
_UNITS = {"m": 1e6, "g": 1e9, "t": 1e12}
_ANY_PHASE = ("unknown", "total")
_CIRCUMSTANCES = (Topic.DEPTH, Topic.CONTEXT)  # What people say beside an experiment to tell where they measured

# Which side of an experiment has what: the slow one, the fast one, or nobody tells.
# What reads prose is imported where there is some: most reports have none, and it takes as long as a whole judgement.

T = TypeVar("T")
_MORE_CORES = re.compile(
    r"\be-cores?\b|efficiency cores?|\ball (?:\w+ )?(?:cores|threads|cpus)\b|hyper-?threading|\bsmt\b"
)
_SPLITS = re.compile(r"\b(row|layer|tensor|none)s?\b\W{1,3}\d")  # A way to split, as the label of a speed


class ThreadTrial(NamedTuple):
    """Two numbers of threads that somebody tried; 0 where the text does not tell it."""

    speeds: Comparison
    slow_threads: int
    fast_threads: int


_OTHER_PHASES: tuple[Metric, ...] = ("prefill", "first_token", "load")
_OTHER_STORIES = (Topic.COPIES_TO_GPU, Topic.RELOADS, Topic.QUEUED, Topic.PROMPT_AGAIN, Topic.THROTTLED)


class NarrativeView(Group):
    """The words of the person who reports it."""

    def remarks_on(self, *topics: Topic) -> list[Remark]:
        """What a person says they saw of any of these."""
        return [r for r in self.account.remarks.value_or(()) if r.topic in topics and not r.denied]

    def comparison_by(self, *topics: Topic) -> Comparison | None:
        """The two speeds that are furthest apart and differ in one of these; None where none differ by enough."""
        now = (c for c in self.account.comparisons.value_or(()) if c.slow > 0 and c.now != "fast")
        widest = max((c for c in now if set(topics) & set(c.differs)), key=told_ratio, default=None)
        return widest if is_clear(widest) else None

    def experiment_on(self, *topics: Topic, metrics: tuple[Metric, ...] = ()) -> Comparison | None:
        """Two speeds between which nothing but these differs, of several the widest apart; a nameless metric fits any.

        Where the fast side is the one in use, the experiment is over: it explains nothing of today.
        """
        now = (c for c in self.account.comparisons.value_or(()) if c.slow > 0 and c.now != "fast")
        alone = (c for c in now if c.differs and set(c.differs) <= set(topics))
        found = (c for c in alone if not metrics or c.metric in (*metrics, *_ANY_PHASE))
        return max(found, key=told_ratio, default=None)

    def trial_of(self, topic: Topic, *beside: Topic) -> Comparison | None:
        """Two clearly different speeds that differ in a topic; the topics `beside` it may differ too."""
        same = self.experiment_on(topic, *beside, *_CIRCUMSTANCES)
        return same if same is not None and topic in same.differs and is_clear(same) else None

    @cached_property
    def is_report(self) -> bool:
        """Whether a person wrote this down: then something was too slow for them."""
        account, run = self.account, self.run
        told = (getattr(account, name) for name in account.__struct_fields__)
        names = (self.machine.gpus, self.machine.system.name, self.model.name, self.runtime.name, self.runtime.version)
        speeds = (run.decode_tokens_per_s, run.prefill_tokens_per_s, run.load_s, self.runtime.name)
        return any(isinstance(f, Known) for f in told) or any(
            isinstance(f, Known) and f.origin is Origin.TOLD for f in (*names, *speeds)
        )

    def blames(self, *metrics: Metric) -> bool:
        """Whether a person finds one of these phases slow; a report that names no phase may be about any of them."""
        metric = self.account.slow_metric
        return metric.value in (*metrics, *_ANY_PHASE) if isinstance(metric, Known) else self.is_report

    def names_phase(self, *metrics: Metric) -> bool:
        """Whether a person names one of these phases as the slow one."""
        return self.account.slow_metric.value_or("") in metrics

    @cached_property
    def thread_trial(self) -> ThreadTrial | None:
        """A trial with other numbers of threads that made a real difference."""
        tried = self.experiment_on(Topic.THREADS)
        if tried is None or not is_clear(tried):
            return None
        slow, fast = counts_of(tried, Topic.THREADS)
        if fast and set_elsewhere(self.runtime.compute.threads, tried) == fast:
            return None  # the faster number is the one in use
        # Of two numbers that somebody names, the one that the text here lacks
        other = self.runtime.compute.threads.value_or(0)
        slow_threads = slow or (other if other != fast else 0)
        return ThreadTrial(tried, slow_threads, fast or (other if other != slow and slow else 0))

    @cached_property
    def thread_count(self) -> tuple[int, str] | None:
        """The number of threads and the fact that tells it; None where nothing does."""
        tried, threads = self.thread_trial, self.runtime.compute.threads
        if tried and tried.slow_threads and tried.slow_threads != threads.value_or(0):
            return tried.slow_threads, "account.comparisons"
        return (threads.value, "runtime.compute.threads") if isinstance(threads, Known) else None

    def need_thread_count(self) -> tuple[int, str]:
        """The same; a missing number is asked for."""
        if self.thread_count is None:
            raise MissingFactError(self.case.fact("runtime.compute.threads"), "runtime.compute.threads")
        return self.thread_count

    @cached_property
    def tells_only_of_slowness(self) -> bool:
        """Whether nothing but slow generation is told: no version that was faster, no trial, no other phase."""
        account = self.account
        tried = any(comparison.differs for comparison in account.comparisons.value_or(()))
        if tried or isinstance(account.version_since, Known) or self.names_phase(*_OTHER_PHASES):
            return False
        return not self.remarks_on(*_OTHER_STORIES)

    @cached_property
    def blames_version(self) -> bool:
        """Whether the author says that another version or driver was well."""
        if isinstance(self.account.version_since, Known) or isinstance(self.account.version_before, Known):
            return True
        if self.remarks_on(Topic.GOING_BACK_HELPS):
            return True
        topics = {topic for comparison in self.account.comparisons.value_or(()) for topic in comparison.differs}
        return bool(topics & {Topic.VERSION, Topic.DRIVER})

    def cite_remarks(self, remarks: Iterable[Remark]) -> Citations:
        """What a person says they saw, as evidence, each once."""
        texts = {remark.text: remark for remark in remarks}
        return tuple(_item("account.remarks", text, self.account.remarks, r.source) for text, r in texts.items())

    def cite_comparison(self, comparison: Comparison) -> Evidence:
        """Two speeds as evidence."""
        text = comparison.text or f"{comparison.slow:g} against {comparison.fast:g}"
        return _item("account.comparisons", text, self.account.comparisons, comparison.source)

    @cached_property
    def is_about_speed(self) -> bool:
        """Whether a person reports it, and does not complain about the load."""
        return self.is_report and not self.names_phase("load")

    @cached_property
    def comparisons(self) -> tuple[Comparison, ...]:
        """The pairs of speeds that a person tells; none where nobody wrote a report."""
        return self.account.comparisons.get() or ()

    @cached_property
    def split_trial(self) -> Comparison | None:
        """Two ways to split the model over GPUs that a person compared, whatever versions are named beside them."""
        topics = {Topic.TENSOR_PARALLEL, Topic.SPLIT_MODE}
        trial = self.experiment_on(*topics, Topic.GPU_COUNT, Topic.LINK)
        if trial is None:
            both = {Topic.SPLIT_MODE, Topic.VERSION}
            across = [c for c in self.account.comparisons.value_or(()) if set(c.differs) == both]
            trial = next((c for c in across if len(set(_SPLITS.findall(c.text.lower()))) > 1), None)
        return trial if trial is not None and topics & set(trial.differs) else None


def told_ratio(comparison: Comparison) -> float:
    """How many times faster the fast side is."""
    return comparison.fast / comparison.slow if comparison.slow > 0 else 0.0


def times_as_fast(comparison: Comparison) -> str:
    """How much faster the fast side is, in words; without a figure where none was told."""
    return "clearly faster" if comparison.worded else f"{told_ratio(comparison):.1f} times as fast"


def gain_of(comparison: Comparison) -> float | None:
    """How many times faster the fast side is, where somebody told a figure."""
    return None if comparison.worded else told_ratio(comparison)


def amount_bytes(text: str) -> float:
    """The largest amount of memory that a text names; 0 where it names none."""
    return max((float(m[1]) * _UNITS[m[2].lower()] for m in _AMOUNT.finditer(text)), default=0.0)


def is_clear(comparison: Comparison | None) -> bool:
    """Whether there are two speeds and they really differ."""
    return comparison is not None and told_ratio(comparison) >= WORTH_COMPARING


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


def fewer_are_faster(tried: Comparison) -> bool | None:
    """Whether the slow side has more threads, or those on slow cores; None where the text does not tell."""
    more = slow_side_has_more(tried, Topic.THREADS)
    return slow_side_names(tried, _MORE_CORES) if more is None else more


def _item(fact: str, text: str, known: Known[Any] | Unknown, source: str) -> Evidence:
    origin = known.origin if isinstance(known, Known) else Origin.TOLD
    return Evidence(fact=fact, value=text, reference=None, origin=str(origin), source=source)
