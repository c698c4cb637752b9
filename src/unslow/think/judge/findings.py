"""What was found, priced: how sure it is, time lost, speed gained, what follows from what, the remedies worth it."""

import re
import statistics
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from unslow.facts.knob import Change, Knob
from unslow.facts.snapshot import Case
from unslow.facts.values import Known, Origin, Unknown
from unslow.think.case.instructions import spelled_out
from unslow.think.case.prediction import DECODE, PREFILL, Prediction
from unslow.think.case.waits import answer_tokens
from unslow.think.causes import all_causes
from unslow.think.causes._cause import Found, Remedy, fact_at
from unslow.think.judge.budget import found_parts
from unslow.think.judge.chains import LEAVE_THE_GPU_OUT, consequences
from unslow.think.judge.expected import FIRST_TOKEN, first_token_cured
from unslow.think.judge.phases import Outlook, Pace, slow_phase
from unslow.think.judge.pricing import Price, Together, is_of_the_rest, least_s, price_alone, start_s, time_with
from unslow.think.report import Cost, Evidence, Expected, Finding, Fix

WORTH_TRYING = 1.03  # A remedy that is predicted to gain less is not offered
CONTENDED = "cpu_contended"  # The cause of which the kernel itself counts the time: it is a part already
_METRIC = {"decode": DECODE, "prefill": PREFILL}
_LOSS: dict[str, int] = {Knob.CONTEXT_LENGTH: 0, Knob.KV_CACHE_TYPE: 0, Knob.QUANT: 1, Knob.DRIVER_FALLBACK: 2}
"""What frees memory, by what it costs: tokens or hardly a digit, then quality; last what only makes a load fail."""
_FAR_LESS = 0.7  # Of the speed that the best fix promises: a fix that is milder and gains less than this is no cure


class _Priced(NamedTuple):
    """A cause that is there, its price by itself, and the seconds of a request that it stands for."""

    found: Found
    phase: str
    price: Price
    request_s: float


def worthy_findings(
    case: Case, found: dict[str, Found], outlook: Outlook
) -> tuple[tuple[Finding, ...], tuple[Finding, ...]]:
    """The findings, and apart from them what would stand first and costs nothing: that is not why it is slow."""
    left, costless = dict(found), list[Finding]()
    while findings := priced_findings(case, left, outlook):
        first, pace = findings[0], outlook.pace_of(findings[0].phase)
        gains_nothing = first.cost is not None and first.speedup is not None and first.speedup < WORTH_TRYING
        if pace is None or pace.measured_s is None or not gains_nothing:
            break
        costless.append(first)
        del left[first.cause]
    return findings, tuple(costless)


def priced_findings(case: Case, found: dict[str, Found], outlook: Outlook) -> tuple[Finding, ...]:
    """Roots first, those that cost a request most before others; then what follows from them, which has no price."""
    # What was found, and no dearer than its part of the time, where it has one of its own
    parts = found_parts(case, found, outlook.decode)
    lost = {name: Cost(seconds=seconds, per="token") for name, (_, seconds) in parts.items()}
    found = {
        name: answer._replace(lost=lost[name]) if name in lost and not answer.lost and not answer.speedup else answer
        for name, answer in found.items()
    }
    priced = {name: _priced(case, name, answer, outlook) for name, answer in found.items()}
    explains = consequences(found, sorted(priced, key=lambda name: (-priced[name].request_s, name)))
    explained = {e for others in explains.values() for e in others}
    findings = [_finding(case, name, priced[name], explains[name], outlook) for name in found]
    first = slow_phase(case, outlook.times)
    # Whether it is why a GPU does nothing, of which no price is known: it would be last by its price alone
    roots = sorted(
        (f for f in findings if f.cause not in explained),
        key=lambda f: (
            not (f.cause in LEAVE_THE_GPU_OUT and f.cost is None and f.speedup is None),
            # the seconds of a request that a root stands for: its own, or the most of what follows from it
            -max(priced[name].request_s for name in (f.cause, *f.explains)),
            f.phase != first,
            -(f.speedup or 1.0),
            -f.confidence,
        ),
    )
    # The place of what follows: by its root, then by how near it is to that
    places = {e: (i, j) for i, root in reversed(list(enumerate(roots))) for j, e in enumerate(root.explains)}
    after = sorted((f for f in findings if f.cause in explained), key=lambda finding: places[finding.cause])
    # The roots with what each saves beside those before it
    left = {phase: Together(case, phase, outlook) for phase in {priced[f.cause].phase for f in roots}}
    together = tuple(
        msgspec.structs.replace(f, cost=left[priced[f.cause].phase].cured(_priced_by(f, priced))) for f in roots
    )
    return (*together, *(msgspec.structs.replace(f, cost=None) for f in after))


