"""What macOS's `sysctl`, `vm_stat`, `system_profiler`, `ioreg` and `powermetrics` say of a Mac."""

import re
from collections.abc import Callable
from functools import partial
from typing import Any

from unslow.facts.machine import Cpu, Gpu, Machine, Memory, System
from unslow.facts.merge import bound_facts
from unslow.facts.values import GIB, KIB, MHZ, MIB, NOT_LOOKED, Bytes, Fact, estimated_fact, not_found, reported_fact
from unslow.look.logs.dialect import TextDialect
from unslow.look.logs.gpu_facts import MOST_GPUS, gpu_of
from unslow.look.logs.text_blocks import (
    LabelledValues,
    NumberedLine,
    block_form,
    machine_dialect,
    numbered_lines,
    parse_amount,
    seen_gpus,
)

_PERCENT = 100

# `ioreg`
_FACTS: dict[str, tuple[re.Pattern[str], Callable[[str], Any]]] = {
    "busy": (re.compile(r"\"Device Utilization %\"\s?=\s?(\d{1,3})\b"), lambda digits: int(digits) / _PERCENT),
    "vram_used_bytes": (re.compile(r"\"In use system memory\"\s?=\s?(\d{1,15})\b"), int),
    "cores": (re.compile(r"\"gpu-core-count\"\s?=\s?(\d{1,4})\b"), int),
    "name": (re.compile(r"\"model\"\s?=\s?<?\"(Apple [^\"]{1,60})\""), str),
}

# `powermetrics`
_ROW = re.compile(
    r"(GPU active frequency|GPU active residency|GPU HW active frequency|GPU HW active residency|GPU idle residency|"
    r"GPU Power|Current pressure level|CPU die temperature|GPU die temperature):\s*(\S.*)"
)
_STEPS = re.compile(r"(\d{2,5}) MHz:")
_SHARE = re.compile(r"(\d{0,3}(?:\.\d{1,4})?)\s*%")

# `sysctl`
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

# `system_profiler`
_PAIR = re.compile(
    r"(?<!\S)(Chipset Model|Total Number of Cores|Vendor|Metal Support|Metal Family|Metal|VRAM \(Total\)|Bus|Chip|"
    r"Processor Name|Memory|System Version|Kernel Version):\s*(\S.{0,200})"
)
_GPU, _HARDWARE = "Chipset Model:", "Hardware Overview"
_CORES = re.compile(r"(\d{1,4})(?: \((\d{1,4}) performance and (\d{1,4}) efficiency\))?")
_VENDORS = (("apple", "Apple"), ("amd", "AMD"), ("ati", "AMD"), ("intel", "Intel"), ("nvidia", "NVIDIA"))
_METAL = re.compile(r"Metal \d")

# `vm_stat`
_PAGE = re.compile(r"page size of (\d{3,6})(?: bytes)?\)")
_VM_STAT_ROW = re.compile(r"(Pages [a-z -]{3,30}|Swapins|Swapouts|Pageins):\s+(\d{1,15})\b")
_TOTAL = re.compile(r"The system has (\d{6,16}) \(\d+ pages")


def parse_ioreg(text: str, source: str = "ioreg", first_line: int = 1) -> tuple[Gpu, ...]:
    """The Apple GPU that the text tells of; none where it is something else."""
    facts: dict[str, Fact[Any]] = {}
    place = ""
    for line in numbered_lines(text, source, first_line):
        for name, (pattern, convert) in _FACTS.items():
            if match := pattern.search(line.text):
                facts[name] = reported_fact(convert(match[1]), line.source)
                place = place or line.source
    return (gpu_of(0, "Apple", place, {**facts, "kind": reported_fact("integrated", place)}),) if facts else ()


def parse_powermetrics(text: str, source: str = "powermetrics", first_line: int = 1) -> Machine:
    """The last sample in the text; nothing where it is something else."""
    rows = LabelledValues(numbered_lines(text, source, first_line), _ROW)
    idle = _SHARE.match(rows.text("GPU idle residency"))
    # macOS 13 added the HW to the labels
    busy = rows.amount("GPU HW active residency", "GPU active residency", unit="%")
    if idle and idle[1]:
        busy = reported_fact(round(max(0.0, 1 - float(idle[1]) / _PERCENT), 6), rows.source("GPU idle residency"))
    # The residency lists every step that the clock can take
    labels = ("GPU HW active residency", "GPU active residency")
    steps = [int(mhz) for mhz in _STEPS.findall(rows.text(*labels))]
    facts: dict[str, Fact[Any]] = {
        "clock_hz": rows.amount("GPU HW active frequency", "GPU active frequency", unit="MHz"),
        "clock_max_hz": reported_fact(max(steps) * MHZ, rows.source(*labels)) if steps else NOT_LOOKED,
        "busy": busy,
        "power_w": rows.amount("GPU Power", unit="mW"),
        "temperature_c": rows.amount("GPU die temperature", unit="C"),
    }
    gpus: Fact[tuple[Gpu, ...]] = NOT_LOOKED
    if any(fact != NOT_LOOKED for fact in facts.values()):
        where = next(where for label, (_, where) in rows.rows.items() if label.startswith("GPU"))
        facts["kind"] = reported_fact("integrated", where)
        gpus = reported_fact((gpu_of(0, "Apple", where, facts),), source)
    pressure, warm = rows.word("Current pressure level"), rows.amount("CPU die temperature", unit="C")
    return bound_facts(Machine(cpu=Cpu(thermal_pressure=pressure, temperature_c=warm), gpus=gpus))


