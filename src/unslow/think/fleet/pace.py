"""How fast each of a group of like instances is against the others at the same load, and who is slower beyond noise.

The others are those that are judged normal by themselves, where there are enough of them, else all: where most of a
group is ill, the middle of it is no norm.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unslow.think.fleet.report import Instance
from unslow.think.predict import DECODE

LEAST_PEERS = 4
"""Instances to hold one against: of fewer, nobody knows which is the odd one."""
LEAST_TOKENS = 64.0
"""Of answers in the window: fewer tell no speed."""
NOISE = 0.10
"""Of the speed: what differs less is chance, as two measurements of one server under real traffic do."""
FEW = 4.0
"""Instances whose spread says as much as is known without them: of a handful it is known badly, so more is chance."""
DEVIATIONS = 4.0
"""Of the usual spread: of ten thousand like instances less than one is farther off by chance."""
_OF_MEDIAN = 1.4826
"""Standard deviations in a median absolute deviation of a normal distribution."""
SAME_LOAD = 1.4
"""Times as many requests at once: within it a step takes about as long where nothing predicts how long."""
SAME_LOAD_PREDICTED = 2.0
"""The same where the load is in the prediction already, and only its error is to be the same."""
OPEN = 2.2
"""Times as fast in the middle of a prediction as at its low end: parts that are known reach two, and of more the middle
is no norm."""
MOST_NEIGHBOURS = 101
"""By load: a median of a hundred is sharp, and thousands would take long."""

Floats = NDArray[np.float64]


class Paces(NamedTuple):
    """Those of a group that can be compared: their places in it, and what share of its peers' speed each has."""

    places: list[int]
    speeds: Floats
    reached: Floats
    noise: float

    @property
    def slower(self) -> list[int]:
        """Numbers among `places` of those that are slower than their peers by more than noise, the slowest first."""
        found = np.flatnonzero(self.reached < 1.0 - self.noise)
        return [int(n) for n in found[np.argsort(self.reached[found], kind="stable")]]

    @property
    def usual(self) -> list[int]:
        """Numbers among `places` of those that are as fast as the others."""
        return [int(n) for n in np.flatnonzero(self.reached >= 1.0 - self.noise)]


def is_comparable(one: Instance, window_s: float) -> bool:
    """Whether its speed is known of enough tokens."""
    tokens = (one.tokens_per_s or 0.0) * window_s
    return bool(one.measured.get(DECODE)) and one.running is not None and tokens >= LEAST_TOKENS


def paces(group: list[Instance], window_s: float) -> Paces | None:
    """How the comparable ones of a group stand to one another; None where they are too few."""
    places = [n for n, one in enumerate(group) if is_comparable(one, window_s)]
    predicted = [n for n in places if _expected(group[n])]
    by_physics = 2 * len(predicted) >= len(places)
    places = predicted if by_physics else places
    if len(places) <= LEAST_PEERS:
        return None
    speeds = np.array([group[n].measured[DECODE] for n in places])
    loads = np.array([max(1.0, group[n].at_once or group[n].running or 0.0) for n in places])
    norms = np.array([_expected(group[n]) or 1.0 for n in places]) if by_physics else np.ones(len(places))
    normal = np.array([group[n].verdict == "normal" for n in places])
    healthy = normal if int(normal.sum()) >= LEAST_PEERS else np.ones(len(places), dtype=np.bool_)
    values = speeds / norms
    reached = values / _usual(values, loads, healthy, by_physics=by_physics)
    known = np.flatnonzero(np.isfinite(reached))
    if len(known) <= LEAST_PEERS:
        return None
    told = healthy[known] if healthy[known].any() else np.ones(len(known), dtype=np.bool_)
    return Paces([places[n] for n in known], speeds[known], reached[known], _noise(reached[known][told]))


def _expected(one: Instance) -> float | None:
    """What it could give to one request at its load, cured: what is wrong with an instance must not excuse it.

    None where that is left open by a factor: prompts take nearly all its time, say.
    """
    best = one.expected.achievable.get(DECODE) or one.expected.as_configured.get(DECODE)
    return best.mid if best and best.mid > 0 and best.mid <= OPEN * best.low else None


def _usual(values: Floats, loads: Floats, healthy: NDArray[np.bool_], *, by_physics: bool) -> Floats:
    """For each, the median of the healthy ones with about its load.

    Of too few it is that of all healthy ones, or none where no prediction has the load in it.
    """
    order = np.argsort(loads[healthy], kind="stable")
    of_loads, of_values = loads[healthy][order], values[healthy][order]
    factor = SAME_LOAD_PREDICTED if by_physics else SAME_LOAD
    first = np.searchsorted(of_loads, loads / factor, side="left")
    last = np.searchsorted(of_loads, loads * factor, side="right")
    middle = np.searchsorted(of_loads, loads)
    first = np.maximum(first, np.minimum(middle - MOST_NEIGHBOURS // 2, last - MOST_NEIGHBOURS))
    last = np.minimum(last, first + MOST_NEIGHBOURS)
    enough = last - first >= LEAST_PEERS + healthy  # itself is no peer
    otherwise = float(np.median(of_values)) if by_physics else float("nan")
    return np.array([
        float(np.median(of_values[a:b])) if told else otherwise
        for a, b, told in zip(first, last, enough, strict=True)
    ])  # fmt: skip


def _noise(reached: Floats) -> float:
    """What may differ by chance in this group, at least `NOISE`, and more in a small one."""
    spread = float(np.median(np.abs(reached - np.median(reached)))) * _OF_MEDIAN
    return min(1.0, max(NOISE * (1.0 + FEW / len(reached)), DEVIATIONS * spread))
