"""Where a process's memory lies: /proc/PID/numa_maps has, for each mapping, its pages on every memory node."""

import re

from unslow.facts.units import KIB
from unslow.look.kernel.cpu_lists import parse_cpu_list
from unslow.look.system import LookError, System
from unslow.look.system.door import read_text

NODES = "/sys/devices/system/node"
LIMIT_BYTES = 8 * 1024**2
"""A line for each mapping: a runtime with all its libraries has a few hundred, seldom some thousand."""
MOST_NODES = 64
_PAGES = re.compile(r" N(\d{1,4})=(\d{1,12})\b")
_PAGE_KIB = re.compile(r" kernelpagesize_kB=(\d{1,8})\b")


def read_nodes(system: System) -> list[int]:
    """The memory nodes that have processors too; LookError where the kernel names none."""
    both = [parse_cpu_list(read_text(system, f"{NODES}/{name}")) for name in ("has_cpu", "has_memory")]
    return sorted(both[0] & both[1])[:MOST_NODES]


def read_bytes_by_node(system: System, pid: int) -> dict[str, int]:
    """The bytes that a process has in memory on each node, files that it maps among them."""
    return parse_bytes_by_node(read_text(system, f"/proc/{pid}/numa_maps", LIMIT_BYTES))


def parse_bytes_by_node(text: str) -> dict[str, int]:
    """The sum over all mappings, by the number of the node; huge pages count as large as they are."""
    held: dict[str, int] = {}
    for line in text.splitlines():
        if size := _PAGE_KIB.search(line):
            for node, pages in _PAGES.findall(line):
                held[node] = held.get(node, 0) + int(pages) * int(size[1]) * KIB
    if not held:
        raise LookError("numa_maps tells of no page")
    return held
