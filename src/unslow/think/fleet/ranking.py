"""Instances by what they lose, and causes by what they cost over the whole fleet."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TypeVar

from unslow.think.causes import all_causes
from unslow.think.fleet.loss_by_cause import UNEXPLAINED
from unslow.think.fleet.report import CauseCount, Instance, Loss
from unslow.think.report import Verdict

Amount = TypeVar("Amount", int, float)
WORST_FIRST: tuple[Verdict, ...] = ("failed", "slow", "cannot_tell", "normal")
MOST_NAMED = 5
"""Keys that stand for a cause."""
MOST_REASONS = 8
NOT_EXPLAINED = "Nothing that was found explains it"


def ranked(instances: Sequence[Instance]) -> tuple[Instance, ...]:
    """Those that lose most tokens first, then by GPU-hours, by verdict and by name: the same order every time."""
    return tuple(sorted(instances, key=_order))


def _order(one: Instance) -> tuple[float, float, int, str]:
    return -(one.lost.tokens_per_s or 0.0), -(one.lost.gpu_hours or 0.0), WORST_FIRST.index(one.verdict), one.key


def verdict_counts(instances: Iterable[Instance]) -> dict[str, int]:
    """How many there are of each verdict, the worst first; one that nobody has is there with nought."""
    counts: dict[str, int] = dict.fromkeys(WORST_FIRST, 0)
    for one in instances:
        counts[one.verdict] += 1
    return counts


def sums(instances: Sequence[Instance]) -> Loss:
    """What all lose together, of those of which it is known; how many are not among it is said."""
    untold = sum(1 for one in instances if one.lost.tokens_per_s is None)
    because = f"{untold:,} of {len(instances):,} instances lose can't be told" if untold else ""
    return Loss(
        tokens_per_s=sum_of_known(one.lost.tokens_per_s for one in instances),
        gpu_hours=sum_of_known(one.lost.gpu_hours for one in instances),
        idle_gpu_hours=sum_of_known(one.lost.idle_gpu_hours for one in instances),
        because=because,
    )


def is_idle(one: Instance) -> bool:
    """Whether it can't be judged because nobody asked anything of it: it is known to lose nothing."""
    return one.verdict == "cannot_tell" and one.lost.tokens_per_s == 0.0


def untold(instances: Iterable[Instance]) -> dict[str, int]:
    """Why instances that were asked something could not be judged, the commonest reasons first.

    What stands behind a colon may be different for each, such as the name of its host: those are one reason.
    """
    alike: dict[str, Counter[str]] = {}
    for one in instances:
        if one.verdict == "cannot_tell" and not is_idle(one):
            reason = one.lost.because or one.summary
            alike.setdefault(reason.partition(": ")[0], Counter())[reason] += 1
    counts = sorted(((_said(head, whole), whole.total()) for head, whole in alike.items()), key=lambda c: (-c[1], c[0]))
    return dict(counts[:MOST_REASONS])


def _said(head: str, whole: Counter[str]) -> str:
    """A reason as the instances have it; of several that only end otherwise the commonest stands for all."""
    most = min(whole, key=lambda reason: (-whole[reason], reason))
    return most if len(whole) == 1 else f"{head}, such as {most.partition(': ')[2]}"


def sum_of_known(amounts: Iterable[Amount | None]) -> Amount | None:
    """What is known added up; None where nothing is, as that is not nought."""
    known = [amount for amount in amounts if amount is not None]
    return sum(known[1:], known[0]) if known else None


def cause_counts(instances: Sequence[Instance]) -> tuple[CauseCount, ...]:
    """Each cause over all instances that are not normal, the one that costs most tokens first.

    What an instance loses is shared among its causes, so that all causes together cost what the fleet loses.
    """
    by_cause: dict[str, list[Instance]] = {}
    for one in instances:
        for cause in _causes_of(one):
            by_cause.setdefault(cause, []).append(one)
    counts = [_count(cause, those) for cause, those in by_cause.items()]
    return tuple(sorted(counts, key=lambda c: (-(c.tokens_per_s or 0.0), -(c.gpu_hours or 0.0), -c.instances, c.cause)))


def _causes_of(one: Instance) -> dict[str, None]:
    """Its causes, each once: what was found, what its own exporter names, what nothing explains."""
    found = dict.fromkeys((f.cause for f in one.findings), None)
    return found | dict.fromkeys((*one.by_itself, *one.lost_by), None)


def _count(cause: str, those: list[Instance]) -> CauseCount:
    most = sorted(those, key=lambda one: (-one.lost_by.get(cause, 0.0), one.key))
    return CauseCount(
        cause=cause or "unexplained",
        title=_title(cause),
        instances=len(those),
        tokens_per_s=sum_of_known(_tokens(one, cause) for one in those),
        gpu_hours=sum_of_known(_hours(one, cause) for one in those),
        worst=tuple(one.key for one in most[:MOST_NAMED]),
    )


def _tokens(one: Instance, cause: str) -> float | None:
    """What an instance loses to this cause; None where nothing tells what it loses."""
    return None if one.lost.tokens_per_s is None else one.lost_by.get(cause, 0.0)


def _hours(one: Instance, cause: str) -> float | None:
    """The GPU-hours of an instance that are this cause's, by its part of the tokens; None where nothing tells."""
    tokens, hours = one.lost.tokens_per_s, one.lost.gpu_hours
    if hours is None:
        return None
    if not tokens:  # it gives nothing at all, and the first of its causes is why
        return hours if next(iter(_causes_of(one)), UNEXPLAINED) == cause else 0.0
    return hours * one.lost_by.get(cause, 0.0) / tokens


def _title(cause: str) -> str:
    known = all_causes().get(cause)
    return known.title if known else NOT_EXPLAINED if cause == UNEXPLAINED else cause.replace("_", " ")
