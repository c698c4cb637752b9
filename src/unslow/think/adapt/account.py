"""What a person tells, by what it is about."""

import re

from unslow.facts.account import Comparison, Metric, Remark, Topic
from unslow.facts.snapshot import Case
from unslow.facts.values import Known

WORTH_COMPARING = 1.15
"""Two speeds that are closer are the same speed, measured twice."""
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
    found = [c for c in case.account.comparisons.value_or(()) if set(topics) & set(c.differs) and c.slow > 0]
    found = [c for c in found if c.now != "fast"]
    widest = max(found, key=ratio, default=None)
    return widest if widest and ratio(widest) >= WORTH_COMPARING else None


def ratio(comparison: Comparison) -> float:
    """How many times faster the fast side is."""
    return comparison.fast / comparison.slow if comparison.slow > 0 else 0.0


def times_as_fast(comparison: Comparison) -> str:
    """How much faster the fast side is, in words; without a figure where none was told."""
    return "clearly faster" if comparison.worded else f"{ratio(comparison):.1f} times as fast"


def gain_of(comparison: Comparison) -> float | None:
    """How many times faster the fast side is, where somebody told a figure."""
    return None if comparison.worded else ratio(comparison)


def complains(case: Case, *metrics: Metric) -> bool:
    """Whether somebody finds it slow, in one of these phases or without saying in which."""
    metric = case.account.slow_metric
    return isinstance(metric, Known) and (metric.value in metrics or metric.value in {"total", "unknown"})


def amount_bytes(text: str) -> float:
    """The largest amount of memory that a text names; 0 where it names none."""
    return max((float(m[1]) * _UNITS[m[2].lower()] for m in _AMOUNT.finditer(text)), default=0.0)
