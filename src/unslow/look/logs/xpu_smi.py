"""What Intel's `xpu-smi` prints: `discovery`, `stats` and `dump`."""

import re
from collections.abc import Iterable
from functools import partial
from typing import Any

from unslow.facts.machine import Gpu
from unslow.facts.values import Fact, reported_fact
from unslow.look.logs.gpu_facts import MOST_GPUS, by_index, gpu_of
from unslow.look.logs.text_blocks import NumberedLine, block_form, listed_fact, numbered_lines, seen_gpus

SOURCE = "xpu-smi"

_CELLS = re.compile(r"\|([^|]{1,60})\|([^|]{0,400})\|")
_PAIR = re.compile(r"([A-Za-z][\w ]{1,40}):\s*(.+)")
_DUMP = re.compile(r"(?<!\S)Timestamp, DeviceId, ")
_CURRENT = re.compile(r"current: (-?\d+(?:\.\d+)?)")
_BUS = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.\d", re.IGNORECASE)
# Names of rows, of pairs and of columns, without their unit in brackets.
_AMOUNTS = {
    "GPU Utilization": ("busy", "%"),
    "GPU Power": ("power_w", "W"),
    "GPU Frequency": ("clock_hz", "MHz"),
    "GPU Core Temperature": ("temperature_c", "C"),
    "GPU Memory Temperature": ("memory_temperature_c", "C"),
    "GPU Memory Used": ("vram_used_bytes", "MiB"),
    "GPU Memory Bandwidth": ("memory_busy", "%"),
    "GPU Memory Bandwidth Utilization": ("memory_busy", "%"),
    "Core Clock Rate": ("clock_max_hz", "MHz"),
    "Memory Physical Size": ("vram_total_bytes", "MiB"),
    "PCIe Generation": ("pcie_generation_max", ""),
    "PCIe Max Link Width": ("pcie_width_max", "x"),
    "Memory Bus Width": ("memory_bus_bits", ""),
}
_WORDS = {"Device Name": "name", "Driver Version": "driver"}


def parse_gpus(text: str, source: str = SOURCE, first_line: int = 1) -> tuple[Gpu, ...]:
    """The GPUs that the text tells of, by index, each with all that any part of it says."""
    lines = list(numbered_lines(text, source, first_line))
    gpus: dict[int, Gpu] = {}  # each as its last row of `dump` says
    names: list[str] = []
    for line in lines:
        if header := _DUMP.search(line.text):
            names = [name.strip() for name in line.text[header.start() :].split(",")]
        elif names and line.text.count(",") == len(names) - 1:
            row = dict(zip(names, (cell.strip() for cell in line.text.split(",")), strict=True))
            device = row.get("DeviceId", "")
            if device.isdecimal() and int(device) < MOST_GPUS:
                facts = {n: f for name, value in row.items() for n, f in _fact(name, value, line.source).items()}
                gpus[int(device)] = gpu_of(int(device), "Intel", line.source, facts)
    return by_index(tuple(gpus[index] for index in sorted(gpus)), _of_boxes(lines))


def _of_boxes(lines: Iterable[NumberedLine]) -> tuple[Gpu, ...]:
    """The GPUs of `discovery`, whose left cell is the number, and of `stats`, which has it in its first row."""
    facts: dict[int, dict[str, Fact[Any]]] = {}
    sources: dict[int, str] = {}
    device: int | None = None
    for line in lines:
        for left, right in ((a.strip(), b.strip()) for a, b in _CELLS.findall(line.text)[:1]):
            number = right if left == "Device ID" else left
            device = int(number) if number.isdecimal() and int(number) < MOST_GPUS else device
            pair = _PAIR.match(right) if left.isdecimal() or not left else None
            found = _fact(pair[1], pair[2], line.source) if pair else _fact(left, right, line.source)
            if device is not None and found:
                facts.setdefault(device, {}).update(found)
                sources.setdefault(device, line.source)
    return tuple(gpu_of(index, "Intel", sources[index], facts[index]) for index in sorted(facts))


def _fact(name: str, value: str, source: str) -> dict[str, Fact[Any]]:
    key = name.partition(" (")[0].strip()
    if key == "PCI BDF Address" and (bus := _BUS.search(value)):
        return {"bus_id": reported_fact(bus[0].lower(), source)}
    current = _CURRENT.search(value) if key in _AMOUNTS else None
    return listed_fact(key, current[1] if current else value, source, _AMOUNTS, _WORDS)


parse_text = partial(
    seen_gpus,
    parse=parse_gpus,
    forms=(block_form(r"\|\s*Device ID\s*\|", r"[|+]"), block_form(r"(?<!\S)Timestamp, DeviceId, ", r"\d,\s")),
)
"""The GPUs of every output of xpu-smi in a text."""
