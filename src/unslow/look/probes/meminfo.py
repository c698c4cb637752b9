"""System memory: /proc/meminfo, `free` where it can't be read, and the NUMA nodes under /sys."""

from contextlib import suppress

from unslow.facts.machine import Machine, Memory
from unslow.facts.merge import overlaid
from unslow.facts.values import KIB, Bytes, Count, Fact, estimated, not_found, reported
from unslow.look.kernel import parse_numbers
from unslow.look.kernel.processes import NUMA_NODES, read_nodes
from unslow.look.logs import linux
from unslow.look.system import LookError, System, read_text, try_fact, unknown

MEMINFO = "/proc/meminfo"


def read(system: System) -> Machine:
    """Total, available and swap memory, and how many nodes it lies on."""
    try:
        sizes = parse_meminfo(read_text(system, MEMINFO))
    except LookError as error:
        why = unknown(error)
        sizes = Memory(total_bytes=why, available_bytes=why, swap_total_bytes=why, swap_used_bytes=why)
        with suppress(LookError):
            sizes = linux.parse_free(system.run(["free", "-b"]).stdout, "free -b", unit_bytes=1)
    return Machine(memory=overlaid(sizes, Memory(numa_nodes=try_fact(_read_node_count, system))))


def _read_node_count(system: System) -> Fact[Count]:
    """Nodes with both processors and memory: a GPU's memory can be a node of its own, and so can a CXL card's."""
    nodes, missing = read_nodes(system), not_found(f"{NUMA_NODES} names no node with memory and processors")
    return reported(len(nodes), NUMA_NODES) if nodes else missing


def parse_meminfo(text: str) -> Memory:
    """The sizes, which the kernel writes in KiB and calls kB."""
    kib = parse_numbers(text)
    available = _bytes(kib, "MemAvailable")
    if "MemAvailable" not in kib and "MemFree" in kib:  # kernels before 3.14 and some containers' stand-ins
        guess = kib["MemFree"] + kib.get("Buffers", 0) + kib.get("Cached", 0)
        available = estimated(guess * KIB, f"{MEMINFO}: MemFree + Buffers + Cached")
    swap_used: Fact[Bytes] = not_found(f"{MEMINFO} has no SwapTotal or SwapFree")
    if {"SwapTotal", "SwapFree"} <= kib.keys():
        used = max(0, kib["SwapTotal"] - kib["SwapFree"])
        swap_used = reported(used * KIB, f"{MEMINFO}: SwapTotal - SwapFree")
    return Memory(
        total_bytes=_bytes(kib, "MemTotal"),
        available_bytes=available,
        swap_total_bytes=_bytes(kib, "SwapTotal"),
        swap_used_bytes=swap_used,
    )


def _bytes(kib: dict[str, int], name: str) -> Fact[Bytes]:
    return reported(kib[name] * KIB, MEMINFO) if name in kib else not_found(f"{MEMINFO} has no {name}")
