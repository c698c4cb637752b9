"""The figures of a report: what was measured, what is expected as configured, what with every cause cured."""

import statistics
from collections.abc import Collection

from unslow.facts.run import Turn
from unslow.facts.snapshot import Case
from unslow.facts.values import NOT_LOOKED, Known, Unknown
from unslow.think.case.prediction import DECODE, PREFILL, Prediction
from unslow.think.case.waits import completions_of, is_history
from unslow.think.case.work import Cure
from unslow.think.judge.phases import Outlook, Pace
from unslow.think.judge.pricing import time_with
from unslow.think.judge.verdict import TOO_FAST, contradicts
from unslow.think.physics.terms import Interval
from unslow.think.report import Expected, Finding, Range, Verdict

FIRST_TOKEN = "time_to_first_token_s"  # noqa: S105 (a metric)
AGAIN = "prompt_reprocessed"
WAITS = frozenset(
    {AGAIN, "queueing", "gpu_underused_by_one_stream", "model_reloads_between_requests", "client_overhead"}
)
"""Causes that are about the time before the first token, whatever the speed of the tokens."""
SPREAD = 1.5
"""Times more or less: a short prompt takes a step's own overhead too, and shares its step with other requests."""


def measured_figures(case: Case, seen: Outlook, first_token_s: float | None) -> dict[str, float]:
    """What was measured, by metric."""
    run, speeds = case.run, {DECODE: seen.decode.measured_s, PREFILL: seen.prefill.measured_s}
    facts = {
        PREFILL: run.prefill_tokens_per_s,
        "client_decode_tokens_per_s": run.client_decode_tokens_per_s,
        "load_s": run.load_s,
        "queue_s": NOT_LOOKED if is_history(case) else run.queue_s,
    }
    rates = {name: 1 / seconds for name, seconds in speeds.items() if seconds}
    rates |= {FIRST_TOKEN: first_token_s} if first_token_s is not None else {}
    return rates | {n: f.value for n, f in facts.items() if isinstance(f, Known) and n not in rates}


def expected_figures(
    case: Case, seen: Outlook, verdict: Verdict, findings: tuple[Finding, ...], cures: Cure | None
) -> Expected:
    """What physics expects of the same metrics; of prompts only where one was measured to hold against it."""
    if verdict == "failed":
        return Expected(because="it does not load")
    now, best = seen.decode.now, seen.decode.best
    lacks = next((p.why for p in (now, best) if isinstance(p, Unknown)), "")
    first = first_token_cured(case, [f.cause for f in findings], seen)
    soon = {FIRST_TOKEN: Range(**first._asdict())} if first else {}
    after = [_as_tried(case, pace, findings, cures) for pace in (seen.decode, seen.prefill)]
    prompts = seen.prefill.measured_s
    return Expected(
        as_configured=_ranges(now, seen.prefill.now if prompts else NOT_LOOKED),
        achievable=_ranges(after[0], after[1] if prompts else NOT_LOOKED) | soon,
        ceiling_tokens_per_s=best.ceiling if isinstance(best, Prediction) else None,
        basis=now.basis if isinstance(now, Prediction) else "catalog",
        because=TOO_FAST if contradicts(seen.decode) else lacks,
    )


def _ranges(decode: Prediction | Unknown, prefill: Prediction | Unknown) -> dict[str, Range]:
    both = ((DECODE, decode), (PREFILL, prefill))
    return {metric: Range(**p.tokens_per_s._asdict()) for metric, p in both if isinstance(p, Prediction)}


def _as_tried(case: Case, pace: Pace, findings: tuple[Finding, ...], cures: Cure | None) -> Prediction | Unknown:
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


def first_token_now(case: Case, found: Collection[str]) -> float | None:
    """Seconds as measured: of a conversation's later turn where that is what is slow, else of a question alone."""
    turn = _last_turn(case) if AGAIN in found else None
    return turn.first_token_s if turn and turn.first_token_s else case.run.time_to_first_token_s.value_or(None)


def first_token_cured(case: Case, found: Collection[str], outlook: Outlook) -> Interval | None:
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


def _reading_s(case: Case, found: Collection[str], outlook: Outlook) -> float | None:
    """Seconds for the prompt: only for what is new in it, where the rest was read again for nothing."""
    turn, each = _last_turn(case), outlook.prefill.measured_s
    if AGAIN in found:
        if turn and not each:
            each = turn.first_token_s / turn.computed_tokens if turn.first_token_s else None
        return turn.new_tokens * each if turn and each else None
    if timed := [c.prefill_s for c in completions_of(case)]:
        return statistics.median(timed)
    traffic = case.run.traffic
    prompts = traffic.value.prompts.value_or(()) if isinstance(traffic, Known) else ()
    computed = [max(0, p.tokens - p.cached_tokens) for p in prompts]
    return statistics.median(computed) * each if computed and each else None


def _last_turn(case: Case) -> Turn | None:
    later = [turn for turn in case.run.turns.value_or(())[1:] if turn.computed_tokens]
    return later[-1] if later else None
