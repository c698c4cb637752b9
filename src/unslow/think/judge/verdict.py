"""Slow, normal, failed, or not to be told."""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from unslow.facts.account import Topic
from unslow.facts.values import Known, Unknown
from unslow.think.case.narrative import WORTH_COMPARING, is_clear, told_ratio
from unslow.think.case.speed import WORTH_NAMING, Prediction, host_share
from unslow.think.case.view import CaseView
from unslow.think.case.waits import NOTICED_S
from unslow.think.causes import all_causes
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge.normal_for_this_hardware import reaches_achievable
from unslow.think.judge.phases import PER, Outlook, Pace
from unslow.think.judge.pricing import UNSEEN, least_s
from unslow.think.report import Finding, Verdict

TRIED = ("account.comparisons", "run.depths", "run.plain_sampling")
"""Evidence of two speeds of one system: the one that is usual is no answer to the other."""
WAITED, MUCH_WAITED = "run.waiting_for_cpu_s_per_token", 1.3
"""What the kernel counts of threads that wait for a CPU, and the gain without it that is no matter of prediction."""
TOO_FAST = "it is faster than memory bandwidth allows, so the GPU, the model or the placement is not as reported"
CONTRADICTION = 1.3  # A single stream that is so much faster than the bandwidth allows shows that some fact is wrong
_OTHERS = re.compile(r"(?i)\b(?:from|by|background|another|other)\b")
"""A CPU that is busy with something else is not how such hardware behaves."""
_NOT_OF_SPEED = (Topic.RELOADS, Topic.QUEUED, Topic.CONSTANT_DELAY, Topic.THROTTLED, Topic.PROMPT_AGAIN)
"""What people wait for while the speed of decoding is as it should be, and what makes that speed a passing one."""


def verdict_on(case: CaseView, findings: tuple[Finding, ...], outlook: Outlook) -> Verdict:
    """The verdict on a case: normal only where the speed is reached that is achievable, and nothing else is slow."""
    measured_s, now, best = outlook.decode.measured_s, outlook.decode.now, outlook.decode.best
    if case.runtime.state.value_or("loaded") == "failed":
        return "failed"
    if not measured_s or not isinstance(best, Prediction):
        # What every request loses to it, which a person may notice
        waits_s = [f.cost.seconds for f in findings if f.cost is not None and f.cost.per == "request"]
        gains = any(f.speedup is None or f.speedup > WORTH_NAMING for f in findings)
        if gains or max(waits_s, default=0.0) > NOTICED_S or slow_elsewhere(outlook):
            return "slow"
        return "normal" if not findings and told_normal(case) else "cannot_tell"
    fast, host_takes_part = reaches_achievable(1 / measured_s, best.tokens_per_s.low), host_share(best) > 0
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
    if good and unseen and host_takes_part and not case.narrative.is_report:
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
    """Whether the speed of decoding is no answer to a finding: of another phase, tried, or counted by a driver."""
    if finding.phase == "prefill" and outlook.prefill.measured_s and finding.speedup is not None:
        return finding.speedup > WORTH_NAMING
    if finding.phase != "decode":
        return True
    facts, gain = {e.fact for e in finding.evidence}, finding.speedup or 0.0
    counted = not facts.isdisjoint(TRIED) or any(fact.endswith(".others_busy") for fact in facts)
    return (counted and gain > WORTH_NAMING) or (WAITED in facts and gain > MUCH_WAITED)


def lost_speed(case: CaseView) -> bool:
    """Whether a person shows that it was faster, or waits for something else: a usual speed is no answer to them."""
    account = case.account
    told = isinstance(account.slowdown, Known) or isinstance(account.version_since, Known)
    waits = case.narrative.names_phase("load", "first_token") or bool(case.narrative.remarks_on(*_NOT_OF_SPEED))
    return told or waits or any(told_ratio(c) >= WORTH_COMPARING for c in account.comparisons.value_or(()))


def told_normal(case: CaseView) -> str:
    """Why what a person tells is how such hardware behaves; empty where it is not, or where they lost speed."""
    account = case.account
    lost = isinstance(account.slowdown, Known) or isinstance(account.version_since, Known)
    if lost or case.narrative.comparison_by(Topic.VERSION, Topic.DRIVER, Topic.SYSTEM, Topic.BUILD):
        return ""
    threads = case.narrative.experiment_on(Topic.THREADS, metrics=("decode",))
    if case.narrative.remarks_on(Topic.SATURATED) or (threads and not is_clear(threads)):
        return "more threads do not help because a few already saturate memory bandwidth"
    if case.gpus.has_none and any(not _OTHERS.search(r.text) for r in case.narrative.remarks_on(Topic.CPU_BUSY)):
        return "there is no GPU, so the CPU reads all weights from RAM for every token"
    return ""


