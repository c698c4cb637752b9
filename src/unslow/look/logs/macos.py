"""What macOS's `sysctl`, `vm_stat`, `system_profiler`, `ioreg` and `powermetrics` say of a Mac."""

import re
from collections.abc import Callable
from typing import Any

from unslow.facts.machine import Cpu, Gpu, Machine, Memory, System
from unslow.facts.merge import bounded
from unslow.facts.values import GIB, KIB, MHZ, MIB, NOT_LOOKED, Bytes, Fact, estimated, not_found, reported
from unslow.look.logs.dialect import Seen, Text, TextDialect
from unslow.look.logs.gpu_facts import MOST_GPUS, gpu_of
from unslow.look.logs.text_blocks import (
    Labelled,
    Numbered,
    block_form,
    numbered_lines,
    parse_amount,
    seen_gpus,
    seen_machine,
)

IOREG_SOURCE = "ioreg"

_FORMS = (block_form(r"\"Device Utilization %\"|\bIOAccelerator\b|\"gpu-core-count\"", r"\"|[{}]"),)
_PERCENT = 100
_FACTS: dict[str, tuple[re.Pattern[str], Callable[[str], Any]]] = {
    "busy": (re.compile(r"\"Device Utilization %\"\s?=\s?(\d{1,3})\b"), lambda digits: int(digits) / _PERCENT),
    "vram_used_bytes": (re.compile(r"\"In use system memory\"\s?=\s?(\d{1,15})\b"), int),
    "cores": (re.compile(r"\"gpu-core-count\"\s?=\s?(\d{1,4})\b"), int),
    "name": (re.compile(r"\"model\"\s?=\s?<?\"(Apple [^\"]{1,60})\""), str),
}


def parse_ioreg(text: str, source: str = IOREG_SOURCE, first_line: int = 1) -> tuple[Gpu, ...]:
    """The Apple GPU that the text tells of; none where it is something else."""
    facts: dict[str, Fact[Any]] = {}
    place = ""
    for line in numbered_lines(text, source, first_line):
        for name, (pattern, convert) in _FACTS.items():
            if match := pattern.search(line.text):
                facts[name] = reported(convert(match[1]), line.source)
                place = place or line.source
    return (gpu_of(0, "Apple", place, {**facts, "kind": reported("integrated", place)}),) if facts else ()


def parse_ioreg_text(text: Text) -> Seen:
    """The GPU of a Mac, as ioreg shows it in a text."""
    return seen_gpus(text, _FORMS, parse_ioreg)


POWERMETRICS_SOURCE = "powermetrics"

_POWERMETRICS_FORMS = (
    block_form(
        r"GPU (?:HW )?active (?:frequency|residency):|GPU Power: \d|Current pressure level:", r":\s+\S|\*{3}|^\W*$"
    ),
)
_ROW = re.compile(
    r"(GPU active frequency|GPU active residency|GPU HW active frequency|GPU HW active residency|GPU idle residency|"
    r"GPU Power|Current pressure level|CPU die temperature|GPU die temperature):\s*(\S.*)"
)
_STEPS = re.compile(r"(\d{2,5}) MHz:")
_SHARE = re.compile(r"(\d{0,3}(?:\.\d{1,4})?)\s*%")


def parse_powermetrics(text: str, source: str = POWERMETRICS_SOURCE, first_line: int = 1) -> Machine:
    """The last sample in the text; facts stay unlooked-for where it is something else."""
    rows = Labelled(numbered_lines(text, source, first_line), _ROW)
    gpus = _gpus(rows)
    machine = Machine(
        cpu=Cpu(
            thermal_pressure=rows.word("Current pressure level"), temperature_c=rows.amount("CPU die temperature", "C")
        ),
        gpus=reported(gpus, source) if gpus else NOT_LOOKED,
    )
    return bounded(machine)


