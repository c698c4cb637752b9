"""Readings over the depth as physics makes them, with noise, in rounds up and down as the sweep takes them."""

import random
from collections.abc import Callable

from unslow.think.stats.depth import Expectation, Reading

GPU_SLOPE_S = 0.08e-6
"""131 kB of keys and values of a Llama 3 8B at half of an H200's bandwidth."""
HOST_SLOPE_S = 131072 / 50e9
ON_H200 = Expectation(GPU_SLOPE_S, on_gpu=True, kv_bytes=131072.0, host_bytes_per_s=50e9, vram_bytes=150e9)
ON_CPU = Expectation(4e-6, kv_bytes=23040.0, host_bytes_per_s=7e9)

Seconds = Callable[[float], float]


def on_gpu(depth: float) -> float:
    """An 8B on an H200."""
    return 0.0045 + GPU_SLOPE_S * depth


def kv_on_host(depth: float) -> float:
    """The same with its cache in the host's memory."""
    return 0.0055 + HOST_SLOPE_S * depth


def on_cpu(depth: float) -> float:
    """A small model on two cores."""
    return 0.012 + 5e-6 * depth


def flat(_depth: float) -> float:
    """A model whose cache costs nothing."""
    return 0.0045


def stepping(times: float, beyond: float) -> Seconds:
    """So many times slower beyond a depth."""
    return lambda depth: on_gpu(depth) * (times if depth > beyond else 1.0)


def doubling(count: int, first: int = 512) -> list[int]:
    """So many depths, each twice the one before."""
    return [first * 2**number for number in range(count)]


def series(
    depths: list[int],
    token_s: Seconds,
    noise: float,
    seed: int = 0,
    rounds: int = 2,
    slower: Callable[[float], float] = lambda _share: 1.0,
) -> list[Reading]:
    """Up, down, up ...; `slower` makes everything slower by the share of all readings that is done."""
    dice, found = random.Random(seed), []
    order = [d for number in range(rounds) for d in (depths if number % 2 == 0 else depths[::-1])]
    for number, depth in enumerate(order):
        seconds = token_s(depth) * dice.lognormvariate(0, noise) * slower(number / len(order))
        found.append(Reading(depth, seconds, 10.0 * number))
    return found
