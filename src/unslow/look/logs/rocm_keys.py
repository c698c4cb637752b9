"""What `rocm-smi` calls each fact, the same in its text, its JSON and its CSV."""

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

from unslow.facts.units import MHZ
from unslow.facts.values import Fact, Known, first_known, not_found, reported
from unslow.look.kernel.pcie_link import GENERATIONS
from unslow.look.logs.amounts import amount, word

_CLOCK = re.compile(r"(\d{1,6})\s*mhz", re.IGNORECASE)
_LINK = re.compile(r"(\d{1,3}(?:\.\d)?)\s*GT/s,?\s*x(\d{1,2})\b")
_NUMBER_NAME = re.compile(r"0x[0-9a-fA-F]+")
_BUS = re.compile(r"[0-9a-fA-F]{4}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7]")

# The key, or its beginning, in small letters: the fact and the unit; the first that is known counts.
_AMOUNTS = {
    "gpu use (%)": ("busy", "%"),
    "gpu memory read/write activity (%)": ("memory_busy", "%"),
    "gpu memory use (%)": ("memory_busy", "%"),
    "vram total memory (b)": ("vram_total_bytes", "B"),
    "vram total used memory (b)": ("vram_used_bytes", "B"),
    "gtt total memory (b)": ("gtt_total_bytes", "B"),
    "gtt total used memory (b)": ("gtt_used_bytes", "B"),
    "temperature (sensor edge) (c)": ("temperature_c", "C"),
    "temperature (sensor junction) (c)": ("temperature_c", "C"),
    "temperature (sensor memory) (c)": ("memory_temperature_c", "C"),
    "average graphics package power (w)": ("power_w", "W"),
    "current socket graphics package power (w)": ("power_w", "W"),
    "max graphics package power (w)": ("power_limit_w", "W"),
}
_WORDS = {
    "performance level": "performance_state",
    "gfx version": "architecture",
    "card series": "name",
    "device name": "name",
    "card model": "name",
    "driver version": "driver",
}
_CLOCKS = {"sclk clock": "clock_hz", "mclk clock": "memory_clock_hz"}


class Entry(NamedTuple):
    """A key with its value, and where it stands."""

    source: str
    key: str
    value: str


def facts_of(entries: Iterable[Entry]) -> dict[str, Fact[Any]]:
    """Every fact that the entries of one GPU hold."""
    found: dict[str, Fact[Any]] = {}
    for entry in entries:
        for name, fact in _facts(entry).items():
            found[name] = first_known(found[name], fact) if name in found else fact
    return found


def _facts(entry: Entry) -> dict[str, Fact[Any]]:
    key = entry.key.strip().casefold()
    if key in _AMOUNTS:
        name, unit = _AMOUNTS[key]
        return {name: amount(entry.value, unit, entry.source)}
    if key in _WORDS:
        return {_WORDS[key]: _word(entry)}
    if key.startswith(tuple(_CLOCKS)):
        return _clock(_CLOCKS[key[:10]], entry)
    if key.startswith("pcie clock"):
        return link_facts(entry.value, entry.source)
    if key == "pci bus" and (bus := _BUS.search(entry.value)):
        return {"bus_id": reported(bus[0].lower(), entry.source)}
    return {}


def _word(entry: Entry) -> Fact[Any]:
    """The value, but not a device number where a name should be."""
    if _NUMBER_NAME.fullmatch(entry.value.strip()):
        return not_found(f"{entry.source} has only the number {entry.value.strip()}")
    return word(entry.value, entry.source)


def _clock(name: str, entry: Entry) -> dict[str, Fact[Any]]:
    match = _CLOCK.search(entry.value)
    return {name: reported(int(match[1]) * MHZ, entry.source)} if match else {}


def link_facts(text: str, source: str) -> dict[str, Fact[Any]]:
    """Generation and width of a link such as "8.0GT/s x16"."""
    match = _LINK.search(text)
    if not match:
        return {}
    generation = GENERATIONS.get(float(match[1]))
    facts: dict[str, Fact[Any]] = {"pcie_width": reported(int(match[2]), source)}
    return facts | ({"pcie_generation": reported(generation, source)} if generation else {})


def with_free(facts: dict[str, Fact[Any]]) -> dict[str, Fact[Any]]:
    """The facts with what is free of the video memory, where total and used are known."""
    total, used = facts.get("vram_total_bytes"), facts.get("vram_used_bytes")
    if isinstance(total, Known) and isinstance(used, Known) and total.value >= used.value:
        return {**facts, "vram_free_bytes": reported(total.value - used.value, f"{total.source}, {used.source}")}
    return facts
