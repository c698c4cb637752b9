"""Anything that amd-smi prints as text, in any mixture: its boxed table, `monitor`, `metric` and `static`."""

import re
from functools import partial
from itertools import pairwise
from typing import Any

from unslow.facts.machine import Gpu, GpuProcess
from unslow.facts.values import NOT_LOOKED, Fact, first_known, not_found, not_supported, reported_fact
from unslow.look.kernel.gpus import GENERATIONS
from unslow.look.logs.gpu_facts import MOST_GPUS, by_index, gpu_of, gpu_process, with_free
from unslow.look.logs.text_blocks import block_form, listed_fact, numbered_lines, parse_amount, parse_word, seen_gpus

SOURCE = "amd-smi"
_WIDEST = 400  # characters of a line; a longer line is not a table row
_DEEPEST = 8

# `monitor`
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

# the boxed table
_DRIVER = re.compile(r"AMD-SMI .{0,40}amdgpu version: (\d\S{0,40})")
_FIRST = re.compile(r"\|\s*([0-9a-fA-F]{4}:[0-9a-fA-F:]{5}\.\d)\s+([^|]*\S)\s*\|\s*([^|\s]+)(?: %)?\s+([^|]*\S)\s*\|")
_SECOND = re.compile(r"\|\s*(\d{1,3})\s+\S+\s+\S+\s+\S+\s*\|\s*(\S+)(?: %)?\s.*?(\S+)/\s*(\S+) MB\s*\|")
_READINGS = re.compile(r"(N/A|-?\d+)(?: °?C)?\s+\S+\s+(N/A|\d+)/\s*(N/A|\d+) W$")
_PROCESS = re.compile(r"\|\s*(\d{1,3})\s+(\d{1,10})\s+(\S.*?)\s{2,}(\d\S* \S+)\s+(\d\S* \S+)\s+(\d\S* \S+)\s")

# `metric` and `static`
_GPU = re.compile(r"(?<!\S)GPU: (\d{1,3})$")
_PAIR = re.compile(r"(?<! )( *)([A-Z][A-Z0-9_]{1,40}):(?: (.{0,400}))?$")
_SPEED = re.compile(r"(\d{1,3}(?:\.\d)?)\s*GT/s")
# The last two names of the path, the unit and the fact; the first that is known counts.
_AMOUNTS = {
    "USAGE GFX_ACTIVITY": ("busy", "%"),
    "USAGE UMC_ACTIVITY": ("memory_busy", "%"),
    "POWER SOCKET_POWER": ("power_w", "W"),
    "PPT0 SOCKET_POWER_LIMIT": ("power_limit_w", "W"),
    "LIMIT SOCKET_POWER": ("power_limit_w", "W"),
    "LIMIT SOCKET_POWER_LIMIT": ("power_limit_w", "W"),
    "GFX_0 CLK": ("clock_hz", "MHz"),
    "GFX_0 MAX_CLK": ("clock_max_hz", "MHz"),
    "MEM_0 CLK": ("memory_clock_hz", "MHz"),
    "MEM_0 MAX_CLK": ("memory_clock_max_hz", "MHz"),
    "TEMPERATURE EDGE": ("temperature_c", "C"),
    "TEMPERATURE HOTSPOT": ("temperature_c", "C"),
    "TEMPERATURE MEM": ("memory_temperature_c", "C"),
    "LIMIT SLOWDOWN_EDGE_TEMPERATURE": ("temperature_slowdown_c", "C"),
    "LIMIT SHUTDOWN_EDGE_TEMPERATURE": ("temperature_shutdown_c", "C"),
    "PCIE WIDTH": ("pcie_width", "x"),
    "BUS MAX_PCIE_WIDTH": ("pcie_width_max", "x"),
    "MEM_USAGE TOTAL_VRAM": ("vram_total_bytes", "MB"),
    "MEM_USAGE USED_VRAM": ("vram_used_bytes", "MB"),
    "MEM_USAGE FREE_VRAM": ("vram_free_bytes", "MB"),
    "MEM_USAGE TOTAL_GTT": ("gtt_total_bytes", "MB"),
    "MEM_USAGE USED_GTT": ("gtt_used_bytes", "MB"),
    "VRAM SIZE": ("vram_total_bytes", "MB"),
    "VRAM BIT_WIDTH": ("memory_bus_bits", ""),
}
_WORDS = {
    "ASIC MARKET_NAME": "name",
    "BOARD PRODUCT_NAME": "name",
    "ASIC TARGET_GRAPHICS_VERSION": "architecture",
    "DRIVER VERSION": "driver",
    "BUS BDF": "bus_id",
}
_SPEEDS = {"PCIE SPEED": "pcie_generation", "BUS MAX_PCIE_SPEED": "pcie_generation_max"}


def parse_gpus(text: str, source: str = SOURCE, first_line: int = 1) -> tuple[Gpu, ...]:
    """The GPUs that the text tells of, by index, each with all that any part of it says."""
    return by_index(*(parse(text, source, first_line) for parse in (parse_monitor, parse_table, parse_tree)))


parse_text = partial(
    seen_gpus,
    parse=parse_gpus,
    forms=(
        block_form(r"AMD-SMI \d|\bBDF\s+GPU-Name", r"[|+]"),
        block_form(r"(?<!\S)GPU\s+XCP\s+POWER\b", r"\d\s+\d{1,9}\s+(?:N/A|\d)"),
        block_form(r"(?<!\S)GPU: \d{1,3}$", r"[A-Z][A-Z0-9_]{1,40}:|N/A"),
    ),
)
"""The GPUs of every output of amd-smi in a text."""


