"""What other programs may have taken from a benchmark: an error of its level that its own repeats need not show."""

import math
import statistics

from unslow.facts.bench import Bench
from unslow.think.bench.notes import waiting_cpus

OTHERS, NOTICEABLE_CPUS = "others_cpus", 0.3
_OF_THE_DIFFERENCE, _OF_BOTH = 0.5, 0.3
"""Of the time that threads waited, none or all may have been lost: in both runs much the same part of it, as long as
there is little. On a machine where threads wait as long as they run, runs of the same thing differ by a fifth."""
_MOST_LOST = 0.95


def disturbance(before: Bench, after: Bench) -> float:
    """What other programs may add to the difference of two runs, as a standard deviation in logarithms."""
    old, new = lost(before), lost(after)
    return _OF_THE_DIFFERENCE * abs(new - old) + _OF_BOTH * old * new


def lost(bench: Bench) -> float:
    """By how much waiting for processors may have slowed its better half, in logarithms; 0 where nobody looked.

    Threads of an engine wait for each other, so a moment in which one waits for a processor may be lost for all.
    """
    shares = sorted(share for done in bench.passes if done.round > 0 and (share := waiting_cpus(done)) is not None)
    if not shares:
        return 0.0
    better = shares[: math.ceil(len(shares) / 2)]
    return -math.log1p(-min(statistics.fmean(better), _MOST_LOST))


def disturbance_note(before: Bench, after: Bench) -> str:
    """What to know where other programs were much busier in one of the two."""
    old, new = (bench.conditions.get(OTHERS) for bench in (before, after))
    if old is None or new is None or abs(new - old) < NOTICEABLE_CPUS:
        return ""
    return f"other programs used {new:.1f} processors meanwhile, {old:.1f} before: that alone can change the speed"