def _priced(case: Case, name: str, found: Found, outlook: Outlook) -> _Priced:
    phase = all_causes()[name].phase
    price = price_alone(case, found, phase, outlook)
    # a load that is not repeated is no part of a request
    once = phase == "load" and outlook.time_of("load") is None
    cost = None if once else price.cost
    tokens = 1.0 if cost and cost.per == "request" else answer_tokens(case)
    return _Priced(found, phase, price, cost.seconds * tokens if cost else 0.0)


def _priced_by(root: Finding, priced: dict[str, _Priced]) -> Found:
    """What the price of a root is reckoned from: itself, else the dearest of its phase that follows from it."""
    own = priced[root.cause]
    if own.price.cost or own.price.speedup:
        return own.found
    after = [priced[name] for name in root.explains if priced[name].phase == own.phase]
    return max((own, *after), key=lambda one: one.request_s).found


def _finding(case: Case, name: str, priced: _Priced, explains: tuple[str, ...], outlook: Outlook) -> Finding:
    found, pace = priced.found, outlook.pace_of(priced.phase)
    cured = pace.predict(case, found.cure) if pace and found.cure else None
    fixes = _fixes(case, priced, outlook)
    if soon := first_token_cured(case, (name,), outlook):
        fixes = tuple(msgspec.structs.replace(f, predicted={**f.predicted, FIRST_TOKEN: soon.mid}) for f in fixes)
    return Finding(
        cause=name,
        title=all_causes()[name].title,
        phase=priced.phase,
        confidence=confidence(case, found.evidence, pace, cured),
        because=found.because,
        evidence=found.evidence,
        explains=explains,
        cost=priced.price.cost,
        speedup=priced.price.speedup,
        fixes=fixes,
    )


def _fixes(case: Case, priced: _Priced, outlook: Outlook) -> tuple[Fix, ...]:
    """The remedies that are worth it, the one that gains most first; those without a price last."""
    phase, remedies = priced.phase, [r for r in priced.found.remedies if not changes_nothing(case, r.change)]
    metric, fixes = _METRIC.get(phase, DECODE), [_fix(case, remedy, priced, outlook) for remedy in remedies]
    now_s = start_s(phase if phase in _METRIC else "decode", outlook)
    least = WORTH_TRYING / now_s if now_s else 0.0
    worth = [f for f in fixes if f.predicted.get(metric, least) >= least or len(fixes) == 1]
    if not any(fix.knob in _LOSS for fix in worth):
        return tuple(sorted(worth, key=lambda f: -f.predicted.get(metric, 0.0)))
    # Fixes that free memory: what costs no quality first, a smaller quant last; what gains far less after those
    far_less = _FAR_LESS * max(fix.predicted.get(metric, 0.0) for fix in worth)
    return tuple(sorted(worth, key=lambda f: (f.predicted.get(metric, far_less) < far_less, _LOSS.get(f.knob, 0))))