def parse_sysctl(text: str, source: str = "sysctl", first_line: int = 1) -> Machine:
    """All that the lines say; nothing where they are something else."""
    rows = LabelledValues(numbered_lines(text, source, first_line), _SYSCTL_ROW)
    swap, swap_source = rows.rows.get("vm.swapusage", ("", ""))
    sizes = _SWAP.search(swap)
    total = rows.amount("hw.memsize", unit="B")
    pressure: Fact[Any] = NOT_LOOKED
    level, where = rows.rows.get("kern.memorystatus_vm_pressure_level", ("", ""))
    if level:
        unknown = not_found(f"{where} has the level {level[:20]}")
        pressure = reported_fact(_LEVELS[level], where) if level in _LEVELS else unknown
    machine = Machine(
        system=System(version=rows.word("kern.osproductversion"), kernel=rows.word("kern.osrelease")),
        cpu=Cpu(
            model=rows.word("machdep.cpu.brand_string"),
            physical_cores=rows.amount("hw.physicalcpu", unit=""),
            logical_cpus=rows.amount("hw.logicalcpu", unit=""),
            performance_cores=rows.amount("hw.perflevel0.physicalcpu", unit=""),
            efficiency_cores=rows.amount("hw.perflevel1.physicalcpu", unit=""),
        ),
        memory=Memory(
            total_bytes=total,
            swap_total_bytes=parse_amount(sizes[1], "M", swap_source) if sizes else NOT_LOOKED,
            swap_used_bytes=parse_amount(sizes[2], "M", swap_source) if sizes else NOT_LOOKED,
            pressure=pressure,
            wired_limit_bytes=_wired_limit(rows, total),
        ),
    )
    return bound_facts(machine)


