"""How decoding slows down with depth: the honest price of reading a longer cache, or something that broke.

Reading keys and values makes every token a little slower than the one before, by the same amount each: a line. Memory
that runs out makes a step, at one depth and in every round. A cache in the wrong place makes a line that is many
times too steep. What changed with time rather than depth shows where the same depth is read again later.
"""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Literal, NamedTuple

import msgspec

from unslow.facts.values import GB, MissingFactError, estimated_fact
from unslow.think.case.cure import Cure
from unslow.think.case.speed import Prediction
from unslow.think.case.view import CaseView
from unslow.think.least_squares import Fit, least_squares
from unslow.think.stats.conditions import spill_signs

Verdict = Literal["slope", "cliff", "steep", "flat", "drift", "cannot_tell"]
SeenAtDepth = Mapping[float, Mapping[str, float]]  # what the machine did
FEWEST_DEPTHS = 3
FASTEST_S = 1e-9  # No token takes less: what says so was not measured
CLIFF = 1.2  # Times what the line explains, from which on a step is one: kernels that change with depth stay below it
SURE = 4.0  # Standard errors, for a step that may be anywhere
BETTER = 16.0  # By how much a step must fit better than a line: squares in units of the noise
BEND = 1.5  # Times the honest slope, for a line that bends where a CPU's cache or a kernel ends
PERHAPS, PERHAPS_BETTER = 1.12, 6.0  # A step that is not sure, but too likely to call it a line
FLAT = 0.05  # Growth over all depths that is none
PERHAPS_FLAT = 0.15  # Growth over all depths that may hide in the noise of a flat line
SEEN = 3.0  # Standard errors, for a slope to be there at all
NOISY = 0.15
KNOWN = 0.1  # A slope that is known so well needs no more rounds
MATTERS = 0.5  # A change with time of this part of the growth with depth makes the growth worth nothing
LARGE_CHANGE = math.log(1.3)
STEEP = 4.0  # Times the expected slope; a GPU without flash attention, or a CPU that computes it slowly, stays below it
_MS_PER_1000 = 1e6


class Reading(NamedTuple):
    """One answer at a depth: how long a token took, and when that was."""

    depth: float
    seconds: float
    at_s: float = 0.0


class Expectation(NamedTuple):
    """What is expected with the cache beside its weights; a figure that is not known is 0."""

    slope_s: float = 0.0  # What each token of depth adds to the time of a generated one
    on_gpu: bool = False
    kv_bytes: float = 0.0  # Of keys and values, for each token of depth
    host_bytes_per_s: float = 0.0
    vram_bytes: float = 0.0


class Curve(NamedTuple):
    """What the depths say."""

    verdict: Verdict
    because: str
    knee: float | None = None  # The last depth before a cliff
    beyond: float | None = None  # The first depth beyond it
    clear: bool = False  # Whether more rounds would say the same
    changed_at_s: float | None = None  # The first reading after a change at one moment, whatever the depth


class Point(NamedTuple):
    """All readings of one depth."""

    depth: float
    seconds: float
    error: float  # Of the seconds, as a share of them
    repeats: int


class Line(NamedTuple):
    """Seconds at no depth, and what each token of depth adds."""

    start_s: float
    slope_s: float
    slope_error_s: float
    misfit: float  # How far the points lie off it in the mean square, as a share of their times
    left_over: float  # The same against what the noise allows, squared and summed

    def at(self, depth: float) -> float:
        """Seconds at a depth."""
        return self.start_s + self.slope_s * depth


class Step(NamedTuple):
    """A line that is higher by a jump from one depth on."""

    line: Line
    last_before: float
    first_beyond: float
    jump_s: float
    jump_error_s: float

    @property
    def times(self) -> float:
        """How many times longer a token takes beyond the step than the line explains."""
        explained = self.line.at(self.first_beyond)
        return (explained + self.jump_s) / explained if explained > 0 else math.inf


