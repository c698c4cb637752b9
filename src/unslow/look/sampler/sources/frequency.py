"""The clock of one core, by its driver: cpufreq; reading every core's would wake the idle ones.

Of several kinds of cores, or of those that the runtime is bound to, it is a fast one on which the runtime may run.
"""

from collections.abc import Collection
from contextlib import ExitStack
from math import nan

from unslow.facts.units import MHZ
from unslow.look.kernel.core_kinds import read_slow_cpus
from unslow.look.probes.cgroup import parse_allowed_cpus
from unslow.look.sampler.reading import SELDOM_S, Reading
from unslow.look.system import Live, LookError
from unslow.look.system.door import read_text

CURRENT = "/sys/devices/system/cpu/cpu{}/cpufreq/scaling_cur_freq"
_LIMIT_BYTES = 32
_KHZ = MHZ / 1000
ANY_CORE, OWN_CORE = "cpu_clock_hz", "own_clock_hz"


def open_readings(live: Live, pids: Collection[int], closing: ExitStack) -> list[Reading]:
    """The clock of the core that is likeliest to work; LookError where no driver tells one, as in virtual machines."""
    own = _own_core(live, pids)
    file = live.follow(CURRENT.format(own or 0), _LIMIT_BYTES)
    closing.callback(file.close)
    parse_hz(file())
    column = ANY_CORE if own is None else OWN_CORE
    return [Reading("frequency", (column,), lambda _now: (parse_hz(file()),), every_s=SELDOM_S)]


def _own_core(live: Live, pids: Collection[int]) -> int | None:
    """The first fast core that the runtime may use; None where no process tells."""
    for pid in pids:
        try:
            allowed = parse_allowed_cpus(read_text(live, f"/proc/{pid}/status"))
        except LookError:
            continue
        if allowed:
            return min(allowed - read_slow_cpus(live) or allowed)
    return None


def parse_hz(text: bytes) -> float:
    """A number of kHz; NaN for zero, which a core that sleeps shows."""
    try:
        return int(text) * _KHZ or nan
    except ValueError as error:
        raise LookError("cpufreq holds no number") from error
