"""What macOS's `sysctl` says of the machine: chip, cores, memory, swap, pressure and the GPU's wired limit."""

import re
from typing import Any

from unslow.facts.bounded import bounded
from unslow.facts.machine import Cpu, Machine, Memory, System
from unslow.facts.units import GIB, KIB, MIB
from unslow.facts.values import NOT_LOOKED, Bytes, Fact, estimated, not_found, reported
from unslow.look.logs.amounts import amount
from unslow.look.logs.dialect import Seen, Text
from unslow.look.logs.found_blocks import form, seen_machine
from unslow.look.logs.labelled import Labelled
from unslow.look.logs.numbered import numbered_lines

SOURCE = "sysctl"

_FORMS = (form(r"(?<![\w.])(?:hw|machdep|iogpu|debug|vm|kern)\.\w[\w.]*\s*[:=]\s*\S", r"\w\.\w+\s*[:=]"),)
# The keys that only macOS has; Linux has a sysctl of its own.
KEYS = (
    "hw.model", "hw.memsize", "hw.physicalcpu", "hw.logicalcpu", "hw.perflevel0.physicalcpu",
    "hw.perflevel1.physicalcpu", "machdep.cpu.brand_string", "iogpu.wired_limit_mb", "debug.iogpu.wired_limit",
    "vm.swapusage", "kern.memorystatus_vm_pressure_level", "kern.osproductversion", "kern.osrelease",
)  # fmt: skip
_ROW = re.compile(rf"(?<![\w.])({'|'.join(map(re.escape, KEYS))})\s*[:=]\s*(\S.{{0,300}})")
_SWAP = re.compile(r"total = (\S+)\s+used = (\S+)")
# enum of the kernel's memory pressure, sys/kern_memorystatus.h: normal, warning, critical
_LEVELS = {"1": "normal", "2": "warn", "4": "critical"}
# Below 36 GiB macOS lends the GPU two thirds of its memory, above three quarters: 10.67 of 16, 16 of 24, 21.33 of 32,
# 27 of 36 and 48 of 64 GiB are what llama.cpp logs as recommendedMaxWorkingSetSize; some Macs of 16 GiB lend 11.84.
_LARGE_BYTES = 36 * GIB


def parse_machine(text: str, source: str = SOURCE, first_line: int = 1) -> Machine:
    """All that the lines say; facts stay unlooked-for where they say nothing."""
    rows = Labelled(numbered_lines(text, source, first_line), _ROW)
    machine = Machine(
        system=System(version=rows.word("kern.osproductversion"), kernel=rows.word("kern.osrelease")),
        cpu=Cpu(
            model=rows.word("machdep.cpu.brand_string"),
            physical_cores=rows.amount("hw.physicalcpu", ""),
            logical_cpus=rows.amount("hw.logicalcpu", ""),
            performance_cores=rows.amount("hw.perflevel0.physicalcpu", ""),
            efficiency_cores=rows.amount("hw.perflevel1.physicalcpu", ""),
        ),
        memory=_memory(rows),
    )
    return bounded(machine)


def _memory(rows: Labelled) -> Memory:
    swap, source = rows.rows.get("vm.swapusage", ("", ""))
    sizes = _SWAP.search(swap)
    level, where = rows.rows.get("kern.memorystatus_vm_pressure_level", ("", ""))
    total = rows.amount("hw.memsize", "B")
    return Memory(
        total_bytes=total,
        swap_total_bytes=amount(sizes[1], "M", source) if sizes else NOT_LOOKED,
        swap_used_bytes=amount(sizes[2], "M", source) if sizes else NOT_LOOKED,
        pressure=_pressure(level, where),
        wired_limit_bytes=_wired_limit(rows, total),
    )


def _pressure(level: str, source: str) -> Fact[Any]:
    if not level:
        return NOT_LOOKED
    return reported(_LEVELS[level], source) if level in _LEVELS else not_found(f"{source} has the level {level[:20]}")


def _wired_limit(rows: Labelled, total: Fact[Bytes]) -> Fact[Bytes]:
    """What the GPU may hold; a limit of 0 is macOS's own choice, which is known only roughly."""
    for key, unit in (("iogpu.wired_limit_mb", MIB), ("debug.iogpu.wired_limit", 1)):
        value, source = rows.rows.get(key, ("", ""))
        if re.fullmatch(r"[1-9]\d{0,14}", value):
            return reported(int(value) * unit, source)
        if value == "0":
            return default_wired_limit(total, source)
    return NOT_LOOKED


def default_wired_limit(total: Fact[Bytes], source: str) -> Fact[Bytes]:
    """The limit that macOS sets by itself for this much memory."""
    size = total.value_or(0)
    if size < KIB:
        return not_found(f"{source} leaves it to macOS, and the size of memory is not known", "sysctl hw.memsize")
    share = (3, 4) if size >= _LARGE_BYTES else (2, 3)
    return estimated(size * share[0] // share[1], f"{source}: macOS's default, {share[0]}/{share[1]} of memory")


def parse_text(text: Text) -> Seen:
    """What sysctl says of a Mac in a text."""
    return seen_machine(text, _FORMS, parse_machine)
