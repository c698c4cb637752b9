"""How the layers, one after the other, are divided among several GPUs."""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate


def split_evenly(sizes: Sequence[int], rooms: Sequence[float]) -> tuple[int, ...] | None:
    """How many of the layers, one after the other, each GPU takes, so that the least that any has left is the most.

    None where they do not fit. The headroom is found by halving: with more of it, never more fits.
    """
    low, high = 0.0, max(rooms, default=0.0)
    best = filled(sizes, rooms)
    if best is None:
        return None
    for _ in range(20):  # to a millionth of a card
        middle = (low + high) / 2
        counts = filled(sizes, [room - middle for room in rooms])
        low, high, best = (middle, high, counts) if counts else (low, middle, best)
    return best


def filled(sizes: Sequence[int], rooms: Sequence[float]) -> tuple[int, ...] | None:
    """Each GPU up to the brim, in their order; None where something is left over."""
    counts = [0] * len(rooms)
    device, left = 0, list(rooms)
    for size in sizes:
        while device < len(rooms) and left[device] < size:
            device += 1
        if device == len(rooms):
            return None
        left[device] -= size
        counts[device] += 1
    return tuple(counts)


def split_by_speed(sizes: Sequence[int], rooms: Sequence[float], speeds: Sequence[float]) -> tuple[int, ...] | None:
    """How many of the layers, one after the other, each GPU takes, so that the slowest have as few as can be.

    None where they do not fit.
    """
    left = list(rooms)
    best = filled(sizes, left)
    for device in sorted(range(len(rooms)), key=lambda device: speeds[device]) if best else ():
        low, high = 0.0, left[device]
        for _ in range(20):  # to a millionth of a card
            left[device] = (low + high) / 2
            counts = filled(sizes, left)
            low, high, best = (low, left[device], counts) if counts else (left[device], high, best)
        left[device] = high
    return best


def split_by_room(sizes: Sequence[int], rooms: Sequence[float]) -> tuple[int, ...]:
    """About how many layers each GPU takes where all fill up alike: for a price, not for a layout."""
    bounds = list(accumulate(max(0.0, room) for room in rooms))
    counts, sum_, whole = [0] * len(rooms), 0.0, sum(sizes)
    for size in sizes:
        at = (sum_ + size / 2) / whole * bounds[-1]
        counts[min(bisect_left(bounds, at), len(rooms) - 1)] += 1
        sum_ += size
    return tuple(counts)
