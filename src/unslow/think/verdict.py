"""Slow, normal, failed, or not to be told."""

from unslow.facts.snapshot import Case
from unslow.facts.values import Known, Unknown
from unslow.think.predict import Prediction
from unslow.think.report import Finding, Verdict
from unslow.think.verdicts.normal_for_this_hardware import reached

WORTH_NAMING = 1.15
"""A gain below this is no reason to call a system slow, nor to touch it."""
CONTRADICTION = 1.3
"""A single stream that is so much faster than the bandwidth allows shows that some fact is wrong."""

Predictions = tuple[Prediction | Unknown, Prediction | Unknown]


def verdict_on(
    case: Case, findings: tuple[Finding, ...], predicted: Predictions, measured: Known[float] | Unknown
) -> Verdict:
    """The verdict on a case, from its findings and the predictions as configured and achievable."""
    now, best = predicted
    if case.runtime.state.value_or("loaded") == "failed":
        return "failed"
    if isinstance(measured, Known) and isinstance(best, Prediction):
        if contradicts(measured, best):
            return "cannot_tell"
        # both predictions share the error of the same bandwidth, so their ratio is sharper than either
        gain = best.tokens_per_s.mid / now.tokens_per_s.mid if isinstance(now, Prediction) else WORTH_NAMING
        curable = bool(findings) and gain > WORTH_NAMING and best.tokens_per_s.mid > WORTH_NAMING * measured.value
        return "normal" if reached(measured.value, best.tokens_per_s.low) and not curable else "slow"
    if any(f.speedup is None or f.speedup > WORTH_NAMING for f in findings):
        return "slow"
    return "cannot_tell"


def contradicts(measured: Known[float] | Unknown, best: Prediction | Unknown) -> bool:
    """Whether the measured speed can't be, given the other facts."""
    return (
        isinstance(measured, Known)
        and isinstance(best, Prediction)
        and bool(best.ceiling)
        and measured.value > CONTRADICTION * best.ceiling
    )
