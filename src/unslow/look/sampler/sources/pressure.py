"""The share of time in which some task waited for a processor, for memory or for a disk: /proc/pressure."""

from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack

from unslow.look.sampler.reading import SELDOM_S, Rate, Reading
from unslow.look.system import Live, LookError

FOLDER = "/proc/pressure"
KINDS = ("cpu", "memory", "io")
_LIMIT_BYTES = 256
_TOTAL = b" total="


class Pressure:
    """One kind: the kernel counts microseconds of waiting, finer than its own averages over ten seconds."""

    def __init__(self, file: Callable[[], bytes]) -> None:
        self._file, self._rate = file, Rate()

    def read(self, now: float) -> Sequence[float]:
        """The share since the last look."""
        return (min(self._rate(parse_some_s(self._file()), now), 1.0),)  # in this order NaN stays NaN


def open_readings(live: Live, _pids: Collection[int], closing: ExitStack) -> list[Reading]:
    """One reading for each kind; LookError where the kernel keeps none."""
    readings = []
    for kind in KINDS:
        file = live.follow(f"{FOLDER}/{kind}", _LIMIT_BYTES)
        closing.callback(file.close)
        parse_some_s(file())
        readings.append(Reading(f"{kind} pressure", (f"{kind}_pressure",), Pressure(file).read, every_s=SELDOM_S))
    return readings


def parse_some_s(text: bytes) -> float:
    """Seconds of the line `some ... total=123`; LookError where there is none."""
    at = text.find(_TOTAL)
    try:
        return int(text[at + len(_TOTAL) : text.index(b"\n", at)]) / 1e6
    except ValueError as error:
        raise LookError(f"{FOLDER}: no total is counted") from error
