"""Where the time of a token goes on a server: the step on the device, sampling, streaming, the way to the client.

Each part is a difference between two ways of asking, taken within one round, so that a slow minute touches both. What
is not told apart from zero counts as nothing, with the interval it lies in; what is left is shown as the remainder,
never hidden: the parts sum to the time that the client sees.
"""

import math
import statistics
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from unslow.facts.bench import BenchRow
from unslow.facts.run import Telemetry
from unslow.think.stats.repeats import Difference, paired_difference, spread_of

STEP, SAMPLING, STREAMING, DELIVERY = "device_step", "sampling", "streaming", "delivery"
UNEXPLAINED, STEP_AND_LOOP = "unexplained", "step_and_loop"
NEEDS_STEP = "a llama-bench result of the same model (JSON) would separate the step from the rest"
FARTHEST_TOKENS = 512  # From the depth of the server's tokens: over so many, reading the context adds little to a step
_CLEAR = 0.02  # Of the token: less than this is below what the driver's counter shows, which has whole percents


class Timing(NamedTuple):
    """Seconds per token of one answer, by each clock that told."""

    client_s: float | None = None
    server_s: float | None = None


class Round(NamedTuple):
    """The same question asked in each way, one right after the other."""

    usual: Timing  # As the server is set up, every token sent as it comes
    greedy: Timing = Timing()  # The same without its samplers
    silent: Timing = Timing()  # With the current settings, sent at the end: nothing is sent meanwhile

    @property
    def total_s(self) -> float | None:
        """As the client sees a token, where it has a clock."""
        return self.usual.server_s if self.usual.client_s is None else self.usual.client_s


class Step(NamedTuple):
    """The device's own time for a token."""

    seconds: float
    low_s: float
    high_s: float
    source: str


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """A share of the time of a token; 0 where it can't be told from nothing."""

    name: str
    seconds: float
    low_s: float
    high_s: float  # What it is with 95 % confidence; a difference may come out below zero
    told_apart: bool
    how: str  # How it was measured


class Parts(msgspec.Struct, frozen=True, kw_only=True):
    """The time of a token as the client sees it, and its parts, which sum to it."""

    seconds: float
    rounds: int
    parts: tuple[Part, ...]
    gpu_idle_s: float | None = None
    """Of each token, by the driver's counter: a check on all that is not the device's step."""
    notes: tuple[str, ...] = ()


def parts_of(rounds: Sequence[Round], step: Step | None = None) -> Parts | None:
    """The parts of a token; None where no round was timed."""
    timed = [(one, one.total_s) for one in rounds if one.total_s is not None]
    if not timed:
        return None
    whole = statistics.median(total for _, total in timed)
    found = []
    for name, how in _WAYS.items():
        values = [seconds for one, _ in timed if (seconds := _seconds_of(name, one)) is not None]
        if values:
            part = paired_difference(values)
            apart, low, high = part.told_apart, part.low, part.high
            seconds = part.middle if apart else 0.0
            found.append(Part(name=name, seconds=seconds, low_s=low, high_s=high, told_apart=apart, how=how))
    # What is left of each token when the parts that are told apart are taken away
    told = [part for part in found if part.told_apart]
    left = [total - sum(_seconds_of(part.name, one) or 0.0 for part in told) for one, total in timed]
    spread, middle = paired_difference(left), whole - sum(part.seconds for part in told)
    rest = Difference(middle, min(spread.low, middle), max(spread.high, middle))
    last = _remainder(rest, step)
    parts = (last, *found)
    if step:
        low, high = step.low_s, step.high_s
        first = Part(name=STEP, seconds=step.seconds, low_s=low, high_s=high, told_apart=True, how=step.source)
        parts = (first, *found, last)
    return Parts(seconds=whole, rounds=len(timed), parts=parts, notes=_notes(found, rest, step))


def _remainder(rest: Difference, step: Step | None) -> Part:
    """All that is not a part of its own; where the step is unknown, it is the most of this."""
    if step is None:
        how = "the remainder: the device's step and the server's own loop around it"
        return Part(name=STEP_AND_LOOP, seconds=rest.middle, low_s=rest.low, high_s=rest.high, told_apart=True, how=how)
    seconds, low, high = rest.middle - step.seconds, rest.low - step.high_s, rest.high - step.low_s
    how = "the remainder: the server's loop between two steps (batch, threads, text), and anything else that differs"
    apart = low > 0 or high < 0
    return Part(name=UNEXPLAINED, seconds=seconds, low_s=low, high_s=high, told_apart=apart, how=how)


