"""What healthy peers have in common: the facts in which they agree, and how far off one may be by chance."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unslow.think.fleet.odd_words import SHARES
from unslow.think.fleet.telling import can_be_a_reason, plain_path
from unslow.think.report import Scalar

AGREE = 0.8
"""Of the peers: in what fewer of them agree, another value says nothing."""
NEARLY_NONE = 0.1
"""Of the peers: that many may have the value of the odd one, by the same fault that does not hurt them."""
KNOWN = 0.5
"""Of the peers: of fewer, what the others have is not known."""
FAR = 0.12
"""Of a number: nearer than that is as good as the same."""
DEVIATIONS = 5.0
"""Of the usual spread among the peers: dozens of facts are held against one another, and one is always a little off."""
_OF_MEDIAN = 1.4826
LEAST_PEERS = 4
MOST_PEERS = 256
"""Peers that one is held against: more don't make it sharper."""
_FLOORS = {"_bytes": 256 * 1024**2, "_c": 8.0, "_cpus": 1.0, "_1min": 1.0}
"""By unit, what is too little to slow anything: a quarter of a GiB, what two rooms differ in, a processor."""
_SHARE_FLOOR = 0.10
"""Of what is a share of one."""
_LEAST_COUNT = 0.5
"""Of what is counted in whole numbers: one more is another number."""


class Facts(NamedTuple):
    """The facts of one instance by path without numbers of GPUs, and the path that each has."""

    values: dict[str, Scalar]
    paths: dict[str, str]


def comparable(facts: Mapping[str, Scalar]) -> Facts:
    """Those that can be a reason for being slow."""
    values: dict[str, Scalar] = {}
    paths: dict[str, str] = {}
    for path, value in facts.items():
        plain = plain_path(path)
        if can_be_a_reason(plain):
            values[plain], paths[plain] = value, path
    return Facts(values, paths)


class Usual(NamedTuple):
    """What healthy peers have of one fact."""

    value: Scalar
    share: float
    """Of them that agree."""
    spread: float
    """Of numbers, how far off one may be by chance; 0 of names."""
    low: float
    high: float
    """Between which all but a few of them lie."""
    others: Mapping[Scalar, float]
    """Of names, the share that has each."""


def usual_facts(peers: Sequence[Mapping[str, Scalar]]) -> dict[str, Usual]:
    """By path, what the peers have in common; facts in which they don't agree, or that few tell, are not there."""
    step = max(1, math.ceil(len(peers) / MOST_PEERS))
    chosen = [comparable(facts).values for facts in peers[::step]]
    columns: dict[str, list[Scalar]] = {}
    for facts in chosen:
        for path, value in facts.items():
            columns.setdefault(path, []).append(value)
    enough = max(LEAST_PEERS, KNOWN * len(chosen))
    found = {path: _usual(path, column) for path, column in columns.items() if len(column) >= enough}
    return {path: usual for path, usual in found.items() if usual and usual.share >= AGREE}


def _usual(path: str, column: list[Scalar]) -> Usual | None:
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in column):
        return _usual_number(path, np.array(column, dtype=np.float64))
    if any(isinstance(value, float) for value in column):
        return None  # names and measurements under one path: nothing to compare
    (value, count), *_ = Counter(column).most_common(1)
    shares = {one: n / len(column) for one, n in Counter(column).items()}
    return Usual(value, count / len(column), 0.0, 0.0, 0.0, shares)


def _usual_number(path: str, column: NDArray[np.float64]) -> Usual | None:
    column = column[np.isfinite(column)]
    if len(column) < LEAST_PEERS:
        return None
    middle = float(np.median(column))
    spread = max(DEVIATIONS * _OF_MEDIAN * float(np.median(np.abs(column - middle))), FAR * abs(middle), _floor(path))
    share = float(np.mean(np.abs(column - middle) <= spread))
    low, high = np.quantile(column, [NEARLY_NONE / 2, 1 - NEARLY_NONE / 2])
    return Usual(middle, share, spread, float(low), float(high), {})


def _floor(path: str) -> float:
    last = path.rpartition(".")[2]
    if last == "busy" or last.endswith(SHARES):
        return _SHARE_FLOOR
    return next((floor for unit, floor in _FLOORS.items() if last.endswith(unit)), _LEAST_COUNT)
