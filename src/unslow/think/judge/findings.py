"""What was found, priced: how sure it is, time lost, speed gained, what follows from what, the remedies worth it."""

import re
import statistics
from collections.abc import Collection, Sequence
from typing import NamedTuple

import msgspec

from unslow.facts.knob import Change, Knob
from unslow.facts.run import Turn
from unslow.facts.runtime import short_path
from unslow.facts.values import NOT_LOOKED, Known, Origin, Unknown
from unslow.think.case.cure import Cure
from unslow.think.case.speed import DECODE, PREFILL, Prediction
from unslow.think.case.view import CaseView
from unslow.think.causes import all_causes
from unslow.think.causes._cause import Found, Remedy
from unslow.think.judge.phases import Outlook, Pace, slow_phase
from unslow.think.judge.pricing import (
    Price,
    Together,
    found_parts,
    is_of_the_rest,
    least_s,
    price_alone,
    start_s,
    time_with,
)
from unslow.think.judge.verdict import LEAVE_THE_GPU_OUT, TOO_FAST, consequences, contradicts
from unslow.think.physics.terms import Interval
from unslow.think.report import Cost, Evidence, Expectation, Finding, Fix, Range, Verdict

FIRST_TOKEN = "time_to_first_token_s"  # noqa: S105 (a metric)
AGAIN = "prompt_reprocessed"
WAITS = frozenset(
    {AGAIN, "queueing", "gpu_underused_by_one_stream", "model_reloads_between_requests", "client_overhead"}
)
"""Causes that are about the time before the first token, whatever the speed of the tokens."""
SPREAD = 1.5
"""Times more or less: a short prompt takes a step's own overhead too, and shares its step with other requests."""


def measured_figures(case: CaseView, seen: Outlook, found: Collection[str]) -> dict[str, float]:
    """What was measured, by metric."""
    run, speeds = case.run, {DECODE: seen.decode.measured_s, PREFILL: seen.prefill.measured_s}
    # The wait for a first token: of a conversation's later turn where that is what is slow, else of a question alone
    turn = _last_turn(case) if AGAIN in found else None
    first_token_s = turn.first_token_s if turn and turn.first_token_s else run.time_to_first_token_s.value_or(None)
    facts = {
        PREFILL: run.prefill_tokens_per_s,
        "client_decode_tokens_per_s": run.client_decode_tokens_per_s,
        "load_s": run.load_s,
        "queue_s": NOT_LOOKED if case.waits.is_mean_of_past else run.queue_s,
    }
    rates = {name: 1 / seconds for name, seconds in speeds.items() if seconds}
    rates |= {FIRST_TOKEN: first_token_s} if first_token_s is not None else {}
    return rates | {n: f.value for n, f in facts.items() if isinstance(f, Known) and n not in rates}


def expected_figures(
    case: CaseView, seen: Outlook, verdict: Verdict, findings: tuple[Finding, ...], cures: Cure | None
) -> Expectation:
    """What physics expects of the same metrics; of prompts only where one was measured to hold against it."""
    if verdict == "failed":
        return Expectation(because="the model does not load")
    now, best = seen.decode.now, seen.decode.best
    lacks = next((p.why for p in (now, best) if isinstance(p, Unknown)), "")
    first = first_token_cured(case, [f.cause for f in findings], seen)
    soon = {FIRST_TOKEN: Range(**first._asdict())} if first else {}
    after = [_as_tried(case, pace, findings, cures) for pace in (seen.decode, seen.prefill)]
    prompts = seen.prefill.measured_s
    return Expectation(
        as_configured=_ranges(now, seen.prefill.now if prompts else NOT_LOOKED),
        achievable=_ranges(after[0], after[1] if prompts else NOT_LOOKED) | soon,
        ceiling_tokens_per_s=best.ceiling if isinstance(best, Prediction) else None,
        basis=now.basis if isinstance(now, Prediction) else "catalog",
        because=TOO_FAST if contradicts(seen.decode) else lacks,
    )