def _gpus(rows: Labelled) -> tuple[Gpu, ...]:
    """The GPU of an Apple chip; none where the sample does not speak of it."""
    # The residency lists every step that the clock can take
    labels = ("GPU HW active residency", "GPU active residency")
    steps = [int(mhz) for mhz in _STEPS.findall(rows.text(*labels))]
    highest_step = reported(max(steps) * MHZ, rows.source(*labels)) if steps else NOT_LOOKED
    facts: dict[str, Fact[Any]] = {
        "clock_hz": _either(rows, "frequency", "MHz"),
        "clock_max_hz": highest_step,
        "busy": _busy(rows),
        "power_w": rows.amount("GPU Power", "mW"),
        "temperature_c": rows.amount("GPU die temperature", "C"),
    }
    if all(fact == NOT_LOOKED for fact in facts.values()):
        return ()
    source = next(source for label, (_, source) in rows.rows.items() if label.startswith("GPU"))
    return (gpu_of(0, "Apple", source, {**facts, "kind": reported("integrated", source)}),)


def _either(rows: Labelled, what: str, unit: str) -> Fact[Any]:
    """MacOS 13 added the HW to the label."""
    old, new = f"GPU active {what}", f"GPU HW active {what}"
    return rows.amount(new if new in rows.rows else old, unit)


def _busy(rows: Labelled) -> Fact[Any]:
    idle = _SHARE.match(rows.text("GPU idle residency"))
    if idle and idle[1]:
        return reported(round(max(0.0, 1 - float(idle[1]) / _PERCENT), 6), rows.source("GPU idle residency"))
    return _either(rows, "residency", "%")


def parse_powermetrics_text(text: Text) -> Seen:
    """The last sample of powermetrics in a text."""
    return seen_machine(text, _POWERMETRICS_FORMS, parse_powermetrics)


SYSCTL_SOURCE = "sysctl"

_SYSCTL_FORMS = (block_form(r"(?<![\w.])(?:hw|machdep|iogpu|debug|vm|kern)\.\w[\w.]*\s*[:=]\s*\S", r"\w\.\w+\s*[:=]"),)
# The keys that only macOS has; Linux has a sysctl of its own.
SYSCTL_KEYS = (
    "hw.model", "hw.memsize", "hw.physicalcpu", "hw.logicalcpu", "hw.perflevel0.physicalcpu",
    "hw.perflevel1.physicalcpu", "machdep.cpu.brand_string", "iogpu.wired_limit_mb", "debug.iogpu.wired_limit",
    "vm.swapusage", "kern.memorystatus_vm_pressure_level", "kern.osproductversion", "kern.osrelease",
)  # fmt: skip
_SYSCTL_ROW = re.compile(rf"(?<![\w.])({'|'.join(map(re.escape, SYSCTL_KEYS))})\s*[:=]\s*(\S.{{0,300}})")
_SWAP = re.compile(r"total = (\S+)\s+used = (\S+)")
# enum of the kernel's memory pressure, sys/kern_memorystatus.h: normal, warning, critical
_LEVELS = {"1": "normal", "2": "warn", "4": "critical"}
# Below 36 GiB macOS lends the GPU two thirds of its memory, above three quarters: 10.67 of 16, 16 of 24, 21.33 of 32,
# 27 of 36 and 48 of 64 GiB are what llama.cpp logs as recommendedMaxWorkingSetSize; some Macs of 16 GiB lend 11.84.
_LARGE_BYTES = 36 * GIB


def parse_sysctl(text: str, source: str = SYSCTL_SOURCE, first_line: int = 1) -> Machine:
    """All that the lines say; facts stay unlooked-for where they say nothing."""
    rows = Labelled(numbered_lines(text, source, first_line), _SYSCTL_ROW)
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
        swap_total_bytes=parse_amount(sizes[1], "M", source) if sizes else NOT_LOOKED,
        swap_used_bytes=parse_amount(sizes[2], "M", source) if sizes else NOT_LOOKED,
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


def parse_sysctl_text(text: Text) -> Seen:
    """What sysctl says of a Mac in a text."""
    return seen_machine(text, _SYSCTL_FORMS, parse_sysctl)


