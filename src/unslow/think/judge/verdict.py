"""Slow, normal, failed, or not to be told."""

import re

from unslow.facts.account import Topic
from unslow.facts.snapshot import Case
from unslow.facts.values import Known, Unknown
from unslow.think.case.gpus import has_no_gpu
from unslow.think.case.narrative import (
    WORTH_COMPARING,
    compared_by,
    experiment_on,
    is_clear,
    is_report,
    names_phase,
    remarks_on,
    told_ratio,
)
from unslow.think.case.prediction import Prediction, host_share
from unslow.think.case.slowness import WORTH_NAMING
from unslow.think.case.waits import NOTICED_S
from unslow.think.judge.chains import LEAVE_THE_GPU_OUT
from unslow.think.judge.normal_for_this_hardware import reached
from unslow.think.judge.phases import PER, Outlook, Pace
from unslow.think.judge.pricing import least_s
from unslow.think.report import Finding, Verdict

TRIED = ("account.comparisons", "run.depths", "run.plain_sampling")
"""Evidence of two speeds of one system: the one that is usual is no answer to the other."""
TOO_FAST = "it is faster than the memory bandwidth allows, so the GPU, the model or the placement is not what it seems"
CONTRADICTION = 1.3  # A single stream that is so much faster than the bandwidth allows shows that some fact is wrong

_OTHERS = re.compile(r"(?i)\b(?:from|by|background|another|other)\b")
"""A CPU that is busy with something else is not how such hardware behaves."""

_NOT_OF_SPEED = (Topic.RELOADS, Topic.QUEUED, Topic.CONSTANT_DELAY, Topic.THROTTLED, Topic.PROMPT_AGAIN)
"""What people wait for while the speed of decoding is as it should be, and what makes that speed a passing one."""


def verdict_on(case: Case, findings: tuple[Finding, ...], outlook: Outlook) -> Verdict:
    """The verdict on a case: normal only where the speed is reached that is achievable, and nothing else is slow."""
    measured_s, now, best = outlook.decode.measured_s, outlook.decode.now, outlook.decode.best
    if case.runtime.state.value_or("loaded") == "failed":
        return "failed"
    if not measured_s or not isinstance(best, Prediction):
        # Whether every request loses time to it that a person notices
        if any(
            f.speedup is None
            or f.speedup > WORTH_NAMING
            or (f.cost is not None and f.cost.per == "request" and f.cost.seconds > NOTICED_S)
            for f in findings
        ) or slow_elsewhere(outlook):
            return "slow"
        return "normal" if not findings and told_normal(case) else "cannot_tell"
    fast, host_takes_part = reached(1 / measured_s, best.tokens_per_s.low), host_share(best) > 0
    # Where nobody knows where the weights lie, what pushes layers out was not found for want of the same facts: a speed
    # with the CPU's part in it is no norm
    unplaced = fast and not findings and isinstance(now, Unknown) and host_takes_part
    if contradicts(outlook.decode) or unplaced:
        return "cannot_tell"
    stands = any(_stands(finding, outlook) for finding in findings)
    # Whether cures gain much by physics; both predictions share an error, so their ratio is sharper than either
    gains = isinstance(now, Prediction) and now.seconds.mid > WORTH_NAMING * best.seconds.mid
    curable = findings and gains and measured_s > WORTH_NAMING * least_s(case, outlook.decode)
    good = fast and not curable and not stands
    # Of a machine whose GPUs nobody could list, what the CPU gives is no norm either
    unseen = isinstance(case.machine.gpus, Unknown) and not case.runtime.embedded
    if good and unseen and host_takes_part and not is_report(case):
        return "slow" if any(f.cause in LEAVE_THE_GPU_OUT for f in findings) else "cannot_tell"
    return "normal" if good and not lost_speed(case) and not slow_elsewhere(outlook) else "slow"


def slow_elsewhere(outlook: Outlook) -> bool:
    """Whether a phase other than decoding loses time that a person notices."""
    request_s = sum(time.seconds for time in outlook.times)
    outside = (t for t in outlook.times if t.phase not in PER)
    waits = any(t.lost_s > max(NOTICED_S, request_s * (1 - 1 / WORTH_NAMING)) for t in outside)
    prompt = outlook.prefill
    if waits or not prompt.measured_s or not isinstance(prompt.best, Prediction):
        return waits
    return prompt.measured_s > WORTH_NAMING * prompt.best.seconds.high


def _stands(finding: Finding, outlook: Outlook) -> bool:
    """Whether the speed of decoding is no answer to a finding: of another phase, tried, or counted by the driver."""
    if finding.phase == "prefill" and outlook.prefill.measured_s and finding.speedup is not None:
        return finding.speedup > WORTH_NAMING
    if finding.phase != "decode":
        return True
    tried = any(e.fact in TRIED or e.fact.endswith(".others_busy") for e in finding.evidence)
    return tried and (finding.speedup or 0.0) > WORTH_NAMING


def lost_speed(case: Case) -> bool:
    """Whether a person shows that it was faster, or waits for something else: a usual speed is no answer to them."""
    account = case.account
    told = isinstance(account.slowdown, Known) or isinstance(account.version_since, Known)
    waits = names_phase(case, "load", "first_token") or bool(remarks_on(case, *_NOT_OF_SPEED))
    return told or waits or any(told_ratio(c) >= WORTH_COMPARING for c in account.comparisons.value_or(()))


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


def contradicts(pace: Pace) -> bool:
    """Whether the measured speed can't be, given the other facts."""
    best = pace.best
    if pace.measured_s is None or not isinstance(best, Prediction) or not best.ceiling:
        return False
    return 1 / pace.measured_s > CONTRADICTION * best.ceiling
