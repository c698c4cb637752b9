"""`amd-smi metric` and `amd-smi static`: indented `KEY: value` under `GPU: 0`."""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from unslow.facts.machine import Gpu
from unslow.facts.values import Fact, first_known, not_supported, reported
from unslow.look.kernel.pcie_link import GENERATIONS
from unslow.look.logs.amounts import amount, word
from unslow.look.logs.gpu_builder import MOST_GPUS, gpu_of
from unslow.look.logs.numbered import numbered_lines

SOURCE = "amd-smi"
_GPU = re.compile(r"(?<!\S)GPU: (\d{1,3})$")
_PAIR = re.compile(r"(?<! )( *)([A-Z][A-Z0-9_]{1,40}):(?: (.{0,400}))?$")
_SPEED = re.compile(r"(\d{1,3}(?:\.\d)?)\s*GT/s")
_DEEPEST = 8

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


class _Leaf(NamedTuple):
    gpu: int
    source: str
    path: str
    value: str


def parse_tree(text: str, source: str = SOURCE, first_line: int = 1) -> tuple[Gpu, ...]:
    """The GPUs that the lists speak of; none where the text is something else."""
    facts: dict[int, dict[str, Fact[Any]]] = {}
    sources: dict[int, str] = {}
    for leaf in _leaves(text, source, first_line):
        sources.setdefault(leaf.gpu, leaf.source)
        for name, fact in _facts(leaf).items():
            of = facts.setdefault(leaf.gpu, {})
            of[name] = first_known(of[name], fact) if name in of else fact
    return tuple(gpu_of(index, "AMD", sources[index], facts[index]) for index in sorted(facts)[:MOST_GPUS])


def _leaves(text: str, source: str, first_line: int) -> Iterator[_Leaf]:
    """Every pair below a line `GPU: 0`, with the name of what it stands under."""
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
                yield _Leaf(gpu, line.source, f"{parent} {pair[2]}", pair[3])


def _facts(leaf: _Leaf) -> dict[str, Fact[Any]]:
    if leaf.path in _AMOUNTS:
        name, unit = _AMOUNTS[leaf.path]
        return {name: amount(leaf.value, unit, leaf.source)}
    if leaf.path in _WORDS:
        return {_WORDS[leaf.path]: word(leaf.value, leaf.source)}
    if leaf.path in _SPEEDS:
        return {_SPEEDS[leaf.path]: _generation(leaf)}
    if leaf.path == "POWER THROTTLE_STATUS" and leaf.value in ("THROTTLED", "UNTHROTTLED"):
        return {"event_reasons": reported(["throttled"] if leaf.value == "THROTTLED" else [], leaf.source)}
    return {}


def _generation(leaf: _Leaf) -> Fact[Any]:
    match = _SPEED.search(leaf.value)
    generation = GENERATIONS.get(float(match[1])) if match else None
    if generation is None:
        return not_supported(f'{leaf.source} says "{leaf.value[:40]}"')
    return reported(generation, leaf.source)
