"""Sizes of a batch against the speed of reading prompts: what the two settings of that kind share."""

from collections.abc import Callable

from unslow.app.bench.own import Own
from unslow.app.bench.sweeps import Limits
from unslow.app.bench.sweeps._trials import BY_THE_USER, OUT_OF_TIME, Pace, Trials, in_turn
from unslow.facts.bench import PREFILL, Sweep
from unslow.facts.runtime import Runtime
from unslow.think.bench.batch_verdict import judge_batch
from unslow.think.bench.best_value import FELT, chosen, contenders, is_clear
from unslow.think.bench.closing_in import gains_no_more

USUAL = (64, 128, 256, 512, 1024, 2048, 4096)
PROMPT_S, QUICK_TOKENS = 10.0, 16
NEAR, MOST_CONTENDERS = 0.15, 4

Settings = Callable[[int, Runtime], dict[str, int]]


def swept(
    own: Own, limits: Limits, axis: str, settings: Settings, current_of: Callable[[Runtime], int | None]
) -> Sweep:
    """The sweep over sizes; `settings` are those of a size, given what the server has otherwise."""
    own.need(axis)
    seen: list[Pace] = []
    trials = Trials(own, axis, lambda size: settings(size, seen[0].runtime), limits)
    try:
        stopped = _explored(trials, seen, current_of)
    except KeyboardInterrupt:
        own.interrupted, stopped = True, BY_THE_USER
    current = current_of(seen[0].runtime) if seen else None
    judged = judge_batch(axis, trials.samples(PREFILL), current, trials.memory())
    return Sweep(
        axis=axis,
        points=trials.points(),
        verdict=judged.verdict,
        because=judged.because,
        best=judged.best,
        knee=judged.knee,
        stopped_early=stopped,
    )


def _explored(trials: Trials, seen: list[Pace], current_of: Callable[[Runtime], int | None]) -> str:
    seen.append(trials.pace())
    trials.tokens = min(trials.tokens, QUICK_TOKENS)
    current = current_of(seen[0].runtime)
    wanted = sorted({max(1, int(value)) for value in trials.limits.values})
    trials.prompt_tokens = seen[0].prompt(PROMPT_S, max(wanted or USUAL), trials.tokens)
    values = wanted or [
        value for value in sorted({*USUAL, *([current] if current else [])}) if value <= trials.prompt_tokens
    ]
    if why := _rising(trials, values):
        return why
    always = [current] if current in values and current is not None else []
    return "; ".join(why for why in (_sure(trials, always), _too_large(trials, wanted)) if why)


def _rising(trials: Trials, values: list[int]) -> str:
    """The first round, from small to large, until nothing more is gained; why it could not be done."""
    for value in values:
        if not trials.has_time():
            return OUT_OF_TIME
        trials.measure(value, 1)
        if not trials.limits.values and gains_no_more(trials.speeds(PREFILL), FELT):
            break
    return "" if trials.samples(PREFILL) else "no server answered"


def _sure(trials: Trials, always: list[int]) -> str:
    rounds = max(2, trials.limits.repeats)
    for number in range(2, rounds + 1):
        for value in in_turn(contenders(trials.samples(PREFILL), always, NEAR, MOST_CONTENDERS), number):
            if not trials.has_time():
                return OUT_OF_TIME
            trials.measure(value, number)
        if number < rounds and is_clear(chosen(trials.samples(PREFILL))):
            return f"clear after {number} of {rounds} rounds"
    return ""


def _too_large(trials: Trials, wanted: list[int]) -> str:
    """Which sizes were left out because no prompt would have filled them."""
    left = [value for value in USUAL if value > trials.prompt_tokens]
    if wanted or not left:
        return ""
    return f"sizes from {left[0]} on were left out: a prompt that fills them takes too long, or has no room"
