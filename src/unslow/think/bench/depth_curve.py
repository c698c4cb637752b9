"""Judges how decoding slows down with depth: the honest price of reading a longer cache, or something that broke.

Reading keys and values makes every token a little slower than the one before, by the same amount each: a line. Memory
that runs out makes a step, at one depth and in every round. A cache in the wrong place makes a line that is many times
too steep. What changed with time rather than depth shows where the same depth is read again later.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Literal, NamedTuple

from unslow.think.bench.depth_expectation import Expectation
from unslow.think.bench.depth_fit import Line, Point, Reading, Step, best_step, line_through, points_of
from unslow.think.bench.depth_slope import PERHAPS_FLAT, flat_words, is_steep, slope_words, steep_words
from unslow.think.bench.depth_time import Change, change_over_time, without_change
from unslow.think.bench.spill_signs import spill_signs

Verdict = Literal["slope", "cliff", "steep", "flat", "drift", "cannot_tell"]

FEWEST_DEPTHS = 3
FASTEST_S = 1e-9
"""No token takes less: what says so was not measured."""
CLIFF = 1.2
"""Times what the line explains, from which on a step is one: kernels that change with depth stay below it."""
SURE = 4.0
"""Standard errors, for a step that may be anywhere."""
BETTER = 16.0
"""By how much a step must fit better than a line: squares in units of the noise."""
BEND = 1.5
"""Times the honest slope, for a line that bends where a CPU's cache or a kernel ends."""
PERHAPS, PERHAPS_BETTER = 1.12, 6.0
"""A step that is not sure, but too likely to call it a line."""
FLAT = 0.05
"""Growth over all depths that is none."""
SEEN = 3.0
"""Standard errors, for a slope to be there at all."""
NOISY = 0.15
KNOWN = 0.1
"""A slope that is known so well needs no more rounds."""
MATTERS = 0.5
"""A change with time of this part of the growth with depth makes the growth worth nothing."""
LARGE_CHANGE = math.log(1.3)


class Curve(NamedTuple):
    """What the depths say."""

    verdict: Verdict
    because: str
    knee: float | None = None
    """The last depth before a cliff."""
    beyond: float | None = None
    """The first depth beyond it."""
    clear: bool = False
    """Whether more rounds would say the same."""
    changed_at_s: float | None = None
    """The first reading after a change at one moment, whatever the depth."""


def judge_depths(
    readings: Sequence[Reading],
    expected: Expectation | None = None,
    seen: Mapping[float, Mapping[str, float]] | None = None,
) -> Curve:
    """The verdict on readings in any order; `seen` is what the machine did at each depth."""
    expected = expected or Expectation()
    readings = sorted((r for r in readings if r.seconds > FASTEST_S), key=lambda r: r.at_s)
    points = points_of(readings)
    if len(points) < FEWEST_DEPTHS:
        return Curve("cannot_tell", f"{_few(len(points))} a speed; {FEWEST_DEPTHS} are the least")
    change = change_over_time(readings)
    if change and _outweighs(change, readings):
        return _drift(change, readings)
    points = points_of(without_change(readings, change)) if change else points
    return _over_depth(points, readings, expected, seen or {}, _aside(change))


def _few(depths: int) -> str:
    return {0: "no depth has", 1: "only one depth has"}.get(depths, f"only {depths} depths have")


def _over_depth(
    points: Sequence[Point],
    readings: Sequence[Reading],
    expected: Expectation,
    seen: Mapping[float, Mapping[str, float]],
    aside: str,
) -> Curve:
    line, step = line_through(points), best_step(points)
    if line is None:
        return Curve("cannot_tell", "the depths are all the same")
    if step and _is_cliff(step, line, points, expected):
        spilled = _spilled(seen.get(step.last_before, {}), seen.get(step.first_beyond, {}), expected.vram_bytes)
        return _cliff(step, points, readings, spilled + aside)
    if line.misfit > NOISY:
        why = f"the times lie {line.misfit:.0%} off any line or step, so nothing can be said: is the machine busy?"
        return Curve("cannot_tell", why)
    if step and step.times > PERHAPS and line.left_over - step.line.left_over > PERHAPS_BETTER:
        return _either(step)
    return _line(line, points, expected, aside)


def _either(step: Step) -> Curve:
    between = f"between depth {step.last_before:.0f} and {step.first_beyond:.0f}"
    why = f"a step {between} fits better than a straight line, but not clearly: depths in between would tell"
    return Curve("cannot_tell", why, step.last_before, step.first_beyond)