def contradicts(pace: Pace) -> bool:
    """Whether the measured speed can't be, given the other facts."""
    best = pace.best
    if pace.measured_s is None or not isinstance(best, Prediction) or not best.ceiling:
        return False
    return 1 / pace.measured_s > CONTRADICTION * best.ceiling


Answers = dict[str, Found | Absent | CannotTell]
OF_THE_GPU = ("gpu_held_at_low_clocks", "gpu_power_capped", "gpu_thermal_throttling")
"""What slows the GPU itself: where it waits for the CPU, low clocks are how it waits."""
OF_MEMORY = (
    "context_larger_than_needed",
    "gpu_architecture_unsupported",
    "gpu_layers_set_too_low",
    "kv_cache_outgrows_vram",
    "model_outside_envelope",
    "parallel_slots_inflate_kv",
    "wrong_device_selected",
)
"""What makes a model ask for more memory than there is, or for a device that can't run it."""
LEAVE_THE_GPU_OUT = ("gpu_architecture_unsupported", "gpu_backend_not_loaded", "gpu_layers_set_too_low")
"""Why the CPU computes what a GPU could: what slows that CPU comes after, also where the GPU's speed is not known."""
STARVED = 0.5  # Of a token's time in the host's memory and layers: beyond it, the GPU waits longer than it works


def settle_answers(case: CaseView, answers: Answers, now: Prediction | None) -> Answers:
    """The answers without symptoms, and without last resorts where something else explains the same loss."""
    share, causes = host_share(now) if now else 0.0, all_causes()
    if share >= STARVED:
        why = f"the GPU waits for the CPU, which takes {share:.0%} of each token: the low clocks are a symptom"
        waits = Absent(why)
        answers = {n: waits if n in OF_THE_GPU and isinstance(a, Found) else a for n, a in answers.items()}
    found = {n: a for n, a in answers.items() if isinstance(a, Found) and not causes[n].last_resort}
    resorts = [n for n, a in answers.items() if isinstance(a, Found) and causes[n].last_resort and not a.sure]
    explained = {n: next((o for o in found if _can_explain(case, o, found[o], n, now)), None) for n in resorts}
    titles = {n: causes[by].title for n, by in explained.items() if by}
    return answers | {n: Absent(f"{title[0].lower()}{title[1:]}, which explains it") for n, title in titles.items()}


def _can_explain(case: CaseView, name: str, found: Found, resort: str, now: Prediction | None) -> bool:
    """Whether a loss that was measured may be this one's: not where it is of another phase, nor known to cost little.

    A person who only tells tells of one thing, so that whatever was found is what they mean.
    """
    if case.narrative.is_report:
        return True
    if all_causes()[name].phase != all_causes()[resort].phase:
        return False
    if found.speedup is not None:
        return found.speedup >= WORTH_NAMING
    then = case.speed.predict(found.cure) if found.cure else None
    if now is None or not isinstance(then, Prediction):
        return True
    gain = now.seconds.mid / then.seconds.mid
    return gain <= UNSEEN or gain >= WORTH_NAMING  # of what physics does not see, any loss may be


def can_fail_a_load(name: str) -> bool:
    """Whether a cause can be why a model does not load at all: one of loading, or of what asks for too much memory."""
    causes = all_causes()
    return causes[name].phase == "load" or name in OF_MEMORY or "memory_allocation_failed" in causes[name].explains


def consequences(found: dict[str, Found], order: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """What each finding explains, through others too, the nearest first; never in a circle.

    Where two explain one another, the one that comes first in `order` is the cause.
    """
    reached: dict[str, set[str]] = {name: set() for name in found}
    for name in order:
        said = found[name].explains
        direct = all_causes()[name].explains if said is None else said
        for other in sorted(e for e in direct if e in found):
            if other != name and name not in reached[other]:
                after = {other, *reached[other]}
                for before in (b for b in found if b == name or name in reached[b]):
                    reached[before] |= after
    depth = {name: sum(name in others for others in reached.values()) for name in found}
    return {name: tuple(sorted(others, key=lambda o: (depth[o], o))) for name, others in reached.items()}


class Chain(NamedTuple):
    """A root cause and what follows from it, in the order of what follows from what."""

    root: Finding
    after: tuple[Finding, ...] = ()


def chains_of(findings: Sequence[Finding]) -> list[Chain]:
    """The findings as chains, in the order of their roots; what two roots explain stands with the first."""
    explained = {e for f in findings for e in f.explains}
    by_name, told = {f.cause: f for f in findings}, set[str]()
    chains = []
    for root in (f for f in findings if f.cause not in explained):
        after = [by_name[e] for e in root.explains if e in by_name and e not in told]
        told.update(f.cause for f in after)
        chains.append(Chain(root, tuple(after)))
    return chains
