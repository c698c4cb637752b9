"""The last level of cache, over all processors: what a measurement of memory must not be answered from."""

import re

from unslow.facts.units import GIB, KIB, MIB
from unslow.look.kernel.cpu_lists import parse_cpu_list
from unslow.look.system import LookError, System
from unslow.look.system.door import read_text

CPUS = "/sys/devices/system/cpu"
_SIZE = re.compile(r"(\d{1,9})([KMG]?)")
_UNITS = {"": 1, "K": KIB, "M": MIB, "G": GIB}


def read_last_level_cache_bytes(system: System) -> int:
    """The sum of the distinct last-level caches; LookError where the kernel does not show them."""
    levels = [name for name in system.list_dir(f"{CPUS}/cpu0/cache") if re.fullmatch(r"index\d", name)]
    if not levels:
        raise LookError(f"{CPUS}/cpu0/cache: shows no cache")
    left, total = set(parse_cpu_list(read_text(system, f"{CPUS}/online"))), 0
    while left:
        cpu = min(left)
        folder = f"{CPUS}/cpu{cpu}/cache/{max(levels)}"
        total += parse_cache_size(read_text(system, f"{folder}/size"))
        left -= parse_cpu_list(read_text(system, f"{folder}/shared_cpu_list")) | {cpu}
    return total


def parse_cache_size(text: str) -> int:
    """A size such as "49152K" in bytes; nothing readable is no cache."""
    match = _SIZE.match(text.strip())
    return int(match[1]) * _UNITS[match[2]] if match else 0