class ChangeOverTime(NamedTuple):
    """How the same depths changed from their first reading to their last, as a logarithm."""

    log: float
    per_s: float  # Where it came little by little; else zero
    at_s: float | None  # The first reading after it, where it came at one moment

    @property
    def times(self) -> float:
        """How many times longer a token took at last."""
        return math.exp(self.log)


def judge_depths(
    readings: Sequence[Reading], expected: Expectation | None = None, seen: SeenAtDepth | None = None
) -> Curve:
    """The verdict on readings in any order; `seen` is what the machine did at each depth."""
    expected = expected or Expectation()
    readings = sorted((r for r in readings if r.seconds > FASTEST_S), key=lambda r: r.at_s)
    points = points_of(readings)
    if len(points) < FEWEST_DEPTHS:
        few = {0: "no depth has", 1: "only one depth has"}.get(len(points), f"only {len(points)} depths have")
        return Curve("cannot_tell", f"{few} a speed; at least {FEWEST_DEPTHS} are needed")
    aside = ""
    if change := change_over_time(readings):
        last = {r.depth: r.seconds for r in readings}
        growth = abs(math.log(last[max(last)] / last[min(last)]))
        if abs(change.log) >= min(LARGE_CHANGE, MATTERS * growth):  # time made more of a difference than depth
            return _judge_change(change, readings)
        since_s = change.at_s  # from which reading on it is there as a whole; None where it came little by little
        logs = [change.per_s * r.at_s if since_s is None else change.log * (r.at_s >= since_s) for r in readings]
        both = zip(readings, logs, strict=True)
        points = points_of(r._replace(seconds=r.seconds * math.exp(-log)) for r, log in both)
        aside = f"; a change of {change.times - 1:+.0%} over time was removed first"
    return _judge_points(points, readings, expected, seen or {}, aside)


def _judge_points(
    points: Sequence[Point], readings: Sequence[Reading], expected: Expectation, seen: SeenAtDepth, aside: str
) -> Curve:
    line, step = line_through(points), best_step(points)
    if line is None:
        return Curve("cannot_tell", "all depths are the same")
    if step and _is_cliff(step, line, points, expected):
        before, beyond = step.last_before, step.first_beyond
        at = {p.depth: p.seconds for p in points}
        fast, slow = ([r.seconds for r in readings if r.depth == depth] for depth in (before, beyond))
        repeated = len(fast) > 1 and len(slow) > 1 and min(slow) > max(fast)
        why = f"between depth {before:.0f} and {beyond:.0f} a token takes {at[beyond] / at[before]:.1f} times as long, "
        why += f"{step.times:.1f} times what the slope explains{'' if repeated else ', measured once'}"
        fitting, spilled = seen.get(before, {}), seen.get(beyond, {})
        if signs := spill_signs(fitting, spilled, expected.vram_bytes):
            why += f". It is a spill: {', '.join(signs)}"
        else:
            nothing = "No other reading changed there" if fitting and spilled else "Memory was not measured"
            why += f". {nothing}, so whether it is a spill is undetermined"
        return Curve("cliff", why + aside, before, beyond, repeated)
    if line.misfit > NOISY:
        return Curve(
            "cannot_tell", f"the times fit neither a line nor a step ({line.misfit:.0%} off): is the machine busy?"
        )
    if step and step.times > PERHAPS and line.left_over - step.line.left_over > PERHAPS_BETTER:
        between = f"between depth {step.last_before:.0f} and {step.first_beyond:.0f}"
        why = f"a step {between} fits better than a straight line, but not clearly: measure depths in between"
        return Curve("cannot_tell", why, step.last_before, step.first_beyond)
    return _judge_line(line, points, expected, aside)


