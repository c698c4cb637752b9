"""Which phase of a request is slow: what each takes and what it should take, and how soon the first token comes."""

import statistics
from collections.abc import Callable, Collection
from typing import NamedTuple

from unslow.facts.run import Turn
from unslow.facts.snapshot import Case
from unslow.facts.values import Known, Unknown
from unslow.think.case.prediction import Prediction, predict_prefill
from unslow.think.case.slowness import predict_among_others, rate_among_others
from unslow.think.case.waits import NOTICED_S, answer_tokens, client_s, completions_of, queue_s, reload_s
from unslow.think.case.work import SHORT_PROMPT, Cure
from unslow.think.causes._cause import Phase
from unslow.think.physics.terms import Interval
from unslow.think.report import Per

# The request that is reckoned with has an answer as long as the measured ones, and a prompt as long as its answer: what
# the measurement asks is chosen for the clock, and says nothing of what people ask. Where a phase was not measured it
# is left out; where physics has no answer, a phase is taken to lose nothing.

UNNOTICED_S = 0.1
"""Of a request outside the server: what comes sooner seems to come at once (Miller 1968, "Response time in man-computer
conversational transactions", topic 1)."""
SMALL = 0.15  # Of a whole request: a phase that loses less, and less than is noticed, is not why it is slow
PER: dict[str, Per] = {"decode": "token", "prefill": "prompt_token"}
"""What the time of a phase is counted for; of all others, for a request."""
_TOLD: dict[str, Phase] = {"load": "load", "prefill": "prefill", "first_token": "prefill"}

Predictor = Callable[[Case, Cure | None], Prediction | Unknown]


class Pace(NamedTuple):
    """The time of one token, or of one token of a prompt: as measured, as physics has it, and achievable."""

    per: Per
    measured_s: float | None
    now: Prediction | Unknown
    best: Prediction | Unknown
    predict: Predictor


class PhaseTime(NamedTuple):
    """Seconds of one request in a phase, what is expected of it, and the most that would still be usual."""

    phase: Phase
    seconds: float
    expected_s: float | None
    usual_s: float | None

    @property
    def lost_s(self) -> float:
        """What it takes beyond what it should; nothing within what is usual, nor where physics has no answer."""
        if self.expected_s is None or self.usual_s is None or self.seconds <= self.usual_s:
            return 0.0
        return max(0.0, self.seconds - self.expected_s)


class Outlook(NamedTuple):
    """How fast a case is and should be: a token, a token of a prompt, and every measured phase of a request."""

    decode: Pace
    prefill: Pace
    times: tuple[PhaseTime, ...]

    def pace_of(self, phase: str) -> Pace | None:
        """The pace that decides a phase; None of those that are counted for a request."""
        return {"decode": self.decode, "prefill": self.prefill}.get(phase)

    def time_of(self, phase: str) -> PhaseTime | None:
        """The time of a phase, where it was measured."""
        return next((t for t in self.times if t.phase == phase), None)


def outlook(case: Case, best: Cure | None) -> Outlook:
    """What was measured of a case, and what physics says of it as configured and with everything cured."""
    rate = rate_among_others(case)
    token_s = 1 / rate.value if isinstance(rate, Known) else None
    now, then = predict_among_others(case), predict_among_others(case, best)
    decode = Pace("token", token_s, now, then, predict_among_others)
    prompt_s = prompt_token_s(case)
    prefill = Pace("prompt_token", prompt_s, predict_prefill(case), predict_prefill(case, best), predict_prefill)
    tokens = answer_tokens(case)
    waits: dict[Phase, float | None] = {"client": client_s(case), "queue": queue_s(case), "load": reload_s(case)}
    # Of what is no work of the model, nothing is expected
    times = [PhaseTime(phase, seconds, 0.0, UNNOTICED_S) for phase, seconds in waits.items() if seconds is not None]
    computed: dict[Phase, Pace] = {"prefill": prefill, "decode": decode}
    for phase, pace in computed.items():
        best_s = pace.best.seconds if isinstance(pace.best, Prediction) else None
        ends = (best_s.mid * tokens, best_s.high * tokens) if best_s else (None, None)
        if pace.measured_s is not None:
            times.append(PhaseTime(phase, pace.measured_s * tokens, *ends))
    return Outlook(decode, prefill, tuple(times))


def prompt_token_s(case: Case) -> float | None:
    """Seconds for a token of a long prompt; None where only short ones were timed: starting takes as long as those."""
    long = case.run.long_prompt
    if isinstance(long, Known) and long.value.tokens >= SHORT_PROMPT:
        return long.value.seconds / long.value.tokens or None
    runs = [(c.prefill_s, c.prompt_tokens - c.cached_tokens) for c in completions_of(case)]
    long_ones = [seconds / tokens for seconds, tokens in runs if tokens >= SHORT_PROMPT]
    return statistics.median(long_ones) or None if long_ones else None


def slow_phase(case: Case, times: tuple[PhaseTime, ...]) -> Phase:
    """The phase that loses most; where none loses any, the one that takes most. A load that fails is the load."""
    if case.runtime.state.value_or("loaded") in ("failed", "loading"):
        return "load"
    if losing := losing_phases(times) or [time for time in times if time.phase in PER and time.lost_s > 0]:
        return max(losing, key=lambda t: t.lost_s).phase
    if times and completions_of(case):
        return max(times, key=lambda t: t.seconds).phase
    if case.runtime.deferred_requests.value_or(0):
        return "queue"
    return _TOLD.get(case.account.slow_metric.value_or(""), "decode")


def losing_phases(times: tuple[PhaseTime, ...]) -> list[PhaseTime]:
    """The phases of which what is lost is felt, or is a real part of the request."""
    request_s = sum(time.seconds for time in times)
    return [t for t in times if t.lost_s > 0 and t.lost_s >= min(NOTICED_S, SMALL * request_s)]


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
    reading = _reading_s(case, found, outlook)
    best = outlook.decode.best
    token = best.seconds.mid if isinstance(best, Prediction) else outlook.decode.measured_s
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
