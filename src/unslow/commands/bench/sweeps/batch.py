"""How many tokens of a prompt are handed over at a time (-b), against the speed of reading and the memory it takes."""

from collections.abc import Callable

from unslow.commands.bench.server import Own
from unslow.commands.bench.sweeps import Limits, until_stopped
from unslow.commands.bench.sweeps._trials import OUT_OF_TIME, Pace, Trials, in_turn
from unslow.facts.bench import PREFILL, Sweep
from unslow.facts.runtime import Runtime
from unslow.think.stats.best_value import FELT, choose_value, contenders, gains_no_more, is_clear, judge_batch

AXIS = "batch"
OWN_SERVER = True
USUAL = (64, 128, 256, 512, 1024, 2048, 4096)
PROMPT_S, QUICK_TOKENS = 10.0, 16
NEAR, MOST_CONTENDERS = 0.15, 4
Settings = Callable[[int, Runtime], dict[str, int]]


def sweep(own: Own, limits: Limits) -> Sweep:
    """The smallest batch that reads as fast as any."""

    def settings(size: int, runtime: Runtime) -> dict[str, int]:
        ubatch = runtime.compute.ubatch.value_or(None)
        fitted = ubatch is not None and ubatch > size and own.can_set("ubatch")
        return {"batch": size, "ubatch": size} if fitted else {"batch": size}

    return sweep_batches(own, limits, AXIS, settings)


def sweep_batches(own: Own, limits: Limits, axis: str, settings: Settings) -> Sweep:
    """The sweep over sizes; `settings` are those of a size, given what the server has otherwise."""
    own.need(axis)
    seen: list[Pace] = []
    trials = Trials(own, axis, lambda size: settings(size, seen[0].runtime), limits)
    stopped = until_stopped(own, lambda: _explore_sizes(trials, seen))
    current = _current_size(axis, seen[0].runtime) if seen else None
    judged = judge_batch(axis, trials.samples(PREFILL), current, trials.memory())
    return Sweep(axis=axis, points=trials.points(), stopped_early=stopped, **judged._asdict())


def _current_size(axis: str, runtime: Runtime) -> int | None:
    """What it is set to; what vLLM and its like call the tokens of a batch is the same thing."""
    batch = runtime.compute.batch.value_or(runtime.scheduling.max_batched_tokens.value_or(None))
    value = batch if axis == AXIS else runtime.compute.ubatch.value_or(None)
    return int(value) if value else None


def _explore_sizes(trials: Trials, seen: list[Pace]) -> str:
    seen.append(trials.pace())
    trials.tokens = min(trials.tokens, QUICK_TOKENS)
    current = _current_size(trials.axis, seen[0].runtime)
    wanted = sorted({max(1, int(value)) for value in trials.limits.values})
    trials.prompt_tokens = seen[0].prompt(PROMPT_S, max(wanted or USUAL), trials.tokens)
    usual = sorted({*USUAL, *([current] if current else [])})
    values = wanted or [value for value in usual if value <= trials.prompt_tokens]
    for value in values:  # from small to large, until nothing more is gained
        if not trials.has_time():
            return OUT_OF_TIME
        trials.measure(value, 1)
        if not trials.limits.values and gains_no_more(trials.speeds(PREFILL), FELT):
            break
    if not trials.samples(PREFILL):
        return "no server responded"
    why = _sure(trials, [current] if current in values and current is not None else [])
    left = [value for value in USUAL if value > trials.prompt_tokens]
    if wanted or not left:
        return why
    large = f"sizes from {left[0]} were skipped: a prompt that fills them takes too long or does not fit"
    return f"{why}; {large}" if why else large


def _sure(trials: Trials, always: list[int]) -> str:
    rounds = max(2, trials.limits.repeats)
    for number in range(2, rounds + 1):
        for value in in_turn(contenders(trials.samples(PREFILL), always, NEAR, MOST_CONTENDERS), number):
            if not trials.has_time():
                return OUT_OF_TIME
            trials.measure(value, number)
        if number < rounds and is_clear(choose_value(trials.samples(PREFILL))):
            return f"clear after {number} of {rounds} rounds"
    return ""