def parse_monitor(text: str, source: str = SOURCE, first_line: int = 1) -> tuple[Gpu, ...]:
    """Each GPU as its last row under the names of `amd-smi monitor` says."""
    names: list[str] = []
    gpus: dict[int, Gpu] = {}
    for line in numbered_lines(text, source, first_line):
        if header := _MONITOR.search(line.text):
            names = line.text[header.start() :].split()
            continue
        cells = _ROW.findall(line.text) if names else []
        if not len(cells) >= len(names) > 0 or not cells[-len(names)].isdigit():
            continue
        row = dict(zip(names, cells[-len(names) :], strict=True))
        facts = {fact: parse_amount(row[n], unit, line.source) for n, (fact, unit) in _COLUMNS.items() if n in row}
        for column, kind in (("VRAM_USAGE", "vram"), ("GTT_USAGE", "gtt")):
            used, slash, total = row.get(column, "").partition("/")
            if slash:
                facts[f"{kind}_used_bytes"] = parse_amount(f"{used} {total.split()[-1]}", "GB", line.source)
                facts[f"{kind}_total_bytes"] = parse_amount(total, "GB", line.source)
        gpus[int(row["GPU"])] = gpu_of(int(row["GPU"]), "AMD", line.source, facts)
    return tuple(gpus[index] for index in sorted(gpus)[:MOST_GPUS])


def parse_table(text: str, source: str = SOURCE, first_line: int = 1) -> tuple[Gpu, ...]:
    """The GPUs of the boxed table; none where the text is something else."""
    lines = [line for line in numbered_lines(text, source, first_line) if len(line.text) <= _WIDEST]
    driver = next((reported_fact(m[1], line.source) for line in lines if (m := _DRIVER.search(line.text))), NOT_LOOKED)
    start = next((n for n, line in enumerate(lines) if "VRAM_MEM" in line.text and "GTT_MEM" in line.text), None)
    processes: dict[int, list[GpuProcess]] = {}
    for line in lines[start + 1 :] if start is not None else ():
        if found := _PROCESS.search(line.text):
            name, size = reported_fact(found[3], line.source), parse_amount(found[5], "MB", line.source)
            processes.setdefault(int(found[1]), []).append(gpu_process(int(found[2]), name, size))
    gpus = []
    for line, below in pairwise(lines):
        first, second = _FIRST.search(line.text), _SECOND.search(below.text)
        if not first or not second:
            continue
        index, number = int(second[1]), first[2].startswith("0x")  # instead of a name
        running = NOT_LOOKED if start is None else reported_fact(processes.get(index, []), lines[start].source)
        facts: dict[str, Fact[Any]] = {
            "driver": driver,
            "bus_id": reported_fact(first[1].lower(), line.source),
            "name": not_found(f"{line.source} has only the number {first[2]}")
            if number
            else parse_word(first[2], line.source),
            "memory_busy": parse_amount(first[3], "%", line.source),
            "busy": parse_amount(second[2], "%", below.source),
            "vram_used_bytes": parse_amount(second[3], "MB", below.source),
            "vram_total_bytes": parse_amount(second[4], "MB", below.source),
            "processes": running,
        }
        if readings := _READINGS.search(first[4]):
            limit = readings[3] if readings[3] != "0" else "N/A"  # where unknown, it prints a limit of 0
            facts["temperature_c"] = parse_amount(readings[1], "C", line.source)
            facts["power_w"] = parse_amount(readings[2], "W", line.source)
            facts["power_limit_w"] = parse_amount(limit, "W", line.source)
        gpus.append(gpu_of(index, "AMD", line.source, with_free(facts)))
    return tuple(gpus[:MOST_GPUS])


def parse_tree(text: str, source: str = SOURCE, first_line: int = 1) -> tuple[Gpu, ...]:
    """The GPUs that the lists speak of; none where the text is something else."""
    facts: dict[int, dict[str, Fact[Any]]] = {}
    sources: dict[int, str] = {}
    gpu: int | None = None
    above: list[tuple[int, str]] = []
    for line in numbered_lines(text, source, first_line):
        if start := _GPU.search(line.text):
            gpu, above = int(start[1]), []
        elif gpu is not None and (pair := _PAIR.search(line.text)):
            depth = pair.start(2)
            above = [(d, name) for d, name in above if d < depth][:_DEEPEST]
            parent = above[-1][1] if above else ""
            above.append((depth, pair[2]))
            if pair[3]:
                sources.setdefault(gpu, line.source)
                for name, fact in _facts(f"{parent} {pair[2]}", pair[3], line.source).items():
                    of = facts.setdefault(gpu, {})
                    of[name] = first_known(of[name], fact) if name in of else fact
    return tuple(gpu_of(index, "AMD", sources[index], facts[index]) for index in sorted(facts)[:MOST_GPUS])


def _facts(path: str, value: str, source: str) -> dict[str, Fact[Any]]:
    if path in _SPEEDS:
        speed = _SPEED.search(value)
        generation = GENERATIONS.get(float(speed[1])) if speed else None
        unknown = not_supported(f'{source} says "{value[:40]}"')
        return {_SPEEDS[path]: unknown if generation is None else reported_fact(generation, source)}
    if path == "POWER THROTTLE_STATUS" and value in ("THROTTLED", "UNTHROTTLED"):
        return {"event_reasons": reported_fact(["throttled"] if value == "THROTTLED" else [], source)}
    return listed_fact(path, value, source, _AMOUNTS, _WORDS)
