"""Finds the factors that explain measured times best: sums of products of positive factors, fitted in logarithms.

Terms on sides that work at the same time count as `unslow.think.physics.terms` has it; what a term then adds to the sum
is also how the sum changes with it, so the slopes are those of a plain sum.

The loss grows with the square of a small relative error and only linearly with a large one, so that a mislabelled row
pulls little. Every factor is held near what is plausible by a prior; a family of chips stays near its backend unless
its own rows say otherwise.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from lab.speed.priors import Prior, prior_of
from lab.speed.table import Measured
from numpy.typing import NDArray

from unslow.think.physics import terms as physics

Array = NDArray[np.float64]
USUAL_ERROR = 0.06
"""The relative error at which the loss turns from square to linear: about what two publishers differ by."""
MOST_ROUNDS, MOST_TRIES = 60, 8
LONGEST_STEP = 1.5
ENOUGH = 1e-4
FAR, NEAR, LEAST_DAMPING = 1.0, 0.01, 1e-6
"""How carefully to begin far from a solution and near one, and how boldly to go on at most."""
HELD, FREE = 0.02, 1.0
"""How far factors may move that are held, and those of one device that is learned after all others."""


class Design(NamedTuple):
    """All terms of all rows: which row, how many seconds by physics alone, and the power of each factor."""

    names: list[str]
    row: NDArray[np.int64]
    first: NDArray[np.int64]
    """Of each row, its first term."""
    seconds: Array
    powers: Array
    side: NDArray[np.int64]
    """Of each term, which side of its row it is on; 0 where everything waits for it."""

    def times(self, logs: Array) -> tuple[Array, Array]:
        """Seconds of each row, and what each term adds to them."""
        each = self._side_by_side(self.seconds * np.exp(self.powers @ logs))
        return np.bincount(self.row, weights=each).astype(np.float64), each

    def _side_by_side(self, alone: Array) -> Array:
        """What each term adds to its row."""
        sides = [
            np.bincount(self.row, weights=alone * (self.side == k)).astype(np.float64)
            for k in range(1, int(self.side.max()) + 1)
        ]
        together = physics.side_by_side(sides)
        shares = [
            np.ones_like(self.first, dtype=np.float64),
            *((s / together) ** (physics.SHARPNESS - 1) for s in sides),
        ]
        return np.asarray(alone * np.array(shares)[self.side, self.row])


def design(rows: Sequence[Measured]) -> Design:
    """The terms of the rows."""
    names: dict[str, int] = {}
    flat = [(i, term) for i, m in enumerate(rows) for term in m.terms]
    for _, term in flat:
        for factor in term.factors:
            names.setdefault(factor.name, len(names))
    powers = np.zeros((len(flat), len(names)))
    for k, (_, term) in enumerate(flat):
        for factor in term.factors:
            powers[k, names[factor.name]] += factor.power
    seconds = np.array([float(term.seconds) for _, term in flat])
    row = np.array([i for i, _ in flat])
    sides = {name: n for n, name in enumerate(dict.fromkeys(("", *(term.side for _, term in flat))))}
    side = np.array([sides[term.side] for _, term in flat])
    return Design(list(names), row, np.searchsorted(row, np.arange(len(rows))), seconds, powers, side)


class Problem(NamedTuple):
    """What is to be explained, and what is plausible before."""

    design: Design
    wanted: Array
    """The logarithms of the measured times."""
    weight: Array
    mean: Array
    width: Array

    def loss(self, logs: Array) -> float:
        """How badly these factors explain the rows, and how implausible they are."""
        times, _ = self.design.times(logs)
        misfit = self.weight * 2 * (np.sqrt(1 + self._off(times) ** 2) - 1)
        return float(np.sum(misfit) + np.sum(((logs - self.mean) / self.width) ** 2))

    def slopes(self, logs: Array) -> tuple[Array, Array]:
        """How the loss grows at this place, and how that changes: its gradient, and nearly its second derivative."""
        design = self.design
        times, each = design.times(logs)
        off = self._off(times)
        slope = np.add.reduceat((each / times[design.row])[:, None] * design.powers, design.first) / USUAL_ERROR
        pull = self.weight / np.sqrt(1 + off**2)
        curve = slope.T @ (slope * pull[:, None]) + np.diag(1 / self.width**2)
        return slope.T @ (pull * off) + (logs - self.mean) / self.width**2, curve

    def _off(self, times: Array) -> Array:
        return np.asarray((np.log(times) - self.wanted) / USUAL_ERROR)


class Place(NamedTuple):
    """Factors on the way to the best ones, and how carefully to go on from there."""

    logs: Array
    loss: float
    damping: float


def fitted(
    rows: Sequence[Measured],
    start: Mapping[str, float] | None = None,
    held: Mapping[str, float] | None = None,
    free: float | None = FREE,
) -> dict[str, float]:
    """The logarithm of every factor that the rows have.

    `start` may be a solution for nearly the same rows. What is `held` stays as it is: then only a device's own
    deviations are learned, and those may be large: `free` is how far, None where they stay near what is plausible.
    """
    problem = _problem(rows, held, free)
    names = problem.design.names
    logs = np.array([(start or {}).get(name, mean) for name, mean in zip(names, problem.mean.tolist(), strict=True)])
    best = _lowest(problem, Place(logs, problem.loss(logs), FAR if start is None else NEAR))
    return dict(zip(names, best.tolist(), strict=True))


def _problem(rows: Sequence[Measured], held: Mapping[str, float] | None, free: float | None) -> Problem:
    plan = design(rows)
    priors = [_prior(name, held, free) for name in plan.names]
    return Problem(
        design=plan,
        wanted=np.log([m.seconds for m in rows]),
        weight=np.array([m.weight for m in rows]),
        mean=np.array([p.mean for p in priors]),
        width=np.array([p.width for p in priors]),
    )


def _prior(name: str, held: Mapping[str, float] | None, free: float | None) -> Prior:
    if held is not None and name in held:
        return Prior(held[name], HELD)
    usual = prior_of(name)
    return usual if held is None or free is None else Prior(usual.mean, free)


def _lowest(problem: Problem, place: Place) -> Array:
    """Downhill until a step gains next to nothing."""
    for _ in range(MOST_ROUNDS):
        lower = _lower(problem, place)
        if lower is None:
            break
        before, place = place.loss, lower
        if before - place.loss < ENOUGH * max(1.0, abs(before)):
            break
    return place.logs


def _lower(problem: Problem, place: Place) -> Place | None:
    """One step down, the shorter the more damped; None where no try finds one (Levenberg and Marquardt)."""
    downhill, curve = problem.slopes(place.logs)
    damping = place.damping
    for _ in range(MOST_TRIES):
        step = np.linalg.solve(curve + damping * np.diag(np.diag(curve)), -downhill)
        logs = place.logs + np.clip(step, -LONGEST_STEP, LONGEST_STEP)
        loss = problem.loss(logs)
        if loss < place.loss:
            return Place(logs, loss, max(damping / 4, LEAST_DAMPING))
        damping *= 4
    return None


def predicted(rows: Sequence[Measured], logs: dict[str, float]) -> Array:
    """Seconds of each row; of factors that nothing was learned of, what is plausible."""
    plan = design(rows)
    times, _ = plan.times(np.array([logs.get(name, prior_of(name).mean) for name in plan.names]))
    return times
