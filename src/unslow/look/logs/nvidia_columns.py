"""The columns of `nvidia-smi --query-gpu` that are facts; the table of `dmon` is read by the same names."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from unslow.facts.values import NOT_LOOKED, Fact, failed, first_known
from unslow.look.logs import nvidia_values as values
from unslow.look.logs.nvidia_gpu import reasons
from unslow.look.logs.nvidia_reasons import reason_names

_Read = Callable[[str, str], Fact[Any]]
_REASON = re.compile(r"clocks_(?:event|throttle)_reasons\.(\w+)")
_REASON_BITS = ("clocks_event_reasons.active", "clocks_throttle_reasons.active")
_BITS = re.compile(r"0x([0-9A-Fa-f]{1,16})")
_NO_REASON = ("active", "supported")


def _in(unit: str) -> _Read:
    return lambda text, source: values.quantity(text, unit, source)


# How to read each fact, and the columns that hold it, the best one first.
_FACTS: dict[str, tuple[_Read, tuple[str, ...]]] = {
    "name": (values.word, ("name", "gpu_name")),
    "driver": (values.word, ("driver_version",)),
    "bus_id": (values.bus_id, ("pci.bus_id", "gpu_bus_id")),
    "compute_capability": (values.word, ("compute_cap",)),
    "vram_total_bytes": (_in("MiB"), ("memory.total",)),
    "vram_used_bytes": (_in("MiB"), ("memory.used",)),
    "vram_free_bytes": (_in("MiB"), ("memory.free",)),
    "vram_reserved_bytes": (_in("MiB"), ("memory.reserved",)),
    "busy": (_in("%"), ("utilization.gpu",)),
    "memory_busy": (_in("%"), ("utilization.memory",)),
    "clock_hz": (_in("MHz"), ("clocks.sm", "clocks.current.sm", "clocks.gr", "clocks.current.graphics")),
    "clock_max_hz": (_in("MHz"), ("clocks.max.sm", "clocks.max.gr", "clocks.max.graphics")),
    "memory_clock_hz": (_in("MHz"), ("clocks.mem", "clocks.current.memory")),
    "memory_clock_max_hz": (_in("MHz"), ("clocks.max.mem", "clocks.max.memory")),
    "performance_state": (values.word, ("pstate",)),
    "temperature_c": (_in("C"), ("temperature.gpu",)),
    "memory_temperature_c": (_in("C"), ("temperature.memory",)),
    "temperature_margin_c": (_in("C"), ("temperature.gpu.tlimit",)),
    "power_w": (_in("W"), ("power.draw", "power.draw.average", "power.draw.instant")),
    "power_limit_w": (_in("W"), ("enforced.power.limit", "power.limit")),
    "power_limit_default_w": (_in("W"), ("power.default_limit",)),
    "pcie_generation": (_in(""), ("pcie.link.gen.current", "pcie.link.gen.gpucurrent")),
    "pcie_generation_max": (_in(""), ("pcie.link.gen.max",)),
    "pcie_width": (_in("x"), ("pcie.link.width.current",)),
    "pcie_width_max": (_in("x"), ("pcie.link.width.max",)),
    "pcie_transmit_bytes_per_s": (_in("MB/s"), ("txpci",)),
    "pcie_receive_bytes_per_s": (_in("MB/s"), ("rxpci",)),
    "ecc": (values.enabled, ("ecc.mode.current",)),
    "mig": (values.enabled, ("mig.mode.current",)),
}

COLUMNS = frozenset({*_REASON_BITS, *(column for _, columns in _FACTS.values() for column in columns)})


def row_facts(row: Mapping[str, str], source: str) -> dict[str, Fact[Any]]:
    """Every fact that a row of the table holds."""
    facts = {name: row_fact(row, name, source) for name in _FACTS}
    return {name: fact for name, fact in facts.items() if fact != NOT_LOOKED} | row_reasons(row, source)


def row_fact(row: Mapping[str, str], name: str, source: str) -> Fact[Any]:
    """One fact of a row; "nobody looked" where it has no column for it."""
    read, columns = _FACTS[name]
    return first_known(*(read(row[column], source) for column in columns if column in row))


def row_reasons(row: Mapping[str, str], source: str) -> dict[str, Fact[Any]]:
    """The event reasons of a row: from the column with all bits, else from the columns of single reasons."""
    text = next((row[column] for column in _REASON_BITS if column in row), None)
    if text is not None:
        return _reasons_of_bits(text, source)
    single = {m[1]: row[column] for column in row if (m := _REASON.fullmatch(column)) and m[1] not in _NO_REASON}
    return reasons([name for name, state in single.items() if state.casefold() == "active"], source) if single else {}


def _reasons_of_bits(text: str, source: str) -> dict[str, Fact[Any]]:
    match = _BITS.fullmatch(text.strip())
    if not match:
        why = values.absence(text, source) or failed(f'{source} says "{text.strip()[:40]}", which is no bit mask')
        return {"event_reasons": why, "event_reason_bits": why}
    return reasons(reason_names(int(match[1], 16)), source)