def _is_cliff(step: Step, line: Line, points: Sequence[Point], expected: Expectation) -> bool:
    """A step that is large, sure, fits better than any line, and is more than honest reading could cost."""
    if step.jump_s <= 0 or step.times < CLIFF or step.jump_s < SURE * step.jump_error_s:
        return False
    at = {p.depth: p.seconds for p in points}
    grew = at[step.first_beyond] - at[step.last_before]
    honest = max(expected.slope_s, step.line.slope_s) * (step.first_beyond - step.last_before)
    return line.left_over - step.line.left_over >= BETTER and grew > BEND * honest


def _judge_change(change: ChangeOverTime, readings: Sequence[Reading]) -> Curve:
    shallowest = min(r.depth for r in readings)
    way = f"{change.times:.1f} times as long" if change.log > 0 else f"only {change.times:.2f} times as long"
    why = f"at the same depth ({shallowest:.0f}) a token took {way} at the end as at the start"
    if change.at_s is not None:
        depth = next(r.depth for r in readings if r.at_s >= change.at_s)
        why += f"; it changed abruptly, {change.at_s - readings[0].at_s:.0f} s after the first reading and before"
        why += f" depth {depth:.0f}: something else happened then, or spilled data does not return to VRAM"
    else:
        cause = "throttling or other work" if change.log > 0 else "other work at the start"
        why += f", gradually: {cause}"
    return Curve("drift", f"{why}; so the effect of depth is undetermined", changed_at_s=change.at_s)


def _judge_line(line: Line, points: Sequence[Point], expected: Expectation, aside: str) -> Curve:
    first, deepest = points[0], points[-1]
    reach, start_s = deepest.depth - first.depth, max(line.at(first.depth), first.seconds / 2)
    growth, unsure = line.slope_s * reach / start_s, 2 * line.slope_error_s * reach / start_s
    if growth < FLAT and growth + unsure < PERHAPS_FLAT:
        why = f"a token takes as long at depth {deepest.depth:.0f} as at {first.depth:.0f} ({growth:+.1%})"
        awaited = expected.slope_s * reach / first.seconds
        if awaited > PERHAPS_FLAT:
            why += f", where reading the whole KV cache would add {awaited:.0%}: does the model use a sliding window?"
        return Curve("flat", why + aside, clear=all(p.repeats > 1 for p in points))
    if line.slope_s < SEEN * line.slope_error_s:
        why = f"a growth of {growth:.0%} ± {unsure:.0%} over {reach:.0f} tokens of depth is within noise"
        return Curve("cannot_tell", why)
    clear = line.slope_error_s <= KNOWN * line.slope_s
    if expected.slope_s > 0 and line.slope_s - 2 * line.slope_error_s > STEEP * expected.slope_s:
        return Curve("steep", steep_words(line, expected) + aside, clear=clear)
    slope = "as expected from reading the KV cache; the expected slope is unknown"
    if expected.slope_s:
        slope = f"{line.slope_s / expected.slope_s:.1f} times the expected cost of reading the KV cache"
    why = f"{_each(line)}, {growth:.0%} over {reach:.0f}: a straight line, {slope}"
    return Curve("slope", why + aside, clear=clear)


def steep_words(line: Line, expected: Expectation) -> str:
    """Where the cache must be, by the speed at which it is read."""
    times = line.slope_s / expected.slope_s
    why = f"{_each(line)}, a straight line but {times:.0f} times as steep as reading the KV cache"
    if not expected.on_gpu:
        return f"{why} from RAM: attention is computed slowly, or with too few threads"
    if not expected.kv_bytes:
        return f"{why} on the GPU: the cache is not in VRAM, or attention does not run on the GPU"
    rate, host = expected.kv_bytes / line.slope_s, expected.host_bytes_per_s
    why += f" on the GPU, equivalent to {rate / GB:.1f} GB/s"
    if host and rate < STEEP * host:
        return f"{why}; the CPU reads RAM at about {host / GB:.0f} GB/s: the cache is in host memory"
    return f"{why}, faster than RAM: attention on the GPU is slow (is flash attention off?)"


