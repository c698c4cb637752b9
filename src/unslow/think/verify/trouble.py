"""Requests that failed: a server that answers only some of them is not faster, however fast those were."""

from typing import NamedTuple

from unslow.facts.verified import Side
from unslow.think.verify.report import Verdict

FEW, FEW_OF_ALL = 2, 0.05
"""So many failures, or such a share of all requests, may be an accident that says nothing of the change."""


class Trouble(NamedTuple):
    """What failures make of the verdict, and why."""

    verdict: Verdict
    because: str


def trouble_of(before: Side, after: Side, ended: str, *, apart: bool = False) -> Trouble | None:
    """What is wrong where one of both failed too often, or ended it before its time; None where nothing is."""
    sides = {"before": before, "after": after}
    failing = [name for name, side in sides.items() if fails_often(side) or fails_to_answer(side)]
    if ended and not failing:
        failing = ["after"] if apart else _most_failures(before, after)
    if not failing:
        return None
    if failing == ["before"] and before.failed_starts and not before.failures:
        return None  # the change is not to blame, and what was measured until then counts
    because = "; ".join(f"{name}: {_words(sides[name])}" for name in failing)
    return Trouble("broken" if failing == ["after"] else "cannot_tell", because)


def fails_often(side: Side) -> bool:
    """Whether more requests failed than by accident."""
    failed = len(side.failures)
    return failed > max(FEW, FEW_OF_ALL * (failed + len(side.samples)))


def fails_to_answer(side: Side) -> bool:
    """Whether it was asked the questions that are compared, and did not answer one of them, also when asked again."""
    return bool(side.compared_tokens and side.failures and not side.answers)


def _most_failures(before: Side, after: Side) -> list[str]:
    """Who ended it: the one that failed more often, else nobody knows which."""
    one, other = (len(side.failures) + len(side.failed_starts) for side in (before, after))
    return ["after"] if other > one else ["before"] if one > other else ["before", "after"]


def _words(side: Side) -> str:
    failed = len(side.failures)
    if not failed and side.failed_starts:
        return f"it did not start again ({side.failed_starts[-1]})"
    if not failed:
        return "it ended before its time"
    return f"{failed} of {failed + len(side.samples)} requests failed ({side.failures[-1]})"
