"""How soon the first token comes once nothing is waited for: what is new is read, and one token is generated."""

import statistics
from collections.abc import Collection

from unslow.facts.run import Turn
from unslow.facts.snapshot import Case
from unslow.facts.values import Known
from unslow.think.phases import Outlook, Pace
from unslow.think.physics.interval import Interval
from unslow.think.predict import Prediction
from unslow.think.waits import completions_of

FIRST_TOKEN = "time_to_first_token_s"  # noqa: S105 (a metric)
AGAIN = "prompt_reprocessed"
WAITS = frozenset(
    {AGAIN, "queueing", "gpu_underused_by_one_stream", "model_reloads_between_requests", "client_overhead"}
)
"""Causes that are about the time before the first token, whatever the speed of the tokens."""
SPREAD = 1.5
"""Times more or less: a short prompt takes a step's own overhead too, and shares its step with other requests."""


def first_token_cured(case: Case, found: Collection[str], outlook: Outlook) -> Interval | None:
    """Seconds with every wait that was found gone; None where none was, or where nobody timed how prompts are read."""
    if not WAITS.intersection(found):
        return None
    reading, token = _reading_s(case, found, outlook), _pace_s(outlook.decode)
    if reading is None or token is None:
        return None
    soon = reading + token
    return Interval(soon / SPREAD, soon, soon * SPREAD)


def first_token_now(case: Case, found: Collection[str]) -> float | None:
    """Seconds as measured: of a conversation's later turn where that is what is slow, else of a question alone."""
    turn = _last_turn(case) if AGAIN in found else None
    return turn.first_token_s if turn and turn.first_token_s else case.run.time_to_first_token_s.value_or(None)


def _reading_s(case: Case, found: Collection[str], outlook: Outlook) -> float | None:
    """Seconds for the prompt: only for what is new in it, where the rest was read again for nothing."""
    turn = _last_turn(case)
    if AGAIN in found:
        each = outlook.prefill.measured_s or (_turn_s(turn) if turn else None)
        return turn.new_tokens * each if turn and each else None
    timed = [c.prefill_s for c in completions_of(case)]
    return statistics.median(timed) if timed else _others_s(case, outlook)


def _others_s(case: Case, outlook: Outlook) -> float | None:
    """The same of the requests of others, where their prompts were seen."""
    traffic, each = case.run.traffic, outlook.prefill.measured_s
    prompts = traffic.value.prompts.value_or(()) if isinstance(traffic, Known) else ()
    computed = [max(0, p.tokens - p.cached_tokens) for p in prompts]
    return statistics.median(computed) * each if computed and each else None


def _last_turn(case: Case) -> Turn | None:
    later = [turn for turn in case.run.turns.value_or(())[1:] if turn.computed_tokens]
    return later[-1] if later else None


def _turn_s(turn: Turn) -> float | None:
    """Seconds for a token of a prompt, by what a turn took that computed everything."""
    return turn.first_token_s / turn.computed_tokens if turn.first_token_s else None


def _pace_s(pace: Pace) -> float | None:
    return pace.best.seconds.mid if isinstance(pace.best, Prediction) else pace.measured_s