def _outweighs(change: Change, readings: Sequence[Reading]) -> bool:
    """Whether time made more of a difference than depth, by the last reading of each depth."""
    last = {r.depth: r.seconds for r in readings}
    growth = abs(math.log(last[max(last)] / last[min(last)]))
    return abs(change.log) >= min(LARGE_CHANGE, MATTERS * growth)


def _drift(change: Change, readings: Sequence[Reading]) -> Curve:
    shallowest = min(r.depth for r in readings)
    way = f"{change.times:.1f} times as long" if change.log > 0 else f"only {change.times:.2f} times as long"
    why = f"at the same depth ({shallowest:.0f}) a token took {way} at the end as at the start"
    if change.at_s is not None:
        depth = next(r.depth for r in readings if r.at_s >= change.at_s)
        why += f"; it changed at one moment, {change.at_s - readings[0].at_s:.0f} s after the first reading and before"
        why += f" depth {depth:.0f}: something else happened then, or what spilled does not come back"
    else:
        cause = "throttling, or other work" if change.log > 0 else "something was in the way at first"
        why += f", little by little: {cause}"
    return Curve("drift", f"{why}; so nothing is said about depth", changed_at_s=change.at_s)


def _aside(change: Change | None) -> str:
    """A change with time that is taken out of the readings, in words."""
    return f"; apart from that, a change by {change.times - 1:+.0%} with time was taken out" if change else ""


def _is_cliff(step: Step, line: Line, points: Sequence[Point], expected: Expectation) -> bool:
    """A step that is large, sure, fits better than any line, and is more than honest reading could cost."""
    if step.jump_s <= 0 or step.times < CLIFF or step.jump_s < SURE * step.jump_error_s:
        return False
    if line.left_over - step.line.left_over < BETTER:
        return False
    at = {p.depth: p.seconds for p in points}
    grew = at[step.first_beyond] - at[step.last_before]
    honest = max(expected.slope_s, step.line.slope_s) * (step.first_beyond - step.last_before)
    return grew > BEND * honest


def _cliff(step: Step, points: Sequence[Point], readings: Sequence[Reading], rest: str) -> Curve:
    before, beyond = step.last_before, step.first_beyond
    at = {p.depth: p.seconds for p in points}
    why = f"between depth {before:.0f} and {beyond:.0f} a token takes {at[beyond] / at[before]:.1f} times as long, "
    why += f"{step.times:.1f} times what the slope explains"
    repeated = _is_repeated(before, beyond, readings)
    why += "" if repeated else ", seen once"
    return Curve("cliff", why + rest, before, beyond, repeated)


def _is_repeated(before: float, beyond: float, readings: Sequence[Reading]) -> bool:
    """Whether both sides were read twice, and every reading beyond was slower than all before."""
    fast = [r.seconds for r in readings if r.depth == before]
    slow = [r.seconds for r in readings if r.depth == beyond]
    return len(fast) > 1 and len(slow) > 1 and min(slow) > max(fast)


def _spilled(before: Mapping[str, float], beyond: Mapping[str, float], vram_bytes: float) -> str:
    signs = spill_signs(before, beyond, vram_bytes)
    if signs:
        return f". It is a spill: {', '.join(signs)}"
    if before and beyond:
        return ". Nothing else was seen to change there, so whether it is a spill can't be told"
    return ". Nobody watched the memory, so whether it is a spill can't be told"


def _line(line: Line, points: Sequence[Point], expected: Expectation, aside: str) -> Curve:
    reach = points[-1].depth - points[0].depth
    first = max(line.at(points[0].depth), points[0].seconds / 2)
    growth, unsure = line.slope_s * reach / first, 2 * line.slope_error_s * reach / first
    if growth < FLAT and growth + unsure < PERHAPS_FLAT:
        return Curve("flat", flat_words(growth, points, expected) + aside, clear=all(p.repeats > 1 for p in points))
    if line.slope_s < SEEN * line.slope_error_s:
        why = f"a growth of {growth:.0%} ± {unsure:.0%} over {reach:.0f} tokens of depth can't be told from noise"
        return Curve("cannot_tell", why)
    clear = line.slope_error_s <= KNOWN * line.slope_s
    if is_steep(line, expected):
        return Curve("steep", steep_words(line, expected) + aside, clear=clear)
    return Curve("slope", slope_words(line, growth, reach, expected) + aside, clear=clear)
