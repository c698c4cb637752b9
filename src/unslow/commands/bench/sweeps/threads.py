"""How many threads are best: a few counts first, then closer and closer around the best, then rounds to be sure.

Generating waits for memory, and more threads than keep it busy only wait for each other; reading prompts computes, and
takes every core. So each has a best count of its own.
"""

from unslow.commands.bench.server import Own
from unslow.commands.bench.sweeps import Limits, until_stopped
from unslow.commands.bench.sweeps._trials import DECODE_S, OUT_OF_TIME, Pace, Trials, in_turn
from unslow.facts.bench import DECODE, PREFILL, Sweep
from unslow.facts.machine import Cpu
from unslow.think.stats.best_value import (
    choose_value,
    closer_values,
    contenders,
    first_threads,
    is_clear,
    judge_threads,
)

AXIS = "threads"
OWN_SERVER = True

PROMPT_S, LONGEST_PROMPT = 3.0, 512
NEAR, MOST_CONTENDERS = 0.15, 4  # Counts that came so near to the best are tried again, the nearest ones
SLOW_SHARE = 0.1  # Of the time that the sweep may take: a single count that would take more is left out


def sweep(own: Own, limits: Limits) -> Sweep:
    """The best count; what was measured until Ctrl-C is judged as well."""
    own.need(AXIS)
    both = own.can_set("threads_batch")
    trials = Trials(own, AXIS, lambda n: {"threads": n, "threads_batch": n} if both else {"threads": n}, limits)
    current: list[int] = []
    stopped = until_stopped(own, lambda: _explore_counts(trials, current))
    cpu = own.machine.cpu
    judged = judge_threads(trials.samples(DECODE), trials.samples(PREFILL), next(iter(current), None), cpu)
    return Sweep(axis=AXIS, points=trials.points(), stopped_early=stopped, **judged._asdict())


def _explore_counts(trials: Trials, current: list[int]) -> str:
    """Try counts until it is clear; why it ended before that. What is set now is put into `current`."""
    limits, pace = trials.limits, trials.pace()
    trials.prompt_tokens = pace.prompt(PROMPT_S, LONGEST_PROMPT, trials.tokens)
    now = pace.runtime.compute.threads.value_or(None)
    current += [int(now)] if now else []
    values = sorted({max(1, int(value)) for value in limits.values})
    if not values:
        cpu = trials.own.machine.cpu
        set_now = next(iter(current), None)
        physical, fast = cpu.physical_cores.value_or(None), cpu.performance_cores.value_or(None)
        usual = first_threads(physical, fast, most_threads(cpu, set_now), set_now)
        # Counts that take no more than their share of the time, were the speed in proportion to them
        each_s = DECODE_S + PROMPT_S
        most_s = max(SLOW_SHARE * limits.seconds, 2 * each_s)
        values = [value for value in usual if each_s * pace.runtime.compute.threads.value_or(value) / value <= most_s]
    if not _all_measured(trials, values, 1, pace):
        return OUT_OF_TIME
    while not limits.values and trials.speeds(DECODE) and (between := closer_values(trials.speeds(DECODE))):
        if not _all_measured(trials, between, 1, pace):
            return OUT_OF_TIME
    rounds = max(2, trials.limits.repeats)
    for number in range(2, rounds + 1):
        if not trials.samples(DECODE):
            return "no server responded"
        readers = sorted(trials.speeds(PREFILL), key=lambda value: -trials.speeds(PREFILL)[value])[:1]
        values = contenders(trials.samples(DECODE), [*current, *readers], NEAR, MOST_CONTENDERS)
        if not _all_measured(trials, values, number, pace):
            return OUT_OF_TIME
        if number < rounds and is_clear(choose_value(trials.samples(DECODE))):
            return f"clear after {number} of {rounds} rounds"
    return ""


def most_threads(cpu: Cpu, current: int | None) -> int:
    """As many as may run at once: no more than this process is allowed."""
    known = [fact.value_or(None) for fact in (cpu.logical_cpus, cpu.allowed_cpus)]
    quota = cpu.quota_cpus.value_or(None)
    limits = [int(value) for value in known if value] + ([max(1, round(quota))] if quota else [])
    return min(limits) if limits else 2 * (current or 1)


def _all_measured(trials: Trials, values: list[int], number: int, pace: Pace) -> bool:
    """Whether there was time for all of them; few threads generate fewer tokens, to take no longer."""
    now = pace.runtime.compute.threads.value_or(0)
    for value in in_turn(values, number):
        if not trials.has_time():
            return False
        fewer = max(16, trials.tokens * value // now) if now else trials.tokens
        trials.measure(value, number, min(trials.tokens, fewer))
    return True
