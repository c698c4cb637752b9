"""Swapping and major faults of the whole machine: /proc/vmstat."""

import mmap
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack

from unslow.look.sampler.reading import SELDOM_S, Rate, Reading
from unslow.look.system import Live, LookError

VMSTAT = "/proc/vmstat"
_LIMIT_BYTES = 32768
_COUNTERS = {"pswpin": mmap.PAGESIZE, "pswpout": mmap.PAGESIZE, "pgmajfault": 1}
_COLUMNS = ("swap_in_bytes_per_s", "swap_out_bytes_per_s", "major_faults_per_s")


class Paging:
    """The three counters as rates."""

    def __init__(self, file: Callable[[], bytes]) -> None:
        self._file = file
        self._rates = [(name, size, Rate()) for name, size in _COUNTERS.items()]

    def read(self, now: float) -> Sequence[float]:
        """Bytes swapped in and out, and faults that waited for a disk, each a second."""
        text = self._file()
        return [rate(parse_counter(text, name) * size, now) for name, size, rate in self._rates]


def open_readings(live: Live, _pids: Collection[int], closing: ExitStack) -> list[Reading]:
    """One reading of all three."""
    file = live.follow(VMSTAT, _LIMIT_BYTES)
    closing.callback(file.close)
    for name in _COUNTERS:
        parse_counter(file(), name)
    return [Reading("paging", _COLUMNS, Paging(file).read, every_s=SELDOM_S)]


def parse_counter(text: bytes, name: str) -> int:
    """The number in the line `name 123`; LookError where there is none."""
    label = f"\n{name} ".encode()
    at = text.find(label)
    end = text.find(b"\n", at + 1)
    try:
        return int(text[at + len(label) : end]) if at >= 0 else _missing(name)
    except ValueError as error:
        raise LookError(f"{VMSTAT}: {name} has no number") from error


def _missing(name: str) -> int:
    raise LookError(f"{VMSTAT} has no {name}")
