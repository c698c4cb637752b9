"""The time of a token over the depth: as a straight line, and as a line with a step in it."""

import math
import statistics
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from unslow.think.least_squares import Fit, least_squares

LEAST_NOISE = 0.01
"""Of a reading: repeats that agree better than this do so by chance."""
ALONE_NOISE = 0.03
"""Of readings that were not repeated."""
FEWEST_FOR_STEP = 4


class Reading(NamedTuple):
    """One answer at a depth: how long a token took, and when that was."""

    depth: float
    seconds: float
    at_s: float = 0.0


class Point(NamedTuple):
    """All readings of one depth."""

    depth: float
    seconds: float
    error: float
    """Of the seconds, as a share of them."""
    repeats: int


class Line(NamedTuple):
    """Seconds at no depth, and what each token of depth adds."""

    start_s: float
    slope_s: float
    slope_error_s: float
    misfit: float
    """How far the points lie off it in the mean square, as a share of their times."""
    left_over: float
    """The same against what the noise allows, squared and summed."""

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


def points_of(readings: Iterable[Reading]) -> list[Point]:
    """Depths in their order, each with its median; the noise is what repeats of the same depth differ by."""
    by_depth: dict[float, list[float]] = {}
    for reading in readings:
        by_depth.setdefault(reading.depth, []).append(reading.seconds)
    noise = noise_of(by_depth.values())
    return [
        Point(depth, statistics.median(times), noise / math.sqrt(len(times)), len(times))
        for depth, times in sorted(by_depth.items())
    ]


def noise_of(repeats: Iterable[Sequence[float]]) -> float:
    """The standard deviation of one reading as a share of it, over all that was repeated."""
    squares, free = 0.0, 0
    for times in repeats:
        logs = [math.log(t) for t in times]
        middle = statistics.fmean(logs)
        squares += sum((log - middle) ** 2 for log in logs)
        free += len(logs) - 1
    return max(LEAST_NOISE, math.sqrt(squares / free)) if free else ALONE_NOISE


def line_through(points: Sequence[Point]) -> Line | None:
    """The line that fits best."""
    fit = _fit(points, [[1.0, p.depth] for p in points])
    if fit is None:
        return None
    start, slope = fit.values
    return Line(start, slope, fit.errors[1], _misfit(points, fit), fit.left_over)


def best_step(points: Sequence[Point]) -> Step | None:
    """The line with a step that fits best, wherever between two depths; None where too few tell it from a line."""
    if len(points) < FEWEST_FOR_STEP:
        return None
    steps = [step for index in range(1, len(points)) if (step := _step_at(points, index))]
    return min(steps, key=lambda step: step.line.left_over, default=None)


def _step_at(points: Sequence[Point], index: int) -> Step | None:
    """The same slope on both sides; a step at either end rests on the other points' slope."""
    sides = [float(number >= index) for number in range(len(points))]
    fit = _fit(points, [[1.0, p.depth, side] for p, side in zip(points, sides, strict=True)])
    if fit is None:
        return None
    if fit.values[1] < 0:
        fit = _fit(points, [[1.0, side] for side in sides])
        if fit is None:
            return None
        fit = Fit((fit.values[0], 0.0, fit.values[1]), (fit.errors[0], 0.0, fit.errors[1]), fit.left_over)
    start, slope, jump = fit.values
    line = Line(start, slope, fit.errors[1], _misfit(points, fit), fit.left_over)
    return Step(line, points[index - 1].depth, points[index].depth, jump, fit.errors[2])


def _fit(points: Sequence[Point], rows: Sequence[Sequence[float]]) -> Fit | None:
    """Each point counts by its error, which is a share: times far apart are fitted alike."""
    weights = [1 / (p.error * p.seconds) for p in points]
    scaled = [[entry * weight for entry in row] for row, weight in zip(rows, weights, strict=True)]
    return least_squares(scaled, [p.seconds * weight for p, weight in zip(points, weights, strict=True)])


def _misfit(points: Sequence[Point], fit: Fit) -> float:
    error = statistics.fmean(p.error for p in points)
    return error * math.sqrt(fit.left_over / len(points))
