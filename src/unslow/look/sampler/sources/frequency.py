"""The clock of one core, by its driver: cpufreq; reading every core's would wake the idle ones."""

from collections.abc import Collection
from contextlib import ExitStack
from math import nan

from unslow.facts.units import MHZ
from unslow.look.sampler.reading import SELDOM_S, Reading
from unslow.look.system import Live, LookError

CURRENT = "/sys/devices/system/cpu/cpu{}/cpufreq/scaling_cur_freq"
_LIMIT_BYTES = 32
_KHZ = MHZ / 1000


def open_readings(live: Live, _pids: Collection[int], closing: ExitStack) -> list[Reading]:
    """The first core's clock; LookError where no driver tells one, as in most virtual machines."""
    file = live.follow(CURRENT.format(0), _LIMIT_BYTES)
    closing.callback(file.close)
    parse_hz(file())
    return [Reading("frequency", ("cpu_clock_hz",), lambda _now: (parse_hz(file()),), every_s=SELDOM_S)]


def parse_hz(text: bytes) -> float:
    """A number of kHz; NaN for zero, which a core that sleeps shows."""
    try:
        return int(text) * _KHZ or nan
    except ValueError as error:
        raise LookError("cpufreq holds no number") from error