def _notes(found: Sequence[Part], rest: Difference, step: Step | None) -> tuple[str, ...]:
    names, unlike = {part.name for part in found}, "the two did not run under the same conditions"
    notes = [f"{part.name}: negative, so {unlike}" for part in found if part.high_s < 0]
    if SAMPLING not in names:
        notes.append("sampling: no request without samplers was timed")
    if DELIVERY not in names:
        notes.append("streaming and delivery: the server reports no times, so they are part of the rest")
    if step is None:
        notes.append(NEEDS_STEP)
    elif rest.high < step.low_s:
        notes.append(f"the step is longer than the server's time per token: {unlike}")
    return tuple(notes)


def _difference(first: float | None, second: float | None) -> float | None:
    return first - second if first is not None and second is not None else None


def _seconds_of(name: str, one: Round) -> float | None:
    """Of a part in one round."""
    if name == STREAMING:
        return _difference(one.usual.server_s, one.silent.server_s)
    if name == DELIVERY:
        return _difference(one.usual.client_s, one.usual.server_s)
    # By the server's clock where it has one, because the client's adds the noise of the way
    by_server = _difference(one.usual.server_s, one.greedy.server_s)
    return by_server if by_server is not None else _difference(one.usual.client_s, one.greedy.client_s)


_WAYS = {
    SAMPLING: "with the current settings, minus the same without samplers",
    STREAMING: "streamed, minus the same sent at the end; by the server's clock",
    DELIVERY: "the client's time minus the server's",
}


def checked_by_idle(parts: Parts, telemetry: Telemetry | None) -> Parts:
    """The same, with the time for which the busiest GPU had nothing to do while tokens were generated."""
    # The driver counts the share of time in which any kernel ran. What the server does beside the step (sampling,
    # sending, handing over between its threads) leaves the GPU idle, so both should come to about the same.
    phases = telemetry.phases if telemetry else ()
    decode = [gpu.figures for phase in phases if phase.phase == "decode" for gpu in phase.gpus]
    busy = max((figures["busy"].mean for figures in decode if "busy" in figures), default=None)
    if busy is None:
        return parts
    idle = max(0.0, 1 - busy) * parts.seconds
    step = next((part.seconds for part in parts.parts if part.name == STEP), None)
    if step is None:
        return msgspec.structs.replace(parts, gpu_idle_s=idle)
    whole, beside = parts.seconds, parts.seconds - step
    note = f"the GPU is idle for {idle / whole:.0%} of a token; the parts outside its step are {beside / whole:.0%}"
    if max(idle, beside) < _CLEAR * whole:
        note = "the GPU is almost never idle, which agrees with the parts"
    elif abs(idle - beside) >= max(idle, beside) / 2:
        note = f"{note}: these disagree"
    return msgspec.structs.replace(parts, gpu_idle_s=idle, notes=(*parts.notes, note))


def step_at(rows: Sequence[BenchRow], depth: float) -> Step | None:
    """The step from the test nearest to that depth; None where none is near."""
    # llama-bench times the same computation that a server does for one user: one token, its logits copied back, and a
    # wait for the device. Random tokens take the place of sampled ones. The deeper the context, the longer the step, so
    # only a test at about the same depth stands for it.
    # By the context that the tokens of a test found, on average
    apart = [(abs(row.n_depth + (row.n_gen - 1) / 2 - depth), row) for row in rows if generates(row)]
    distance, row = min(apart, key=lambda one: one[0], default=(math.inf, BenchRow()))
    if distance > FARTHEST_TOKENS:
        return None
    # From every repeat where the output has them, else from their mean alone, which has no interval
    spread = spread_of([ns / 1e9 / row.n_gen for ns in row.samples_ns if ns > 0] or [1 / row.avg_ts])
    return Step(spread.median, spread.low, spread.high, f"llama-bench, {row.test}")


def generates(row: BenchRow) -> bool:
    """Whether the test generates and nothing else."""
    return row.n_gen > 0 and not row.n_prompt and row.avg_ts > 0