def _ranges(decode: Prediction | Unknown, prefill: Prediction | Unknown) -> dict[str, Range]:
    both = ((DECODE, decode), (PREFILL, prefill))
    return {metric: Range(**p.tokens_per_s._asdict()) for metric, p in both if isinstance(p, Prediction)}


def _as_tried(case: CaseView, pace: Pace, findings: tuple[Finding, ...], cures: Cure | None) -> Prediction | Unknown:
    """What is achievable, but no slower than an experiment has shown.

    By physics; of prompts, which it knows less well, from the measured time through physics: what neither a cure nor
    physics explains will hardly be gone as a whole.
    """
    best = pace.best
    costs = [f.cost for f in findings if f.cost and f.cost.per == pace.per and f.cost.depth_tokens is None]
    saved = sum(cost.seconds for cost in costs)
    if not isinstance(best, Prediction) or not pace.measured_s or not saved:
        return best
    share = (pace.measured_s - saved) / best.seconds.mid
    if share > 1 and pace.per == "token":
        return best  # physics is sharp for tokens, and what it does not explain is mostly of the moment
    if share > 1:
        share = min(share, max(1.0, (time_with(case, pace, cures or Cure()) or 0.0) / best.seconds.mid))
    return best._replace(seconds=Interval(*(s * share for s in best.seconds))) if share > 0 else best


def first_token_cured(case: CaseView, found: Collection[str], outlook: Outlook) -> Interval | None:
    """Seconds with every wait that was found gone; None where none was, or where nobody timed how prompts are read."""
    if not WAITS.intersection(found):
        return None
    reading = _reading_s(case, found, outlook)
    best = outlook.decode.best
    token = best.seconds.mid if isinstance(best, Prediction) else outlook.decode.measured_s
    if reading is None or token is None:
        return None
    soon = reading + token
    return Interval(soon / SPREAD, soon, soon * SPREAD)


def _reading_s(case: CaseView, found: Collection[str], outlook: Outlook) -> float | None:
    """Seconds for the prompt: only for what is new in it, where the rest was read again for nothing."""
    turn, each = _last_turn(case), outlook.prefill.measured_s
    if AGAIN in found:
        if turn and not each:
            each = turn.first_token_s / turn.computed_tokens if turn.first_token_s else None
        return turn.new_tokens * each if turn and each else None
    if timed := [c.prefill_s for c in case.waits.completions]:
        return statistics.median(timed)
    traffic = case.run.traffic
    prompts = traffic.value.prompts.value_or(()) if isinstance(traffic, Known) else ()
    computed = [max(0, p.tokens - p.cached_tokens) for p in prompts]
    return statistics.median(computed) * each if computed and each else None


def _last_turn(case: CaseView) -> Turn | None:
    later = [turn for turn in case.run.turns.value_or(())[1:] if turn.computed_tokens]
    return later[-1] if later else None


WORTH_TRYING = 1.03  # A remedy that is predicted to gain less is not offered
CONTENDED = "cpu_contended"  # The cause of which the kernel itself counts the time: it is a part already
_METRIC = {"decode": DECODE, "prefill": PREFILL}
_LOSS: dict[str, int] = {Knob.CONTEXT_LENGTH: 0, Knob.KV_CACHE_TYPE: 0, Knob.QUANT: 1, Knob.DRIVER_FALLBACK: 2}
"""What frees memory, by what it costs: tokens or hardly a digit, then quality; last what only makes a load fail."""
_FAR_LESS = 0.7  # Of the speed that the best fix promises: a fix that is milder and gains less than this is no cure


class _PricedCause(NamedTuple):
    """A cause that is there, its price by itself, and the seconds of a request that it stands for."""

    found: Found
    phase: str
    price: Price
    request_s: float