def _fix(case: Case, remedy: Remedy, priced: _Priced, outlook: Outlook) -> Fix:
    pace = outlook.pace_of(priced.phase) or outlook.decode
    deep = priced.price.cost is not None and priced.price.cost.depth_tokens is not None  # the pace is of the start
    then_s = time_with(case, pace, remedy.cure) if remedy.cure and not deep else None
    if then_s and pace.measured_s:  # no knob gives more than all of them
        then_s = max(then_s, min(least_s(case, pace), pace.measured_s))
    if then_s and remedy.cure and is_of_the_rest(case, pace, remedy.cure):
        # The time that is left without a cause of which it is known what it takes; 0 where it is not
        cost = priced.price.cost
        known = (priced.found.lost or priced.found.speedup) and cost and cost.per == pace.per
        least_by_itself = max(0.0, pace.measured_s - cost.seconds) if known and cost and pace.measured_s else 0.0
        then_s = max(then_s, least_by_itself)
    change = remedy.change
    plain = change.value if isinstance(change.value, str | int | float | bool) else None
    predicted = {_METRIC.get(priced.phase, DECODE): 1 / then_s} if then_s else {}
    why = spelled_out(change.why, case)
    return Fix(knob=str(change.knob), value=plain, why=why, risk=remedy.risk, predicted=predicted)


_PRESENT: dict[Knob, tuple[str, ...]] = {
    Knob.CONTEXT_LENGTH: ("runtime.context_length",),
    Knob.GPU_LAYERS: ("runtime.gpu_layers_set",),
    Knob.KV_CACHE_TYPE: ("runtime.kv_type_k", "runtime.kv_type_v"),
    Knob.VALUE_CACHE_TYPE: ("runtime.kv_type_v",),
    Knob.THREADS: ("runtime.threads",),
    Knob.FIT: ("runtime.fit",),
    Knob.FIT_MARGIN: ("runtime.fit_margin_bytes",),
    Knob.PARALLEL: ("runtime.slots",),
    Knob.KV_OFFLOAD: ("runtime.kv_offload",),
    Knob.FLASH_ATTENTION: ("runtime.flash_attention",),
    Knob.BATCH: ("runtime.ubatch",),
    Knob.LOGICAL_BATCH: ("runtime.batch",),
    Knob.SPLIT_MODE: ("runtime.split_mode",),
    Knob.LOAD_MODE: ("runtime.load_mode",),
    Knob.NUMA: ("runtime.numa",),
    Knob.MAIN_GPU: ("runtime.main_gpu",),
    Knob.OP_OFFLOAD: ("runtime.op_offload",),
    Knob.MEMORY_SHARE: ("runtime.gpu_memory_fraction",),
    Knob.WEIGHTS_TYPE: ("runtime.weights_type",),
    Knob.ATTENTION: ("runtime.attention",),
    Knob.SAMPLER: ("runtime.top_k",),
    Knob.KEEP_ALIVE: ("runtime.keep_alive_s",),
    Knob.LOADED_MODELS: ("runtime.max_loaded_models",),
    Knob.PROMPT_CACHE: ("runtime.prompt_cache",),
    Knob.QUANT: ("model.quant",),
    Knob.VERSION: ("runtime.version",),
    Knob.CPU_QUOTA: ("runtime.quota_cpus",),
    Knob.MEMORY_LIMIT: ("runtime.memory_limit_bytes",),
}
"""The facts that a knob turns, as they are now."""


def changes_nothing(case: Case, change: Change) -> bool:
    """Whether a knob has the value already that a change would give it, so that turning it can't help."""
    present = [fact_at(case, path) for path in _PRESENT.get(change.knob, ())]
    return bool(present) and all(
        isinstance(fact, Known) and type(fact.value) in (int, float, str, bool) and fact.value == change.value
        for fact in present
    )


