"""Rows of samples, column by column; and the same rows, thinned."""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from math import nan

PHASES = {"queue": 1, "load": 2, "prefill": 4, "decode": 8}
"""The bit of each phase in a row; a row with none was idle."""
ALL_PHASES = sum(PHASES.values())


class Block:
    """Some rows in a row. Single precision: 7 digits are more than any sensor has, and half the memory."""

    __slots__ = ("columns", "phases", "seconds")

    def __init__(self, width: int) -> None:
        self.seconds = array("d")
        self.phases = bytearray()
        self.columns = [array("f") for _ in range(width)]

    def __len__(self) -> int:
        """How many rows."""
        return len(self.seconds)

    def add(self, seconds: float, row: Sequence[float], phases: int = 0) -> None:
        """One row more."""
        self.seconds.append(seconds)
        self.phases.append(phases)
        for column, value in zip(self.columns, row, strict=True):
            column.append(value)

    def between(self, start_s: float, end_s: float) -> tuple[int, int]:
        """The rows from the first to the one after the last whose moment lies in there, ends included."""
        return bisect_left(self.seconds, start_s), bisect_right(self.seconds, end_s)

    def thinned(self, by: int, masks: frozenset[int]) -> "Block":
        """One row for each `by`: means, but for columns that are masks; there a bit is set where it ever was."""
        thin = Block(len(self.columns))
        for at in range(0, len(self), by):
            phases = 0
            for phase in self.phases[at : at + by]:
                phases |= phase
            row = [
                (_any_bit if place in masks else _mean)(column[at : at + by])
                for place, column in enumerate(self.columns)
            ]
            thin.add(_mean(self.seconds[at : at + by]), row, phases)
        return thin


def known(values: "array[float]") -> Sequence[float]:
    """The values without those that are missing; the usual case, with none missing, costs one addition each."""
    total = sum(values)
    return values if total == total else [value for value in values if value == value]  # noqa: PLR0124 (NaN is not)


def _mean(values: "array[float]") -> float:
    there = known(values)
    return sum(there) / len(there) if there else nan


def _any_bit(values: "array[float]") -> float:
    bits, there = 0, known(values)
    for value in there:
        bits |= int(value)
    return float(bits) if there else nan