def _each(line: Line) -> str:
    return f"each 1000 tokens of depth add {line.slope_s * _MS_PER_1000:.3g} ms to a token"


LEAST_NOISE = 0.01  # Of a reading: repeats that agree better than this do so by chance
ALONE_NOISE = 0.03  # Of readings that were not repeated
FEWEST_FOR_STEP = 4


def points_of(readings: Iterable[Reading]) -> list[Point]:
    """Depths in their order, each with its median; the noise is what repeats of the same depth differ by."""
    by_depth: dict[float, list[float]] = {}
    for reading in readings:
        by_depth.setdefault(reading.depth, []).append(reading.seconds)
    # The standard deviation of one reading as a share of it, over all that was repeated
    squares, free = 0.0, 0
    for times in by_depth.values():
        logs = [math.log(t) for t in times]
        middle = statistics.fmean(logs)
        squares += sum((log - middle) ** 2 for log in logs)
        free += len(logs) - 1
    noise = max(LEAST_NOISE, math.sqrt(squares / free)) if free else ALONE_NOISE
    return [
        Point(depth, statistics.median(times), noise / math.sqrt(len(times)), len(times))
        for depth, times in sorted(by_depth.items())
    ]


def line_through(points: Sequence[Point]) -> Line | None:
    """The line that fits best."""
    fit = _fit(points, [[1.0, p.depth] for p in points])
    return _fitted_line(points, fit) if fit else None


def best_step(points: Sequence[Point]) -> Step | None:
    """The line with a step that fits best, wherever between two depths; None where too few tell it from a line."""
    steps = []
    for index in range(1, len(points) if len(points) >= FEWEST_FOR_STEP else 0):
        # The same slope on both sides; a step at either end rests on the other points' slope
        sides = [float(number >= index) for number in range(len(points))]
        fit = _fit(points, [[1.0, p.depth, side] for p, side in zip(points, sides, strict=True)])
        if fit and fit.values[1] < 0 and (fit := _fit(points, [[1.0, side] for side in sides])):
            (start, jump), (start_error, jump_error) = fit.values, fit.errors
            fit = Fit((start, 0.0, jump), (start_error, 0.0, jump_error), fit.left_over)
        if fit:
            line, before, beyond = _fitted_line(points, fit), points[index - 1].depth, points[index].depth
            steps.append(Step(line, before, beyond, fit.values[2], fit.errors[2]))
    return min(steps, key=lambda step: step.line.left_over, default=None)


def _fit(points: Sequence[Point], rows: Sequence[Sequence[float]]) -> Fit | None:
    """Each point counts by its error, which is a share: times far apart are fitted alike."""
    weights = [1 / (p.error * p.seconds) for p in points]
    scaled = [[entry * weight for entry in row] for row, weight in zip(rows, weights, strict=True)]
    return least_squares(scaled, [p.seconds * weight for p, weight in zip(points, weights, strict=True)])


def _fitted_line(points: Sequence[Point], fit: Fit) -> Line:
    misfit = statistics.fmean(p.error for p in points) * math.sqrt(fit.left_over / len(points))
    return Line(fit.values[0], fit.values[1], fit.errors[1], misfit, fit.left_over)


CLEAR = math.log(1.12)  # A change below it may be a clock that settles
SURE_CHANGE = 4.0  # Standard errors
FEWEST_PAIRS, FEWEST_CHANGED = 3, 2
"""Depths that were read twice, and those of them that changed: one alone is a disturbance that may be over."""
LEAST_CHANGE_NOISE = 0.015  # Of the logarithm of a pair: those that agree better do so by chance


