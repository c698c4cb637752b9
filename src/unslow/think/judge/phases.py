"""Which phase of a request is slow: what each takes, and what it should take.

The request that is reckoned with has an answer as long as the measured ones, and a prompt as long as its answer: what
the measurement asks is chosen for the clock, and says nothing of what people ask. Where a phase was not measured it
is left out; where physics has no answer, a phase is taken to lose nothing.
"""

import statistics
from collections.abc import Callable
from typing import NamedTuple

from unslow.facts.values import Known, Unknown
from unslow.think.case.cure import Cure
from unslow.think.case.speed import SHORT_PROMPT, Prediction
from unslow.think.case.view import CaseView
from unslow.think.case.waits import NOTICED_S
from unslow.think.causes._cause import Phase
from unslow.think.report import Finding, Per

UNNOTICED_S = 0.1
"""Of a request outside the server: what comes sooner seems to come at once (Miller 1968, "Response time in man-computer
conversational transactions", topic 1)."""
SMALL = 0.15  # Of a whole request: a phase that loses less, and less than is noticed, is not why it is slow
PER: dict[str, Per] = {"decode": "token", "prefill": "prompt_token"}
"""What the time of a phase is counted for; of all others, for a request."""
_TOLD: dict[str, Phase] = {"load": "load", "prefill": "prefill", "first_token": "prefill"}
Predictor = Callable[[Cure | None], Prediction | Unknown]


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


def outlook(case: CaseView, best: Cure | None) -> Outlook:
    """What was measured of a case, and what physics says of it as configured and with everything cured."""
    rate = case.sharing.rate_among_others
    token_s = 1 / rate.value if isinstance(rate, Known) else None
    now, then = case.sharing.predict_among_others(), case.sharing.predict_among_others(best)
    decode = Pace("token", token_s, now, then, case.sharing.predict_among_others)
    predict = case.speed.predict_prefill
    prefill = Pace("prompt_token", prompt_token_s(case), predict(), predict(best), predict)
    tokens = case.waits.answer_tokens
    client_s, queue_s, reload_s = case.waits.client_s, case.waits.queue_s, case.waits.reload_s
    waits: dict[Phase, float | None] = {"client": client_s, "queue": queue_s, "load": reload_s}
    # Of what is no work of the model, nothing is expected
    times = [PhaseTime(phase, seconds, 0.0, UNNOTICED_S) for phase, seconds in waits.items() if seconds is not None]
    computed: dict[Phase, Pace] = {"prefill": prefill, "decode": decode}
    for phase, pace in computed.items():
        best_s = pace.best.seconds if isinstance(pace.best, Prediction) else None
        ends = (best_s.mid * tokens, best_s.high * tokens) if best_s else (None, None)
        if pace.measured_s is not None:
            times.append(PhaseTime(phase, pace.measured_s * tokens, *ends))
    return Outlook(decode, prefill, tuple(times))


def prompt_token_s(case: CaseView) -> float | None:
    """Seconds for a token of a long prompt; None where only short ones were timed: starting takes as long as those."""
    long = case.run.long_prompt
    if isinstance(long, Known) and long.value.tokens >= SHORT_PROMPT:
        return long.value.seconds / long.value.tokens or None
    runs = [(c.prefill_s, c.prompt_tokens - c.cached_tokens) for c in case.waits.completions]
    long_ones = [seconds / tokens for seconds, tokens in runs if tokens >= SHORT_PROMPT]
    return statistics.median(long_ones) or None if long_ones else None


def reported_phase(case: CaseView, seen: Outlook, findings: tuple[Finding, ...]) -> str:
    """The phase that loses most time; where none was measured to lose any, that of what was found."""
    losing, failed = losing_phases(seen.times), case.runtime.state.value_or("") == "failed"
    if failed or not findings:
        return slow_phase(case, seen.times)
    first = findings[0]
    # what a request loses to a cause may be no part of the requests that were timed, such as a second turn
    waits = first.cost.seconds if first.cost and first.cost.per == "request" else 0.0
    most = max((t.lost_s for t in losing), default=0.0)
    return first.phase if not losing or waits > max(most, NOTICED_S) else slow_phase(case, seen.times)


def slow_phase(case: CaseView, times: tuple[PhaseTime, ...]) -> Phase:
    """The phase that loses most; where none loses any, the one that takes most. A load that fails is the load."""
    if case.runtime.state.value_or("loaded") in ("failed", "loading"):
        return "load"
    if losing := losing_phases(times) or [time for time in times if time.phase in PER and time.lost_s > 0]:
        return max(losing, key=lambda t: t.lost_s).phase
    if times and case.waits.completions:
        return max(times, key=lambda t: t.seconds).phase
    if case.runtime.scheduling.deferred_requests.value_or(0):
        return "queue"
    return _TOLD.get(case.account.slow_metric.value_or(""), "decode")


def losing_phases(times: tuple[PhaseTime, ...]) -> list[PhaseTime]:
    """The phases of which what is lost is felt, or is a real part of the request."""
    request_s = sum(time.seconds for time in times)
    return [t for t in times if t.lost_s > 0 and t.lost_s >= min(NOTICED_S, SMALL * request_s)]