def worthy_findings(
    case: CaseView, found: dict[str, Found], outlook: Outlook
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


def priced_findings(case: CaseView, found: dict[str, Found], outlook: Outlook) -> tuple[Finding, ...]:
    """Roots first, those that cost a request most before others; then what follows from them, which has no price."""
    # What was found, and no dearer than its part of the time, where it has one of its own
    parts = found_parts(case, found, outlook.decode)
    lost = {name: Cost(seconds=seconds, per="token") for name, (_, seconds) in parts.items()}
    found = {
        name: answer._replace(lost=lost[name]) if name in lost and not answer.lost and not answer.speedup else answer
        for name, answer in found.items()
    }
    priced = {name: _price_cause(case, name, answer, outlook) for name, answer in found.items()}
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
        msgspec.structs.replace(f, cost=left[priced[f.cause].phase].save_by(_priced_by(f, priced))) for f in roots
    )
    return (*together, *(msgspec.structs.replace(f, cost=None) for f in after))


def _price_cause(case: CaseView, name: str, found: Found, outlook: Outlook) -> _PricedCause:
    phase = found.phase or all_causes()[name].phase
    price = price_alone(case, found, phase, outlook)
    # a load that is not repeated is no part of a request
    once = phase == "load" and outlook.time_of("load") is None
    cost = None if once else price.cost
    tokens = 1.0 if cost and cost.per == "request" else case.waits.answer_tokens
    return _PricedCause(found, phase, price, cost.seconds * tokens if cost else 0.0)


def _priced_by(root: Finding, priced: dict[str, _PricedCause]) -> Found:
    """What the price of a root is reckoned from: itself, else the dearest of its phase that follows from it."""
    own = priced[root.cause]
    if own.price.cost or own.price.speedup:
        return own.found
    after = [priced[name] for name in root.explains if priced[name].phase == own.phase]
    return max((own, *after), key=lambda one: one.request_s).found


def _finding(case: CaseView, name: str, priced: _PricedCause, explains: tuple[str, ...], outlook: Outlook) -> Finding:
    found, pace = priced.found, outlook.pace_of(priced.phase)
    cured = pace.predict(found.cure) if pace and found.cure else None
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


def _fixes(case: CaseView, priced: _PricedCause, outlook: Outlook) -> tuple[Fix, ...]:
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


def _fix(case: CaseView, remedy: Remedy, priced: _PricedCause, outlook: Outlook) -> Fix:
    pace = outlook.pace_of(priced.phase) or outlook.decode
    deep = priced.price.cost is not None and priced.price.cost.depth_tokens is not None  # the pace is of the start
    then_s = time_with(case, pace, remedy.cure) if remedy.cure and not deep else None
    if then_s and pace.measured_s:  # no knob gives more than all of them
        then_s = max(then_s, min(least_s(case, pace), pace.measured_s))
    if then_s and remedy.cure and is_of_the_rest(pace, remedy.cure):
        # The time that is left without a cause of which it is known what it takes; 0 where it is not
        cost = priced.price.cost
        known = (priced.found.lost or priced.found.speedup) and cost and cost.per == pace.per
        least_by_itself = max(0.0, pace.measured_s - cost.seconds) if known and cost and pace.measured_s else 0.0
        then_s = max(then_s, least_by_itself)
    change = remedy.change
    plain = change.value if isinstance(change.value, str | int | float | bool) else None
    predicted = {_METRIC.get(priced.phase, DECODE): 1 / then_s} if then_s else {}
    why = case.system.spell_out(change.why)
    return Fix(knob=str(change.knob), value=plain, why=why, risk=remedy.risk, predicted=predicted)


