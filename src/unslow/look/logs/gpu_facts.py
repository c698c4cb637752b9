"""Puts the facts about a GPU together, however they were read; NVIDIA's clock reasons as bits and names."""

import re
from collections.abc import Iterable, Mapping
from typing import Any, get_type_hints

from unslow.facts.machine import Gpu, GpuProcess
from unslow.facts.merge import bounded_fact, overlaid
from unslow.facts.values import Fact, Known, Unknown, failed_fact, reported_fact

MOST_GPUS = 64
GPU_FACTS = tuple(name for name in Gpu.__struct_fields__ if name != "index")
# nvmlClocksEventReason* of nvml.h, which older drivers call nvmlClocksThrottleReason*; the names are those of the
# columns `clocks_event_reasons.<name>` of `nvidia-smi --query-gpu`.
REASONS = {
    0x001: "gpu_idle",
    0x002: "applications_clocks_setting",
    0x004: "sw_power_cap",
    0x008: "hw_slowdown",
    0x010: "sync_boost",
    0x020: "sw_thermal_slowdown",
    0x040: "hw_thermal_slowdown",
    0x080: "hw_power_brake_slowdown",
    0x100: "display_clock_setting",
}
_BITS = {name: bit for bit, name in REASONS.items()}
_UNKNOWN = "unknown_bit_"
_TYPES = get_type_hints(Gpu, include_extras=True)


def gpu_of(index: int, vendor: str, source: str, facts: Mapping[str, Fact[Any]]) -> Gpu:
    """The GPU; a fact outside the bounds that its type declares becomes a failed look instead of a false number."""
    checked: dict[str, Any] = {name: bounded_fact(fact, _TYPES[name]) for name, fact in facts.items()}
    maker = {"vendor": reported_fact(vendor, source)} if vendor else {}
    return Gpu(index=index, **{**maker, **checked})


def gpu_without_facts(index: int, why: Unknown, **known: Fact[Any]) -> Gpu:
    """A GPU that is there and cannot be asked, for one reason."""
    facts: dict[str, Any] = {**dict.fromkeys(GPU_FACTS, why), **known}
    return Gpu(index=index, **facts)


def gpu_process(pid: int, name: Fact[Any], vram_bytes: Fact[Any]) -> GpuProcess:
    """A process on a GPU, its memory checked like every other fact."""
    return GpuProcess(pid=pid, name=name, vram_bytes=bounded_fact(vram_bytes, _TYPES["vram_used_bytes"]))


def with_free(facts: dict[str, Fact[Any]]) -> dict[str, Fact[Any]]:
    """The facts with what is free of the video memory, where total and used are known."""
    total, used = facts.get("vram_total_bytes"), facts.get("vram_used_bytes")
    if isinstance(total, Known) and isinstance(used, Known) and total.value >= used.value:
        return {**facts, "vram_free_bytes": reported_fact(total.value - used.value, f"{total.source}, {used.source}")}
    return facts


def by_index(*lists: tuple[Gpu, ...]) -> tuple[Gpu, ...]:
    """The GPUs of several texts, by index; what a later one says is laid over what an earlier one said."""
    gpus: dict[int, Gpu] = {}
    for gpu in (gpu for found in lists for gpu in found):
        gpus[gpu.index] = overlaid(gpus[gpu.index], gpu) if gpu.index in gpus else gpu
    return tuple(gpus[index] for index in sorted(gpus)[:MOST_GPUS])


def reason_facts(names: list[str], source: str) -> dict[str, Fact[Any]]:
    """Both facts about event reasons, from their names."""
    bits, missing = reason_bits(names), failed_fact(f"no bit is known for {names}")
    return {
        "event_reasons": reported_fact(names, source),
        "event_reason_bits": missing if bits is None else reported_fact(bits, source),
    }


def reason_names(bits: int) -> list[str]:
    """The reasons that are set, lowest bit first; a bit without a name is kept as `unknown_bit_0x…`."""
    found = (1 << place for place in range(64) if bits >> place & 1)
    return [REASONS.get(bit, f"{_UNKNOWN}{bit:#x}") for bit in found]


def reason_bits(names: Iterable[str]) -> int | None:
    """The bits of the reasons; None where one of them has no known bit."""
    bits = 0
    for name in names:
        unknown = re.fullmatch(rf"{_UNKNOWN}0x([0-9a-f]+)", name)
        bit = int(unknown[1], 16) if unknown else _BITS.get(name)
        if bit is None:
            return None
        bits |= bit
    return bits
