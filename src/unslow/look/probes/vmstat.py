"""What was swapped in and out since the machine started: /proc/vmstat."""

import mmap

from unslow.facts.machine import Machine, Memory
from unslow.facts.merge import bounded
from unslow.facts.values import Bytes, Fact, not_found, reported
from unslow.look.kernel import parse_numbers
from unslow.look.system import LookError, System, read_text

TURN = 1  # see the probes' own page
VMSTAT = "/proc/vmstat"


def read(system: System) -> Machine:
    """The counters of swapped pages as bytes; nothing at all on another system."""
    try:
        text, page_bytes = read_text(system, VMSTAT), system.ask("page size", lambda: mmap.PAGESIZE)
    except LookError:
        return Machine()
    return Machine(memory=parse_swapped(text, page_bytes)) if isinstance(page_bytes, int) else Machine()


def parse_swapped(text: str, page_bytes: int) -> Memory:
    """What the kernel counts in pages."""
    pages = parse_numbers(text)

    def size(name: str) -> Fact[Bytes]:
        missing = not_found(f"{VMSTAT} has no {name}")
        return reported(pages[name] * page_bytes, f"{VMSTAT}: {name}") if name in pages else missing

    return bounded(Memory(swapped_in_bytes=size("pswpin"), swapped_out_bytes=size("pswpout")))
