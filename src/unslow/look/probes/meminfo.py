"""System memory: /proc/meminfo, `free` where it can't be read, and the NUMA nodes under /sys."""

from unslow.facts.machine import Machine, Memory
from unslow.facts.merge import overlaid
from unslow.facts.values import KIB, Bytes, Count, Fact, estimated, not_found, reported
from unslow.look.kernel import parse_numbers
from unslow.look.kernel.processors import parse_cpu_list
from unslow.look.logs import linux
from unslow.look.system import LookError, System, read_text, unknown

MEMINFO = "/proc/meminfo"
NODES = "/sys/devices/system/node"


def read(system: System) -> Machine:
    """Total, available and swap memory, and how many nodes it lies on."""
    return Machine(memory=overlaid(_read_sizes(system), Memory(numa_nodes=_read_numa_nodes(system))))


def _read_sizes(system: System) -> Memory:
    try:
        return parse_meminfo(read_text(system, MEMINFO))
    except LookError as error:
        return _read_free(system, error)


def _read_free(system: System, first: LookError) -> Memory:
    try:
        return linux.parse_free(system.run(["free", "-b"]).stdout, "free -b", unit_bytes=1)
    except LookError:
        why = unknown(first)
        return Memory(total_bytes=why, available_bytes=why, swap_total_bytes=why, swap_used_bytes=why)


def parse_meminfo(text: str) -> Memory:
    """The sizes, which the kernel writes in KiB and calls kB."""
    kib = parse_numbers(text)
    return Memory(
        total_bytes=_bytes(kib, "MemTotal"),
        available_bytes=_available(kib),
        swap_total_bytes=_bytes(kib, "SwapTotal"),
        swap_used_bytes=_swap_used(kib),
    )


def _bytes(kib: dict[str, int], name: str) -> Fact[Bytes]:
    return reported(kib[name] * KIB, MEMINFO) if name in kib else not_found(f"{MEMINFO} has no {name}")


def _available(kib: dict[str, int]) -> Fact[Bytes]:
    """Kernels before 3.14 and some containers' stand-ins leave the estimate to the reader."""
    if "MemAvailable" in kib or "MemFree" not in kib:
        return _bytes(kib, "MemAvailable")
    guess = kib["MemFree"] + kib.get("Buffers", 0) + kib.get("Cached", 0)
    return estimated(guess * KIB, f"{MEMINFO}: MemFree + Buffers + Cached")


def _swap_used(kib: dict[str, int]) -> Fact[Bytes]:
    if not {"SwapTotal", "SwapFree"} <= kib.keys():
        return not_found(f"{MEMINFO} has no SwapTotal or SwapFree")
    return reported(max(0, kib["SwapTotal"] - kib["SwapFree"]) * KIB, f"{MEMINFO}: SwapTotal - SwapFree")


def _read_numa_nodes(system: System) -> Fact[Count]:
    """Nodes with both processors and memory: a GPU's memory can be a node of its own, and so can a CXL card's."""
    try:
        nodes = parse_cpu_list(read_text(system, f"{NODES}/has_cpu"))
        nodes &= parse_cpu_list(read_text(system, f"{NODES}/has_memory"))
    except LookError as error:
        return unknown(error)
    return reported(len(nodes), NODES) if nodes else not_found(f"{NODES} names no node with memory and processors")
