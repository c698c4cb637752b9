"""What macOS's `system_profiler` says: SPDisplaysDataType (the GPUs) and SPHardwareDataType (the machine)."""

import re
from typing import Any

from unslow.facts.bounded import bounded
from unslow.facts.machine import Cpu, Gpu, Machine, Memory, System
from unslow.facts.values import NOT_LOOKED, Fact, reported
from unslow.look.logs.dialect import Seen, Text
from unslow.look.logs.found_blocks import form, seen_machine
from unslow.look.logs.gpu_builder import MOST_GPUS, gpu_of
from unslow.look.logs.labelled import Labelled
from unslow.look.logs.numbered import Numbered, numbered_lines

SOURCE = "system_profiler"

_FORMS = (form(r"Graphics/Displays:|Hardware Overview:|System Software Overview:|Chipset Model:", r":\s*\S|:\s*$"),)
_PAIR = re.compile(
    r"(?<!\S)(Chipset Model|Total Number of Cores|Vendor|Metal Support|Metal Family|Metal|VRAM \(Total\)|Bus|Chip|"
    r"Processor Name|Memory|System Version|Kernel Version):\s*(\S.{0,200})"
)
_GPU, _HARDWARE = "Chipset Model:", "Hardware Overview"
_CORES = re.compile(r"(\d{1,4})(?: \((\d{1,4}) performance and (\d{1,4}) efficiency\))?")
_VENDORS = (("apple", "Apple"), ("amd", "AMD"), ("ati", "AMD"), ("intel", "Intel"), ("nvidia", "NVIDIA"))
_METAL = re.compile(r"Metal \d")


def parse_machine(text: str, source: str = SOURCE, first_line: int = 1) -> Machine:
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


def parse_gpus(text: str, source: str = SOURCE, first_line: int = 1) -> tuple[Gpu, ...]:
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
    maker = _maker(f"{rows.text('Vendor')} {rows.text('Chipset Model')}")
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


def _maker(text: str) -> str:
    return next((vendor for sign, vendor in _VENDORS if re.search(rf"\b{sign}\b", text, re.IGNORECASE)), "")


def parse_text(text: Text) -> Seen:
    """The machine and its GPUs, as system_profiler shows them in a text."""
    return seen_machine(text, _FORMS, parse_machine)