SYSTEM_PROFILER_SOURCE = "system_profiler"

_SYSTEM_PROFILER_FORMS = (
    block_form(r"Graphics/Displays:|Hardware Overview:|System Software Overview:|Chipset Model:", r":\s*\S|:\s*$"),
)
_PAIR = re.compile(
    r"(?<!\S)(Chipset Model|Total Number of Cores|Vendor|Metal Support|Metal Family|Metal|VRAM \(Total\)|Bus|Chip|"
    r"Processor Name|Memory|System Version|Kernel Version):\s*(\S.{0,200})"
)
_GPU, _HARDWARE = "Chipset Model:", "Hardware Overview"
_CORES = re.compile(r"(\d{1,4})(?: \((\d{1,4}) performance and (\d{1,4}) efficiency\))?")
_VENDORS = (("apple", "Apple"), ("amd", "AMD"), ("ati", "AMD"), ("intel", "Intel"), ("nvidia", "NVIDIA"))
_METAL = re.compile(r"Metal \d")


def parse_system_profiler(text: str, source: str = SYSTEM_PROFILER_SOURCE, first_line: int = 1) -> Machine:
    """The machine and its GPUs; facts stay unlooked-for where the text is something else."""
    lines = list(numbered_lines(text, source, first_line))
    # Both lists count "Total Number of Cores": those of a GPU are not the processor's.
    blocks, rest = _gpu_blocks(lines)
    gpus = tuple(_gpu(index, block) for index, block in enumerate(blocks))
    rows = Labelled(rest, _PAIR)
    machine = Machine(
        system=System(version=rows.word("System Version"), kernel=rows.word("Kernel Version")),
        cpu=_cpu(rows),
        memory=Memory(total_bytes=rows.amount("Memory", "GB")),
        gpus=reported(gpus, blocks[0][0].source) if gpus else NOT_LOOKED,
    )
    return bounded(machine)


def parse_system_profiler_gpus(text: str, source: str = SYSTEM_PROFILER_SOURCE, first_line: int = 1) -> tuple[Gpu, ...]:
    """The GPUs of SPDisplaysDataType; none where the text is something else."""
    blocks, _ = _gpu_blocks(list(numbered_lines(text, source, first_line)))
    return tuple(_gpu(index, block) for index, block in enumerate(blocks))


def _gpu_blocks(lines: list[Numbered]) -> tuple[list[list[Numbered]], list[Numbered]]:
    """The lines of each GPU, from its chipset to the next one or to the list of the hardware; and all other lines."""
    blocks: list[list[Numbered]] = []
    rest: list[Numbered] = []
    inside = False
    for line in lines:
        if _GPU in line.text:
            blocks.append([])
            inside = True
        elif _HARDWARE in line.text:
            inside = False
        (blocks[-1] if inside else rest).append(line)
    return blocks[:MOST_GPUS], rest


def _cpu(rows: Labelled) -> Cpu:
    model, source = rows.word("Chip", "Processor Name"), rows.source("Total Number of Cores")
    match = _CORES.match(rows.text("Total Number of Cores"))
    if model == NOT_LOOKED or not match:
        return Cpu(model=model)
    all_cores, performance, efficiency = (reported(int(n), source) if n else NOT_LOOKED for n in match.groups())
    return Cpu(model=model, physical_cores=all_cores, performance_cores=performance, efficiency_cores=efficiency)


def _gpu(index: int, lines: list[Numbered]) -> Gpu:
    rows, source = Labelled(lines, _PAIR), lines[0].source
    text = f"{rows.text('Vendor')} {rows.text('Chipset Model')}"
    maker = next((vendor for sign, vendor in _VENDORS if re.search(rf"\b{sign}\b", text, re.IGNORECASE)), "")
    built_in = maker == "Apple" or "built-in" in rows.text("Bus").casefold()
    facts: dict[str, Fact[Any]] = {
        "name": rows.word("Chipset Model"),
        "kind": reported("integrated" if built_in else "discrete", source),
        "cores": rows.amount("Total Number of Cores", ""),
        "vram_total_bytes": rows.amount("VRAM (Total)", "GB"),
    }
    labels = ("Metal Support", "Metal Family", "Metal")
    metal = _METAL.search(rows.text(*labels))
    if metal:
        facts["architecture"] = reported(metal[0], rows.source(*labels))
    return gpu_of(index, maker, source, facts)


