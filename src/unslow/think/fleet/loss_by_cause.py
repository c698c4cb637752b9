"""Whose the missing tokens are: each cause has its part by the price of its finding, and none is counted twice."""

from collections.abc import Sequence
from typing import NamedTuple

from unslow.think.predict import DECODE
from unslow.think.report import Finding, SubjectReport

UNEXPLAINED = ""
"""In place of a cause: what is lost and no finding has a price for."""
_ALSO_SLOW_ANSWERS = frozenset({"kv_cache_preemption"})
"""Causes of another phase that slow answers too: what is thrown out is computed again, in steps that all share."""


class Missing(NamedTuple):
    """Tokens per second that are missing, by what they are missing for; None of answers where it can't be told."""

    answers: float | None
    requests: dict[str, float]
    """By cause: of the time that requests lose inside the server."""
    waiting: float

    @property
    def whole(self) -> float:
        """Everything that can be told."""
        return (self.answers or 0.0) + sum(self.requests.values()) + self.waiting


def by_cause(report: SubjectReport, missing: Missing, by_itself: Sequence[str]) -> dict[str, float]:
    """The missing tokens by cause; what no price explains is of what the exporter names first, else unexplained."""
    taken = dict(missing.requests)
    for amount, phase, whole_s in (
        (missing.answers or 0.0, "decode", _missing_token_s(report)),
        (missing.waiting, "queue", 0.0),
    ):
        for cause, share in _shares(report, phase, whole_s).items():
            taken[cause] = taken.get(cause, 0.0) + amount * share
    rest = taken.pop(UNEXPLAINED, 0.0)
    named = by_itself[0] if by_itself else UNEXPLAINED
    taken[named] = taken.get(named, 0.0) + rest
    return {cause: amount for cause, amount in taken.items() if amount > 0}


def _missing_token_s(report: SubjectReport) -> float:
    """Seconds of a token beyond what is achievable; 0 where that is not known."""
    rate, best = report.measured.get(DECODE), report.expected.achievable.get(DECODE)
    return max(0.0, 1.0 / rate - 1.0 / best.mid) if rate and best else 0.0


def _shares(report: SubjectReport, phase: str, whole_s: float) -> dict[str, float]:
    """How much of what is lost in a phase each cause stands for, in all one."""
    roots = roots_of(report.findings)
    priced = {f.cause: f.cost.seconds for f in roots if f.phase == phase and f.cost and f.cost.seconds > 0}
    if priced:
        whole = max(whole_s, sum(priced.values()))
        shares = {cause: seconds / whole for cause, seconds in priced.items()}
        return shares | {UNEXPLAINED: max(0.0, 1.0 - sum(shares.values()))}
    unpriced = [f.cause for f in roots if f.phase == phase or f.cause in _ALSO_SLOW_ANSWERS]
    unpriced += [f.cause for f in roots if f.cost is None]
    return {unpriced[0] if unpriced else UNEXPLAINED: 1.0}


def roots_of(findings: tuple[Finding, ...]) -> list[Finding]:
    """Those that no other finding explains: what follows from one has no price of its own."""
    explained = {name for f in findings for name in f.explains}
    return [f for f in findings if f.cause not in explained]
