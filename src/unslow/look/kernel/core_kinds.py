"""Which processors belong to the slow cores of a hybrid processor."""

from unslow.look.kernel.cpu_lists import parse_cpu_list
from unslow.look.kernel.files import read_number
from unslow.look.system import LookError, System
from unslow.look.system.door import read_text

CPUS = "/sys/devices/system/cpu"
FAST_CORES = "/sys/devices/cpu_core/cpus"  # there only on Intel's hybrid processors
EFFICIENCY_BELOW = 0.75  # of the fastest core's rating; cores of one kind differ by less
MOST_CPUS = 1024


def read_slow_cpus(system: System) -> frozenset[int]:
    """Their numbers; none where all cores are of one kind, or the kernel does not tell them apart."""
    try:
        online = parse_cpu_list(read_text(system, f"{CPUS}/online"))
    except LookError:
        return frozenset()
    try:
        return online - parse_cpu_list(read_text(system, FAST_CORES))
    except LookError:
        return _rated_low(system, sorted(online)[:MOST_CPUS])


def _rated_low(system: System, cpus: list[int]) -> frozenset[int]:
    """Those that the scheduler rates far below the fastest, as on ARM."""
    try:
        rated = {cpu: read_number(system, f"{CPUS}/cpu{cpu}/cpu_capacity") for cpu in cpus}
    except LookError:
        return frozenset()
    most = max(rated.values(), default=0)
    return frozenset(cpu for cpu, capacity in rated.items() if capacity < EFFICIENCY_BELOW * most)
