"""Loading a model from the disk against loading it from memory: is it the disk that one waits for."""

import statistics
from collections.abc import Sequence
from typing import NamedTuple

from unslow.facts.values import GB
from unslow.think.stats.best_value import SweepVerdict

NOTHING_S, NOTHING_SHARE = 0.15, 0.1  # Starts differ by so much anyway
MOST_SHARE = 0.5  # From here on it is the disk that one waits for most
SLOWLY = 0.6  # Of what the disk gives when a file is read from end to end
COLD_WARM_UP = 1.3
DISTURBED = 0.3  # Of a start spent waiting for a processor: from here on the time says nothing of the disk


class Start(NamedTuple):
    """One start of a server: how long until it answered, and what its first request and a later one took."""

    load_s: float
    read_bytes: float | None = None  # What came from the disk meanwhile; None where that can't be told
    first_s: float | None = None
    later_s: float | None = None
    waited_s: float | None = None
    """For how long its threads, all together, wanted a processor and had none; None where that can't be told."""


def judge_load(
    cold: Start | None, warm: Sequence[Start], file_bytes: float, disk_bytes_per_s: float | None
) -> SweepVerdict:
    """disk_bound, not_disk, same or cannot_tell: where a cold start's time goes; `file_bytes` is the whole model."""
    if cold is None or not warm:
        return SweepVerdict("cannot_tell", "a cold and a warm start are needed")
    if any((start.waited_s or 0.0) > DISTURBED * start.load_s for start in (cold, *warm)):
        return SweepVerdict("cannot_tell", "other programs used the CPU while the model loaded")
    usual = statistics.median(start.load_s for start in warm)
    extra = cold.load_s - usual
    told = f"{cold.load_s:.2g} s cold, {usual:.2g} s with the file in the page cache"
    request = ""
    if cold.first_s is not None and cold.later_s is not None and cold.first_s >= COLD_WARM_UP * cold.later_s:
        request = f"the first request after a cold start takes {cold.first_s:.2g} s, later ones {cold.later_s:.2g} s"
    scatter = max(start.load_s for start in warm) - min(start.load_s for start in warm)
    if extra <= max(NOTHING_S, NOTHING_SHARE * usual, scatter):
        return SweepVerdict("same", "; ".join(filter(None, [f"{told}: no difference beyond noise", request])))
    verdict, where = "not_disk", "most of a cold start is not spent on the disk"
    if extra >= MOST_SHARE * cold.load_s:
        verdict, where = "disk_bound", "most of a cold start is waiting for the disk"
    speed = _speed_words(cold, extra, file_bytes, disk_bytes_per_s)
    return SweepVerdict(verdict, "; ".join(filter(None, [f"{told}: {where}", speed, request])))


def _speed_words(cold: Start, extra_s: float, file_bytes: float, disk_bytes_per_s: float | None) -> str:
    size = cold.read_bytes or file_bytes
    if size <= 0 or extra_s <= 0:
        return ""
    got = size / extra_s
    told = f"{size / GB:.2g} GB read at {got / GB:.2g} GB/s"
    if not disk_bytes_per_s:
        return told
    told += f", the disk reaches {disk_bytes_per_s / GB:.2g} GB/s sequentially"
    return f"{told}: small reads waste it" if got < SLOWLY * disk_bytes_per_s else told