_PRESENT: dict[Knob, tuple[str, ...]] = {
    Knob.CONTEXT_LENGTH: ("runtime.context.length",),
    Knob.GPU_LAYERS: ("runtime.placement.gpu_layers_set",),
    Knob.KV_CACHE_TYPE: ("runtime.cache.type_k", "runtime.cache.type_v"),
    Knob.VALUE_CACHE_TYPE: ("runtime.cache.type_v",),
    Knob.THREADS: ("runtime.compute.threads",),
    Knob.FIT: ("runtime.placement.fit",),
    Knob.FIT_MARGIN: ("runtime.placement.fit_margin_bytes",),
    Knob.PARALLEL: ("runtime.scheduling.slots",),
    Knob.KV_OFFLOAD: ("runtime.cache.offload",),
    Knob.FLASH_ATTENTION: ("runtime.compute.flash_attention",),
    Knob.BATCH: ("runtime.compute.ubatch",),
    Knob.LOGICAL_BATCH: ("runtime.compute.batch",),
    Knob.SPLIT_MODE: ("runtime.placement.split_mode",),
    Knob.LOAD_MODE: ("runtime.placement.load_mode",),
    Knob.NUMA: ("runtime.compute.numa",),
    Knob.MAIN_GPU: ("runtime.placement.main_gpu",),
    Knob.OP_OFFLOAD: ("runtime.placement.op_offload",),
    Knob.MEMORY_SHARE: ("runtime.memory.gpu_memory_fraction",),
    Knob.WEIGHTS_TYPE: ("runtime.compute.weights_type",),
    Knob.ATTENTION: ("runtime.compute.attention",),
    Knob.SAMPLER: ("runtime.sampling.top_k",),
    Knob.KEEP_ALIVE: ("runtime.scheduling.keep_alive_s",),
    Knob.LOADED_MODELS: ("runtime.scheduling.max_loaded_models",),
    Knob.PROMPT_CACHE: ("runtime.cache.prompt_cache",),
    Knob.QUANT: ("model.quant",),
    Knob.VERSION: ("runtime.version",),
    Knob.CPU_QUOTA: ("runtime.process.quota_cpus",),
    Knob.MEMORY_LIMIT: ("runtime.process.memory_limit_bytes",),
}
"""The facts that a knob turns, as they are now."""


def changes_nothing(case: CaseView, change: Change) -> bool:
    """Whether a knob has the value already that a change would give it, so that turning it can't help."""
    present = [case.fact(path) for path in _PRESENT.get(change.knob, ())]
    return bool(present) and all(
        isinstance(fact, Known) and type(fact.value) in (int, float, str, bool) and fact.value == change.value
        for fact in present
    )


def beyond_physics(
    case: CaseView, found: dict[str, Found], findings: Sequence[Finding], outlook: Outlook
) -> dict[str, float]:
    """Seconds of a token by the title of a cause: what was found of which neither physics nor a watch has a part."""
    own = {CONTENDED, *found_parts(case, found, outlook.decode)}
    seconds = {}
    for f in (f for f in findings if f.phase == "decode" and f.cause not in own):
        cost, cure = f.cost, found[f.cause].cure
        of_a_token = cost is not None and cost.per == "token" and cost.depth_tokens is None
        if cost and of_a_token and (cure is None or is_of_the_rest(outlook.decode, cure)):
            seconds[f"{f.title[0].lower()}{f.title[1:]}"] = cost.seconds
    return seconds


def promising_what_is_achievable(finding: Finding, expected: Expectation) -> Finding:
    """The finding with fixes that promise what is achievable with all of them, where they reach its interval.

    What is promised of a fix rests on the measured time and keeps a part of what nothing explains; what is achievable
    rests on physics alone. Within its interval the two are the same answer, so that a report names one number.
    """
    whole = {metric: expected.achievable[metric] for metric in (DECODE, PREFILL) if metric in expected.achievable}
    fixes = [
        msgspec.structs.replace(
            f, predicted={m: whole[m].mid if m in whole and v >= whole[m].low else v for m, v in f.predicted.items()}
        )
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
_WITHIN = re.compile(r":(?!//)")  # What stands after it is a place within a source: a line, a field, a path of a server


def confidence(
    case: CaseView, evidence: tuple[Evidence, ...], pace: Pace | None, cured: Prediction | Unknown | None
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
    facts = {step for e in evidence for step in short_path(e.fact).split(".")}
    about = [c for c in case.contradictions if facts.intersection(CONCERNED.get(c.about, (c.about,)))]
    agreement = min((ODD if c.meaning else DISPUTED for c in about), default=1.0)
    sure = (1 - doubt) * agreement * min(1.0, factor)
    return max(NO_EVIDENCE, min(MOST, sure))