def parse_system_profiler_text(text: Text) -> Seen:
    """The machine and its GPUs, as system_profiler shows them in a text."""
    return seen_machine(text, _SYSTEM_PROFILER_FORMS, parse_system_profiler)


VM_STAT_SOURCE = "vm_stat"

_VM_STAT_FORMS = (block_form(r"Mach Virtual Memory Statistics|The system has \d+ \(\d+ pages", r":\s+\d|:\s*$"),)
_PAGE = re.compile(r"page size of (\d{3,6})(?: bytes)?\)")
_VM_STAT_ROW = re.compile(r"(Pages [a-z -]{3,30}|Swapins|Swapouts|Pageins):\s+(\d{1,15})\b")
_TOTAL = re.compile(r"The system has (\d{6,16}) \(\d+ pages")
_COMPRESSOR = ("Pages occupied by compressor", "Pages used by compressor")
_AVAILABLE = ("Pages free", "Pages inactive", "Pages speculative")


def parse_vm_stat(text: str, source: str = VM_STAT_SOURCE, first_line: int = 1) -> Memory:
    """Wired, compressed, available and swapped memory; facts stay unlooked-for where the text is something else."""
    page_bytes = 0
    rows: dict[str, tuple[int, str]] = {}
    total: Fact[Bytes] = NOT_LOOKED
    for line in numbered_lines(text, source, first_line):
        if page := _PAGE.search(line.text):
            page_bytes = int(page[1])
        if whole := _TOTAL.search(line.text):
            total = reported(int(whole[1]), line.source)
        if row := _VM_STAT_ROW.search(line.text):
            rows[row[1]] = (int(row[2]), line.source)
    pages = _Pages(page_bytes, rows if page_bytes else {})
    memory = Memory(
        total_bytes=total,
        available_bytes=pages.available(),
        wired_bytes=pages.fact("Pages wired down"),
        compressed_bytes=pages.fact(*_COMPRESSOR),
        swapped_in_bytes=pages.fact("Swapins"),
        swapped_out_bytes=pages.fact("Swapouts"),
    )
    return bounded(memory)


class _Pages:
    """Counts of pages as bytes."""

    def __init__(self, page_bytes: int, rows: dict[str, tuple[int, str]]) -> None:
        self.page_bytes = page_bytes
        self.rows = rows

    def fact(self, *names: str) -> Fact[Bytes]:
        """The first of these rows that is there."""
        row = next((self.rows[name] for name in names if name in self.rows), None)
        return reported(row[0] * self.page_bytes, row[1]) if row else NOT_LOOKED

    def available(self) -> Fact[Bytes]:
        """What can be had without swapping: free pages, and those that only cache something."""
        rows = [self.rows[name] for name in _AVAILABLE if name in self.rows]
        if len(rows) < len(_AVAILABLE):
            return NOT_LOOKED
        size = sum(count for count, _ in rows) * self.page_bytes
        return estimated(size, f"{rows[0][1]}: pages free + inactive + speculative")


def parse_vm_stat_text(text: Text) -> Seen:
    """The memory of a Mac, as vm_stat or memory_pressure show it in a text."""
    return seen_machine(
        text, _VM_STAT_FORMS, lambda lines, source, first: Machine(memory=parse_vm_stat(lines, source, first))
    )


TEXT_DIALECTS: dict[str, TextDialect] = {
    "ioreg": parse_ioreg_text,
    "powermetrics": parse_powermetrics_text,
    "sysctl": parse_sysctl_text,
    "system_profiler": parse_system_profiler_text,
    "vm_stat": parse_vm_stat_text,
}
