"""Finds the factors that explain measured times best: sums of products of positive factors, fitted in logarithms.

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

Array = NDArray[np.float64]
USUAL_ERROR = 0.06
"""The relative error at which the loss turns from square to linear: about what two publishers differ by."""
MOST_ROUNDS, MOST_TRIES = 60, 8
LONGEST_STEP = 1.5
ENOUGH = 1e-4
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

    def times(self, logs: Array) -> tuple[Array, Array]:
        """Seconds of each row, and of each term."""
        each = self.seconds * np.exp(self.powers @ logs)
        return np.bincount(self.row, weights=each).astype(np.float64), each


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
    return Design(list(names), row, np.searchsorted(row, np.arange(len(rows))), seconds, powers)


def fitted(
    rows: Sequence[Measured], start: Mapping[str, float] | None = None, held: Mapping[str, float] | None = None
) -> dict[str, float]:
    """The logarithm of every factor that the rows have.

    `start` may be a solution for nearly the same rows. What is `held` stays as it is: then only a device's own
    deviations are learned, and those may be large.
    """
    plan = design(rows)
    priors = [_prior(name, held) for name in plan.names]
    mean, width = np.array([p.mean for p in priors]), np.array([p.width for p in priors])
    wanted = np.log([m.seconds for m in rows])
    weight = np.array([m.weight for m in rows])

    def loss(logs: Array) -> float:
        times, _ = plan.times(logs)
        off = (np.log(times) - wanted) / USUAL_ERROR
        return float(np.sum(weight * 2 * (np.sqrt(1 + off**2) - 1)) + np.sum(((logs - mean) / width) ** 2))

    logs = np.array([(start or {}).get(n, p.mean) for n, p in zip(plan.names, priors, strict=True)])
    damping, now = 1.0 if start is None else 0.01, loss(logs)
    for _ in range(MOST_ROUNDS):
        times, each = plan.times(logs)
        off = (np.log(times) - wanted) / USUAL_ERROR
        slope = np.add.reduceat((each / times[plan.row])[:, None] * plan.powers, plan.first) / USUAL_ERROR
        pull = weight / np.sqrt(1 + off**2)
        curve = slope.T @ (slope * pull[:, None]) + np.diag(1 / width**2)
        downhill = slope.T @ (pull * off) + (logs - mean) / width**2
        before = now
        for _ in range(MOST_TRIES):
            step = np.linalg.solve(curve + damping * np.diag(np.diag(curve)), -downhill)
            step = np.clip(step, -LONGEST_STEP, LONGEST_STEP)
            now = loss(logs + step)
            if now < before:
                logs, damping = logs + step, max(damping / 4, 1e-6)
                break
            damping *= 4
        else:
            break
        if before - now < ENOUGH * max(1.0, abs(before)):
            break
    return dict(zip(plan.names, logs.tolist(), strict=True))


def _prior(name: str, held: Mapping[str, float] | None) -> Prior:
    if held is None:
        return prior_of(name)
    return Prior(held[name], HELD) if name in held else Prior(prior_of(name).mean, FREE)


def predicted(rows: Sequence[Measured], logs: dict[str, float]) -> Array:
    """Seconds of each row; of factors that nothing was learned of, what is plausible."""
    plan = design(rows)
    times, _ = plan.times(np.array([logs.get(name, prior_of(name).mean) for name in plan.names]))
    return times