def change_over_time(readings: Sequence[Reading]) -> ChangeOverTime | None:
    """A change from one time to another at the same depth, whether little by little or at one moment; None for none."""
    by_depth: dict[float, list[Reading]] = {}
    for reading in sorted(readings, key=lambda r: r.at_s):
        by_depth.setdefault(reading.depth, []).append(reading)
    pairs = [(of[0], of[-1]) for of in by_depth.values() if len(of) > 1]
    if len(pairs) < FEWEST_PAIRS:
        return None
    logs = [math.log(last.seconds / first.seconds) for first, last in pairs]
    tried = [_fitted_change(logs, [last.at_s - first.at_s for first, last in pairs], None)]
    moments = sorted(r.at_s for r in readings)[1:]
    tried += [_fitted_change(logs, [float(a.at_s < at <= b.at_s) for a, b in pairs], at) for at in moments]
    best = min((one for one in tried if one), key=lambda one: one[1], default=None)
    if best is None:
        return None
    change, _, error = best
    return change if abs(change.log) >= max(CLEAR, SURE_CHANGE * error) else None


def _fitted_change(
    logs: Sequence[float], shape: Sequence[float], at_s: float | None
) -> tuple[ChangeOverTime, float, float] | None:
    """What explains the pairs best if each changed in proportion to its entry of the shape: it, what is left, error."""
    weight = sum(x * x for x in shape)
    if sum(x > 0 for x in shape) < FEWEST_CHANGED:
        return None
    size = sum(x * log for x, log in zip(shape, logs, strict=True)) / weight
    left_over = sum((log - size * x) ** 2 for x, log in zip(shape, logs, strict=True))
    noise = max(left_over / (len(logs) - 1), LEAST_CHANGE_NOISE**2)
    most = max(shape)
    change = ChangeOverTime(size * most, size if at_s is None else 0.0, at_s)
    return change, left_over, most * math.sqrt(noise / weight)


SHALLOW = 256  # Where the slope begins; physics has it the same everywhere but in a window


def expectation_of(case: CaseView, deepest: float) -> Expectation:
    """What to hold a measured slope against."""
    deep = max(deepest, 2 * SHALLOW)
    above, below = _seconds(case, deep), _seconds(case, SHALLOW)
    slope = max(0.0, above - below) / (deep - SHALLOW) if above and below else 0.0
    vram = max((gpu.vram_total_bytes.value_or(0) for gpu in case.gpus.in_use), default=0)
    on_gpu, host = False, 0.0
    with suppress(MissingFactError):
        on_gpu = case.physics.work().device is not None
    with suppress(MissingFactError):
        host = case.host.bandwidth[0]
    return Expectation(slope, on_gpu, case.memory.kv_bytes_per_token, host, vram)


def expected_rates(case: CaseView, depths: Iterable[float]) -> dict[float, float]:
    """Tokens per second at each depth; none where physics lacks a fact."""
    found = {depth: _seconds(case, depth) for depth in depths}
    return {depth: 1 / seconds for depth, seconds in found.items() if seconds}


def _seconds(case: CaseView, depth: float) -> float:
    run = msgspec.structs.replace(case.run, depth_tokens=estimated_fact(int(depth), "the requested depth"))
    found = case.replace(run=run).speed.predict(Cure(kv_on_gpu=True))
    return found.seconds.mid if isinstance(found, Prediction) else 0.0


USUAL_FIRST = 512
FEWEST = 5  # Depths that tell a line from a step
UNKNOWN_CONTEXT = 4096
ROOM_TOKENS = 64  # Of the context, for what a chat template adds and for tokens that were counted wrong
WORTH_A_DEPTH = 1.25  # The least ratio of two neighbouring depths


def usual_depths(room: int) -> list[int]:
    """From 512 on, or from less where the context is small; the last is all that there is room for."""
    first = USUAL_FIRST
    while first * 2 ** (FEWEST - 1) > room and first > 1:
        first //= 2
    found = [first]
    while found[-1] * 2 <= room:
        found.append(found[-1] * 2)
    return [*found, room] if room >= WORTH_A_DEPTH * found[-1] else found
