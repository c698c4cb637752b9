"""The boxed table of plain `amd-smi` (two lines for each GPU, then processes) and the rows of `amd-smi monitor`."""

import re
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

from unslow.facts.machine import Gpu, GpuProcess
from unslow.facts.values import NOT_LOOKED, Fact, not_found, reported
from unslow.look.logs.amounts import amount, word
from unslow.look.logs.gpu_builder import MOST_GPUS, gpu_of
from unslow.look.logs.numbered import Numbered, numbered_lines
from unslow.look.logs.nvidia_gpu import gpu_process
from unslow.look.logs.rocm_keys import with_free

SOURCE = "amd-smi"
_DRIVER = re.compile(r"AMD-SMI .{0,40}amdgpu version: (\d\S{0,40})")
_FIRST = re.compile(r"\|\s*([0-9a-fA-F]{4}:[0-9a-fA-F:]{5}\.\d)\s+([^|]*\S)\s*\|\s*([^|\s]+)(?: %)?\s+([^|]*\S)\s*\|")
_SECOND = re.compile(r"\|\s*(\d{1,3})\s+\S+\s+\S+\s+\S+\s*\|\s*(\S+)(?: %)?\s.*?(\S+)/\s*(\S+) MB\s*\|")
_READINGS = re.compile(r"(N/A|-?\d+)(?: °?C)?\s+\S+\s+(N/A|\d+)/\s*(N/A|\d+) W$")
_PROCESS = re.compile(r"\|\s*(\d{1,3})\s+(\d{1,10})\s+(\S.*?)\s{2,}(\d\S* \S+)\s+(\d\S* \S+)\s+(\d\S* \S+)\s")
_WIDEST = 400  # characters of a line; what is longer is no table of these
_MONITOR = re.compile(r"(?<!\S)GPU\s+XCP\s+POWER\b")
_ROW = re.compile(r"N/A|-?\d+(?:\.\d+)?(?:/\s*\d+(?:\.\d+)?)?(?: (?:°?C|W|MHz|%|[KMG]B))?")
_COLUMNS = {
    "POWER": ("power_w", "W"),
    "PWR_CAP": ("power_limit_w", "W"),
    "GPU_T": ("temperature_c", "C"),
    "MEM_T": ("memory_temperature_c", "C"),
    "GFX_CLK": ("clock_hz", "MHz"),
    "MEM_CLOCK": ("memory_clock_hz", "MHz"),
    "GFX%": ("busy", "%"),
    "MEM%": ("memory_busy", "%"),
}


def parse_table(text: str, source: str = SOURCE, first_line: int = 1) -> tuple[Gpu, ...]:
    """The GPUs of the boxed table; none where the text is something else."""
    lines = [line for line in numbered_lines(text, source, first_line) if len(line.text) <= _WIDEST]
    driver = next((reported(m[1], line.source) for line in lines if (m := _DRIVER.search(line.text))), NOT_LOOKED)
    gpus = [
        gpu_of(index, "AMD", line.source, {**facts, "driver": driver, "processes": _processes(lines, index)})
        for index, line, facts in _pairs(lines)
    ]
    return tuple(gpus[:MOST_GPUS])


def _pairs(lines: list[Numbered]) -> Iterator[tuple[int, Numbered, dict[str, Fact[Any]]]]:
    for line, below in pairwise(lines):
        first, second = _FIRST.search(line.text), _SECOND.search(below.text)
        if first and second:
            facts: dict[str, Fact[Any]] = {
                "bus_id": reported(first[1].lower(), line.source),
                "name": _name(first[2], line.source),
                "memory_busy": amount(first[3], "%", line.source),
                "busy": amount(second[2], "%", below.source),
                "vram_used_bytes": amount(second[3], "MB", below.source),
                "vram_total_bytes": amount(second[4], "MB", below.source),
            }
            yield int(second[1]), line, with_free(facts) | _readings(first[4], line.source)


def _name(text: str, source: str) -> Fact[Any]:
    return not_found(f"{source} has only the number {text}") if text.startswith("0x") else word(text, source)


def _readings(text: str, source: str) -> dict[str, Fact[Any]]:
    match = _READINGS.search(text)
    if not match:
        return {}
    limit = match[3] if match[3] != "0" else "N/A"  # where nobody can tell, it prints a limit of nothing
    return {
        "temperature_c": amount(match[1], "C", source),
        "power_w": amount(match[2], "W", source),
        "power_limit_w": amount(limit, "W", source),
    }


def _processes(lines: list[Numbered], index: int) -> Fact[Any]:
    start = next((n for n, line in enumerate(lines) if "VRAM_MEM" in line.text and "GTT_MEM" in line.text), None)
    if start is None:
        return NOT_LOOKED
    found = ((line, m) for line in lines[start + 1 :] if (m := _PROCESS.search(line.text)))
    return reported([_process(line, m) for line, m in found if int(m[1]) == index], lines[start].source)


def _process(line: Numbered, match: re.Match[str]) -> GpuProcess:
    name, vram = reported(match[3], line.source), amount(match[5], "MB", line.source)
    return gpu_process(int(match[2]), name, vram)


def parse_monitor(text: str, source: str = SOURCE, first_line: int = 1) -> tuple[Gpu, ...]:
    """Each GPU as its last row under the names of `amd-smi monitor` says."""
    names: list[str] = []
    gpus: dict[int, Gpu] = {}
    for line in numbered_lines(text, source, first_line):
        if header := _MONITOR.search(line.text):
            names = line.text[header.start() :].split()
            continue
        cells = _ROW.findall(line.text) if names else []
        if len(cells) >= len(names) > 0 and cells[-len(names)].isdigit():
            row = dict(zip(names, cells[-len(names) :], strict=True))
            gpus[int(row["GPU"])] = gpu_of(int(row["GPU"]), "AMD", line.source, _row_facts(row, line.source))
    return tuple(gpus[index] for index in sorted(gpus)[:MOST_GPUS])


def _row_facts(row: dict[str, str], source: str) -> dict[str, Fact[Any]]:
    facts = {fact: amount(row[name], unit, source) for name, (fact, unit) in _COLUMNS.items() if name in row}
    for column, kind in (("VRAM_USAGE", "vram"), ("GTT_USAGE", "gtt")):
        used, slash, total = row.get(column, "").partition("/")
        if slash:
            unit = total.split()[-1]
            facts[f"{kind}_used_bytes"] = amount(f"{used} {unit}", "GB", source)
            facts[f"{kind}_total_bytes"] = amount(total, "GB", source)
    return facts
