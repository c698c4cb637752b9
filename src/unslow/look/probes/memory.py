"""System memory: /proc/meminfo (or `free`), the NUMA nodes under /sys, and what was swapped from /proc/vmstat."""

import mmap
from contextlib import suppress

from unslow.facts.machine import Machine, Memory
from unslow.facts.merge import bound_facts, overlaid
from unslow.facts.values import KIB, Bytes, Fact, estimated_fact, not_found, reported_fact
from unslow.look.kernel import parse_numbers
from unslow.look.kernel.processes import NUMA_NODES, read_nodes
from unslow.look.logs import linux
from unslow.look.system import LookError, System, read_text, try_fact, unknown

MEMINFO = "/proc/meminfo"
VMSTAT = "/proc/vmstat"


def read(system: System) -> Machine:
    """Total, available and swap memory, the NUMA nodes, and what was swapped since the machine started."""
    # Nodes with both processors and memory: a GPU's memory can be a node of its own, and so can a CXL card's
    missing = not_found(f"{NUMA_NODES} names no node with memory and processors")
    sizes = read_sizes(system)
    count = try_fact(lambda: reported_fact(len(nodes), NUMA_NODES) if (nodes := read_nodes(system)) else missing)
    return Machine(memory=overlaid(overlaid(sizes, Memory(numa_nodes=count)), _read_swapped(system)))


def read_sizes(system: System) -> Memory:
    """Total, available and swap memory; `free` tells where the kernel's file cannot be read."""
    try:
        sizes = parse_meminfo(read_text(system, MEMINFO))
    except LookError as error:
        why = unknown(error)
        sizes = Memory(total_bytes=why, available_bytes=why, swap_total_bytes=why, swap_used_bytes=why)
        with suppress(LookError):
            sizes = linux.parse_free(system.run(["free", "-b"]).stdout, "free -b", unit_bytes=1)
    return sizes


def parse_meminfo(text: str) -> Memory:
    """The sizes, which the kernel writes in KiB and calls kB."""
    kib = parse_numbers(text)
    sizes: dict[str, Fact[Bytes]] = {
        name: reported_fact(kib[name] * KIB, MEMINFO) if name in kib else not_found(f"{MEMINFO} has no {name}")
        for name in ("MemTotal", "MemAvailable", "SwapTotal")
    }
    available = sizes["MemAvailable"]
    if "MemAvailable" not in kib and "MemFree" in kib:  # kernels before 3.14 and some containers' stand-ins
        guess = kib["MemFree"] + kib.get("Buffers", 0) + kib.get("Cached", 0)
        available = estimated_fact(guess * KIB, f"{MEMINFO}: MemFree + Buffers + Cached")
    swap_used: Fact[Bytes] = not_found(f"{MEMINFO} has no SwapTotal or SwapFree")
    if {"SwapTotal", "SwapFree"} <= kib.keys():
        used = max(0, kib["SwapTotal"] - kib["SwapFree"])
        swap_used = reported_fact(used * KIB, f"{MEMINFO}: SwapTotal - SwapFree")
    return Memory(
        total_bytes=sizes["MemTotal"],
        available_bytes=available,
        swap_total_bytes=sizes["SwapTotal"],
        swap_used_bytes=swap_used,
    )


def _read_swapped(system: System) -> Memory:
    """What the kernel counts in pages, as bytes; nothing at all on another system."""
    try:
        pages = parse_numbers(read_text(system, VMSTAT))
        page_bytes = system.ask("page size", lambda: mmap.PAGESIZE)
    except LookError:
        return Memory()
    if not isinstance(page_bytes, int):
        return Memory()
    came, went = (
        reported_fact(pages[name] * page_bytes, f"{VMSTAT}: {name}")
        if name in pages
        else not_found(f"{VMSTAT} has no {name}")
        for name in ("pswpin", "pswpout")
    )
    return bound_facts(Memory(swapped_in_bytes=came, swapped_out_bytes=went))
