"""Which values to try next, so that the best one is found in few tries: the speed rises to one top and falls again."""

from collections.abc import Mapping

FINENESS = 8
"""Values nearer to the best than an eighth of it are not told apart by their speed."""


def first_threads(physical: int | None, fast: int | None, most: int, current: int | None) -> list[int]:
    """The counts to begin with: one, half of the cores, all of them, the fast ones, all that may run, what is set."""
    cores = min(physical or most, most)
    wanted = {1, max(1, cores // 2), cores, min(fast or cores, most), most, current or 1}
    return sorted(value for value in wanted if value >= 1)


def closer(speeds: Mapping[int, float]) -> list[int]:
    """The values halfway between the fastest so far and its neighbours; none once they are near enough."""
    tried = sorted(speeds)
    best = max(tried, key=lambda value: speeds[value])
    at, near = tried.index(best), max(1, best // FINENESS)
    between = []
    if at > 0 and best - tried[at - 1] > near:
        between.append((best + tried[at - 1]) // 2)
    if at < len(tried) - 1 and tried[at + 1] - best > near:
        between.append((best + tried[at + 1] + 1) // 2)
    return [value for value in between if value not in speeds]


def gains_no_more(speeds: Mapping[int, float], least: float) -> bool:
    """Whether the two largest values brought less than this over the best of the smaller ones."""
    tried = sorted(speeds)
    before = [speeds[value] for value in tried[:-2]]
    return bool(before) and max(speeds[value] for value in tried[-2:]) < max(before) * (1 + least)