def beyond_physics(
    case: Case, found: dict[str, Found], findings: Sequence[Finding], outlook: Outlook
) -> dict[str, float]:
    """Seconds of a token by the title of a cause: what was found of which neither physics nor a watch has a part."""
    own = {CONTENDED, *found_parts(case, found, outlook.decode)}
    seconds = {}
    for f in (f for f in findings if f.phase == "decode" and f.cause not in own):
        cost, cure = f.cost, found[f.cause].cure
        of_a_token = cost is not None and cost.per == "token" and cost.depth_tokens is None
        if cost and of_a_token and (cure is None or is_of_the_rest(case, outlook.decode, cure)):
            seconds[f"{f.title[0].lower()}{f.title[1:]}"] = cost.seconds
    return seconds


def promising_no_more(finding: Finding, expected: Expected) -> Finding:
    """The finding with fixes that promise no more than is achievable with all of them."""
    most = {metric: expected.achievable[metric].mid for metric in (DECODE, PREFILL) if metric in expected.achievable}
    fixes = [
        msgspec.structs.replace(f, predicted={m: min(v, most.get(m, v)) for m, v in f.predicted.items()})
        for f in finding.fixes
    ]
    return msgspec.structs.replace(finding, fixes=tuple(fixes))


TRUST = {Origin.MEASURED: 0.95, Origin.REPORTED: 0.9, Origin.DATASHEET: 0.8, Origin.TOLD: 0.7, Origin.ESTIMATED: 0.6}
NO_EVIDENCE, MOST = 0.5, 0.99
AGREED = 0.7  # Of the doubt, what each further source leaves, and what a prediction leaves that comes true
COUNTED = 3  # Sources beyond the first that count: more of them seldom see anything of their own
DISPUTED, ODD = 0.8, 0.95
"""What is left of the sureness where sources contradict one another; less is lost where it is known what that means."""
NOT_BORNE_OUT = 0.85
SEEN_BY_PHYSICS = 1.15  # A cure that gains less by physics is about something that physics does not see
CONCERNED = {"vram": ("buffers", "size_vram_bytes", "vram_share", "vram_used_bytes", "vram_free_bytes", "processes")}
"""The facts that are in doubt where sources contradict one another about something that is no fact by itself."""
_WITHIN = re.compile(r":(?!//)")
"""What stands after it is a place within a source: a line, a field, a path of a server."""


def confidence(
    case: Case, evidence: tuple[Evidence, ...], pace: Pace | None, cured: Prediction | Unknown | None
) -> float:
    """How sure a finding is, between a half and 0.99: `pace` and `cured` are of its phase, where physics sees that.

    It starts as sure as its facts are on average, by their origin. Doubt is what is left to 1, and it shrinks with
    every further source that agrees and with a measured time that physics explains by the very cause; sources that
    contradict one another about its facts, and a measured time that the cause can't explain, take from what is sure.
    """
    if not evidence:
        return NO_EVIDENCE
    trust = statistics.fmean(TRUST[Origin(e.origin)] for e in evidence)
    # The file, command or server that a fact was read from: two lines of one log are one source
    others = min(COUNTED, len({_WITHIN.split(e.source, maxsplit=1)[0] for e in evidence}) - 1)
    # Above 1 where the time is what physics expects with the cause, below where it is not what it would do
    factor = 1.0
    if pace and pace.measured_s is not None and isinstance(pace.now, Prediction) and isinstance(cured, Prediction):
        low, mid, high = pace.now.seconds
        if mid < SEEN_BY_PHYSICS * cured.seconds.mid:
            # physics has the case without the cause: a measured time that is no longer shows that it costs nothing
            factor = 1.0 if pace.measured_s > mid else NOT_BORNE_OUT
        elif low <= pace.measured_s <= high:
            factor = 2.0
    doubt = (1 - trust) * AGREED ** (others + (factor > 1))
    facts = {step for e in evidence for step in e.fact.split(".")}
    about = [c for c in case.contradictions if facts.intersection(CONCERNED.get(c.about, (c.about,)))]
    agreement = min((ODD if c.meaning else DISPUTED for c in about), default=1.0)
    sure = (1 - doubt) * agreement * min(1.0, factor)
    return max(NO_EVIDENCE, min(MOST, sure))
