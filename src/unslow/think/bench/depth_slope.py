"""What a straight line over the depth means: the honest price of a longer cache, no price, or one that is too high."""

from collections.abc import Sequence

from unslow.facts.units import GB
from unslow.think.bench.depth_expectation import Expectation
from unslow.think.bench.depth_fit import Line, Point

STEEP = 4.0
"""Times the expected slope; a GPU without flash attention, or a CPU that computes it slowly, stays below it."""
PERHAPS_FLAT = 0.15
"""Growth over all depths that may hide in the noise of a flat line."""
_MS_PER_1000 = 1e6


def is_steep(line: Line, expected: Expectation) -> bool:
    """Whether the line is surely many times steeper than reading keys and values where they belong."""
    return expected.slope_s > 0 and line.slope_s - 2 * line.slope_error_s > STEEP * expected.slope_s


def flat_words(growth: float, points: Sequence[Point], expected: Expectation) -> str:
    """That depth costs nothing, and what it would have cost."""
    first, deepest = points[0], points[-1]
    why = f"a token takes as long at depth {deepest.depth:.0f} as at {first.depth:.0f} ({growth:+.1%})"
    awaited = expected.slope_s * (deepest.depth - first.depth) / first.seconds
    if awaited <= PERHAPS_FLAT:
        return why
    return f"{why}, where reading all keys and values would add {awaited:.0%}: does the model look back only so far?"


def slope_words(line: Line, growth: float, reach: float, expected: Expectation) -> str:
    """The honest slope in numbers."""
    why = f"{_each(line)}, {growth:.0%} over {reach:.0f}: a straight line"
    if not expected.slope_s:
        return f"{why}, as reading keys and values makes; how steep it should be is not known"
    return f"{why}, {line.slope_s / expected.slope_s:.1f} times what physics expects of reading keys and values"


def steep_words(line: Line, expected: Expectation) -> str:
    """Where the cache must be, by the speed at which it is read."""
    times = line.slope_s / expected.slope_s
    why = f"{_each(line)}, a straight line but {times:.0f} times as steep as reading keys and values"
    if not expected.on_gpu:
        return f"{why} from RAM: attention is computed slowly, or with too few threads"
    if not expected.kv_bytes:
        return f"{why} on the GPU: the cache is elsewhere, or attention is computed elsewhere"
    rate, host = expected.kv_bytes / line.slope_s, expected.host_bytes_per_s
    why += f" on the GPU, as if they came at {rate / GB:.1f} GB/s"
    if host and rate < STEEP * host:
        return f"{why}; the CPU reads RAM at about {host / GB:.0f} GB/s: the cache is in the host's memory"
    return f"{why}, more than RAM gives: attention on the GPU is slow (is flash attention off?)"


def _each(line: Line) -> str:
    return f"each 1000 tokens of depth add {line.slope_s * _MS_PER_1000:.3g} ms to a token"
