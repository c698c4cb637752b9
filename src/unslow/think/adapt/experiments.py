"""Experiments that a person tells of, and complaints: what words may prove on their own."""

from unslow.facts.account import Comparison, Metric, Topic
from unslow.facts.snapshot import Case
from unslow.facts.values import Known, Origin
from unslow.think.adapt.account import WORTH_COMPARING, complains, ratio
from unslow.think.adapt.remembered import once

_ANY_PHASE = ("unknown", "total")
_CIRCUMSTANCES = (Topic.DEPTH, Topic.CONTEXT)
"""What people say beside an experiment to tell where they measured."""


def experiment_on(case: Case, *topics: Topic, metrics: tuple[Metric, ...] = ()) -> Comparison | None:
    """Two speeds between which nothing but these differs, of several the widest apart; a nameless metric fits any.

    Where the fast side is the one in use, the experiment is over: it explains nothing of today.
    """
    found = [
        c
        for c in case.account.comparisons.value_or(())
        if c.differs
        and set(c.differs) <= set(topics)
        and c.slow > 0
        and c.now != "fast"
        and (not metrics or c.metric in (*metrics, *_ANY_PHASE))
    ]
    return max(found, key=ratio, default=None)


def tried(case: Case, topic: Topic, *beside: Topic) -> Comparison | None:
    """Two clearly different speeds that differ in a topic; `beside` may be named too, as how far into the context."""
    same = experiment_on(case, topic, *beside, *_CIRCUMSTANCES)
    return same if same is not None and topic in same.differs and is_clear(same) else None


def is_clear(comparison: Comparison | None) -> bool:
    """Whether there are two speeds and they really differ."""
    return comparison is not None and ratio(comparison) >= WORTH_COMPARING


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
