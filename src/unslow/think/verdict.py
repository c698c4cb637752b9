"""Slow, normal, failed, or not to be told."""

import re

from unslow.facts.account import Topic
from unslow.facts.snapshot import Case
from unslow.facts.values import Known, Unknown
from unslow.think.adapt.account import WORTH_COMPARING, compared_by, ratio, remarks_on
from unslow.think.adapt.experiments import experiment_on, is_clear, names_phase
from unslow.think.adapt.hardware import has_no_gpu
from unslow.think.causes import all_causes
from unslow.think.predict import Prediction
from unslow.think.report import Finding, Verdict
from unslow.think.verdicts.normal_for_this_hardware import reached

WORTH_NAMING = 1.15
"""A gain below this is no reason to call a system slow, nor to touch it."""
CONTRADICTION = 1.3
"""A single stream that is so much faster than the bandwidth allows shows that some fact is wrong."""

_OTHERS = re.compile(r"(?i)\b(?:from|by|background|another|other)\b")
"""A CPU that is busy with something else is not how such hardware behaves."""

_NOT_OF_SPEED = (Topic.RELOADS, Topic.QUEUED, Topic.CONSTANT_DELAY, Topic.THROTTLED, Topic.PROMPT_AGAIN)
"""What people wait for while the speed of decoding is as it should be, and what makes that speed a passing one."""

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
        good = reached(measured.value, best.tokens_per_s.low) and not curable and not any(map(_stands, findings))
        return "normal" if good and not lost_speed(case) else "slow"
    if any(f.speedup is None or f.speedup > WORTH_NAMING for f in findings):
        return "slow"
    return "normal" if not findings and told_normal(case) else "cannot_tell"


def _stands(finding: Finding) -> bool:
    """Whether the speed of decoding is no answer to a finding: it is about another phase, or somebody tried."""
    if all_causes()[finding.cause].phase != "decode":
        return True
    tried = any(e.fact == "account.comparisons" for e in finding.evidence)
    return tried and (finding.speedup or 0.0) > WORTH_NAMING


def lost_speed(case: Case) -> bool:
    """Whether a person shows that it was faster, or waits for something else: a usual speed is no answer to them."""
    account = case.account
    told = isinstance(account.slowdown, Known) or isinstance(account.version_since, Known)
    waits = names_phase(case, "load", "first_token") or bool(remarks_on(case, *_NOT_OF_SPEED))
    return told or waits or any(ratio(c) >= WORTH_COMPARING for c in account.comparisons.value_or(()))


def told_normal(case: Case) -> str:
    """Why what a person tells is how such hardware behaves; empty where it is not, or where they lost speed."""
    account = case.account
    lost = isinstance(account.slowdown, Known) or isinstance(account.version_since, Known)
    if lost or compared_by(case, Topic.VERSION, Topic.DRIVER, Topic.SYSTEM, Topic.BUILD):
        return ""
    threads = experiment_on(case, Topic.THREADS, metrics=("decode",))
    if remarks_on(case, Topic.SATURATED) or (threads and not is_clear(threads)):
        return "more threads give nothing because a few of them already read memory as fast as it can be read"
    if has_no_gpu(case) and any(not _OTHERS.search(r.text) for r in remarks_on(case, Topic.CPU_BUSY)):
        return "there is no GPU, so the CPU is busy with every token, and reads all weights for each from RAM"
    return ""


def contradicts(measured: Known[float] | Unknown, best: Prediction | Unknown) -> bool:
    """Whether the measured speed can't be, given the other facts."""
    return (
        isinstance(measured, Known)
        and isinstance(best, Prediction)
        and bool(best.ceiling)
        and measured.value > CONTRADICTION * best.ceiling
    )