def _wired_limit(rows: LabelledValues, total: Fact[Bytes]) -> Fact[Bytes]:
    """What the GPU may hold; a limit of 0 is macOS's own choice, which is known only roughly."""
    for key, unit in (("iogpu.wired_limit_mb", MIB), ("debug.iogpu.wired_limit", 1)):
        value, source = rows.rows.get(key, ("", ""))
        if re.fullmatch(r"[1-9]\d{0,14}", value):
            return reported_fact(int(value) * unit, source)
        if value == "0":
            break
    else:
        return NOT_LOOKED
    size = total.value_or(0)
    if size < KIB:
        return not_found(f"{source} leaves it to macOS, and the memory size is unknown", "sysctl hw.memsize")
    share = (3, 4) if size >= _LARGE_BYTES else (2, 3)
    return estimated_fact(size * share[0] // share[1], f"{source}: macOS's default, {share[0]}/{share[1]} of memory")


def parse_system_profiler(text: str, source: str = "system_profiler", first_line: int = 1) -> Machine:
    """The machine and its GPUs; nothing where the text is something else."""
    # The lines of each GPU, from its chipset to the next one or to the list of the hardware, are kept from all others:
    # both lists count "Total Number of Cores", and those of a GPU are not the processor's
    blocks: list[list[NumberedLine]] = []
    rest: list[NumberedLine] = []
    inside = False
    for line in numbered_lines(text, source, first_line):
        if _GPU in line.text:
            blocks.append([])
        inside = _GPU in line.text or (inside and _HARDWARE not in line.text)
        (blocks[-1] if inside else rest).append(line)
    gpus = tuple(_gpu(index, block) for index, block in enumerate(blocks[:MOST_GPUS]))
    rows = LabelledValues(rest, _PAIR)
    cpu = Cpu(model=rows.word("Chip", "Processor Name"))
    cores = _CORES.match(rows.text("Total Number of Cores"))
    if cpu.model != NOT_LOOKED and cores:
        where = rows.source("Total Number of Cores")
        every, performance, efficiency = (reported_fact(int(n), where) if n else NOT_LOOKED for n in cores.groups())
        cpu = Cpu(model=cpu.model, physical_cores=every, performance_cores=performance, efficiency_cores=efficiency)
    machine = Machine(
        system=System(version=rows.word("System Version"), kernel=rows.word("Kernel Version")),
        cpu=cpu,
        memory=Memory(total_bytes=rows.amount("Memory", unit="GB")),
        gpus=reported_fact(gpus, blocks[0][0].source) if gpus else NOT_LOOKED,
    )
    return bound_facts(machine)


def _gpu(index: int, lines: list[NumberedLine]) -> Gpu:
    rows, source = LabelledValues(lines, _PAIR), lines[0].source
    text = f"{rows.text('Vendor')} {rows.text('Chipset Model')}"
    maker = next((vendor for sign, vendor in _VENDORS if re.search(rf"\b{sign}\b", text, re.IGNORECASE)), "")
    built_in = maker == "Apple" or "built-in" in rows.text("Bus").casefold()
    facts: dict[str, Fact[Any]] = {
        "name": rows.word("Chipset Model"),
        "kind": reported_fact("integrated" if built_in else "discrete", source),
        "cores": rows.amount("Total Number of Cores", unit=""),
        "vram_total_bytes": rows.amount("VRAM (Total)", unit="GB"),
    }
    labels = ("Metal Support", "Metal Family", "Metal")
    if metal := _METAL.search(rows.text(*labels)):
        facts["architecture"] = reported_fact(metal[0], rows.source(*labels))
    return gpu_of(index, maker, source, facts)


def parse_vm_stat(text: str, source: str = "vm_stat", first_line: int = 1) -> Memory:
    """Wired, compressed, available and swapped memory; nothing where the text is something else."""
    page_bytes = 0
    counts: dict[str, tuple[int, str]] = {}
    total: Fact[Bytes] = NOT_LOOKED
    for line in numbered_lines(text, source, first_line):
        if page := _PAGE.search(line.text):
            page_bytes = int(page[1])
        if whole := _TOTAL.search(line.text):
            total = reported_fact(int(whole[1]), line.source)
        if row := _VM_STAT_ROW.search(line.text):
            counts[row[1]] = (int(row[2]), line.source)
    pages = {name: reported_fact(count * page_bytes, where) for name, (count, where) in counts.items() if page_bytes}
    # What programs can take without swapping: free pages, and those that only cache something
    unused = [pages[name] for name in ("Pages free", "Pages inactive", "Pages speculative") if name in pages]
    available: Fact[Bytes] = NOT_LOOKED
    if len(unused) == 3:  # noqa: PLR2004 (all of them)
        size = sum(fact.value for fact in unused)
        available = estimated_fact(size, f"{unused[0].source}: pages free + inactive + speculative")
    compressed = pages.get("Pages occupied by compressor", pages.get("Pages used by compressor", NOT_LOOKED))
    memory = Memory(
        total_bytes=total,
        available_bytes=available,
        wired_bytes=pages.get("Pages wired down", NOT_LOOKED),
        compressed_bytes=compressed,
        swapped_in_bytes=pages.get("Swapins", NOT_LOOKED),
        swapped_out_bytes=pages.get("Swapouts", NOT_LOOKED),
    )
    return bound_facts(memory)


TEXT_DIALECTS: dict[str, TextDialect] = {
    "ioreg": partial(
        seen_gpus,
        forms=(block_form(r"\"Device Utilization %\"|\bIOAccelerator\b|\"gpu-core-count\"", r"\"|[{}]"),),
        parse=parse_ioreg,
    ),
    "powermetrics": machine_dialect(
        r"GPU (?:HW )?active (?:frequency|residency):|GPU Power: \d|Current pressure level:",
        r":\s+\S|\*{3}|^\W*$",
        parse_powermetrics,
    ),
    "sysctl": machine_dialect(
        r"(?<![\w.])(?:hw|machdep|iogpu|debug|vm|kern)\.\w[\w.]*\s*[:=]\s*\S", r"\w\.\w+\s*[:=]", parse_sysctl
    ),
    "system_profiler": machine_dialect(
        r"Graphics/Displays:|Hardware Overview:|System Software Overview:|Chipset Model:",
        r":\s*\S|:\s*$",
        parse_system_profiler,
    ),
    "vm_stat": machine_dialect(
        r"Mach Virtual Memory Statistics|The system has \d+ \(\d+ pages",
        r":\s+\d|:\s*$",
        lambda lines, source, first: Machine(memory=parse_vm_stat(lines, source, first)),
    ),
}
