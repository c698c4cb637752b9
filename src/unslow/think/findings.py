"""What was found, priced: time lost, speed gained, and which remedies are worth turning a knob for."""

import statistics

from unslow.facts.snapshot import Case
from unslow.facts.values import Known, Origin, Unknown
from unslow.think.causes import all_causes
from unslow.think.causes._cause import Found, Remedy
from unslow.think.predict import DECODE, Prediction, predict
from unslow.think.report import Cost, Evidence, Finding, Fix

_TRUST = {Origin.MEASURED: 0.95, Origin.REPORTED: 0.9, Origin.DATASHEET: 0.8, Origin.TOLD: 0.7, Origin.ESTIMATED: 0.6}
WORTH_TRYING = 1.03
"""A remedy that is predicted to gain less is not offered."""


def priced_findings(
    case: Case, found: dict[str, Found], now: Prediction | Unknown, measured: Known[float] | Unknown
) -> tuple[Finding, ...]:
    """Root causes first, then the most costly; where no price is known, the surest."""
    findings = [_finding(case, name, answer, now, measured, found) for name, answer in found.items()]
    explained = {e for f in findings for e in f.explains}
    cost = {f.cause: f.cost.seconds if f.cost else 0.0 for f in findings}
    return tuple(sorted(findings, key=lambda f: (f.cause in explained, -cost[f.cause], -f.confidence)))


def _finding(
    case: Case,
    name: str,
    answer: Found,
    now: Prediction | Unknown,
    measured: Known[float] | Unknown,
    found: dict[str, Found],
) -> Finding:
    cause = all_causes()[name]
    with_s = (
        1 / measured.value if isinstance(measured, Known) else now.seconds.mid if isinstance(now, Prediction) else None
    )
    cost, speedup = _price(case, answer, with_s)
    explains = cause.explains if answer.explains is None else answer.explains
    return Finding(
        cause=name,
        title=cause.title,
        confidence=_confidence(answer.evidence),
        because=answer.because,
        evidence=answer.evidence,
        explains=tuple(e for e in explains if e in found),
        cost=cost,
        speedup=speedup,
        fixes=_fixes(case, answer, now),
    )


def _price(case: Case, answer: Found, with_s: float | None) -> tuple[Cost | None, float | None]:
    """What the cause costs for a token, and how much faster it would be: as tried, else as physics has it."""
    without = predict(case, answer.cure) if answer.cure and not answer.speedup else None
    speedup = answer.speedup
    if with_s and isinstance(without, Prediction):
        speedup = max(1.0, with_s / without.seconds.mid)
    cost = Cost(seconds=with_s * (1 - 1 / speedup), per="token") if with_s and speedup else None
    return cost, speedup


def _fixes(case: Case, answer: Found, now: Prediction | Unknown) -> tuple[Fix, ...]:
    """The remedies that are worth it, the one that gains most first; those without a price last."""
    fixes = [_fix(case, remedy) for remedy in answer.remedies]
    least = now.tokens_per_s.mid * WORTH_TRYING if isinstance(now, Prediction) else 0.0
    worth = [f for f in fixes if f.predicted.get(DECODE, least) >= least or len(fixes) == 1]
    return tuple(sorted(worth, key=lambda f: -f.predicted.get(DECODE, 0.0)))


def _fix(case: Case, remedy: Remedy) -> Fix:
    then = predict(case, remedy.cure) if remedy.cure else None
    predicted = {DECODE: then.tokens_per_s.mid} if isinstance(then, Prediction) else {}
    change = remedy.change
    plain = change.value if isinstance(change.value, str | int | float | bool) else None
    return Fix(knob=str(change.knob), value=plain, why=change.why, risk=remedy.risk, predicted=predicted)


def _confidence(evidence: tuple[Evidence, ...]) -> float:
    """As sure as its facts are on average."""
    return statistics.fmean(_TRUST[Origin(e.origin)] for e in evidence) if evidence else 0.5
