"""The GPUs of an engine: what they are, and what they did while it worked.

Exporters tell means over a window with pauses in it. A GPU that rested for a part of it has a low mean clock without
being held down, and its link sleeps; such readings are kept back unless it worked nearly all the time.
"""

from functools import lru_cache
from typing import Any

from unslow.catalog.devices import find_device
from unslow.facts.machine import Gpu
from unslow.facts.run import GpuUnderLoad
from unslow.facts.units import GIB
from unslow.facts.values import Fact, Unknown, not_found, reported
from unslow.fleet.member import Member, MemberGpu
from unslow.fleet.snapshot.readings import SOURCE, Readings

AT_WORK = 0.85
"""Of the window that kernels ran: then its mean clock is that under load. A decoding GPU shows 90 % and more."""
AWAKE = 0.3
"""Of the window: the fastest that its link was seen at is then that under load."""
WHILE_BUSY = "while busy"
"""How the source of a mean over the busy moments alone says so."""
THROTTLED = 0.1
"""Of the window: a reason that holds for less of it explains no mean."""
HOLDS_NOTHING = 2 * GIB
"""Of its memory in use at most: what a driver and a display take; an engine with a model takes more."""
A_PART = 0.6
"""Of the memory of a device: one with less is a slice of it; MIG's next smaller than a whole one has half."""
_REASONS = {"thermal_throttled": "sw_thermal_slowdown", "power_throttled": "sw_power_cap"}


def gpus_of(member: Member) -> tuple[MemberGpu, ...]:
    """Those that the engine can be on: one with next to nothing in its memory beside a full one belongs to nobody."""
    held = [gpu for gpu in member.gpus if _used(gpu) is None or (_used(gpu) or 0.0) >= HOLDS_NOTHING]
    return tuple(held) or member.gpus


def _used(gpu: MemberGpu) -> float | None:
    found = gpu.readings.get("vram_used_max_bytes")
    return found.value if found else None


def machine_gpus(member: Member) -> Fact[tuple[Gpu, ...]]:
    """What they are; that no exporter tells of one does not mean that there is none."""
    if not member.gpus:
        why = member.missing.get("gpus", f"{SOURCE} knows no GPU of it")
        return not_found(why, "scrape a GPU exporter on its host, or run `unslow exporter` there")
    return reported(tuple(_gpu(gpu) for gpu in gpus_of(member)), f"{SOURCE}: its GPU exporter")


def _gpu(gpu: MemberGpu) -> Gpu:
    told = Readings(gpu.readings, "")
    facts: dict[str, Any] = {
        name: told.whole(name)
        for name in ("vram_total_bytes", "vram_free_bytes", "gtt_used_bytes", "pcie_generation_max", "pcie_width_max")
    }  # fmt: skip
    facts |= {name: told.fact(name) for name in ("clock_max_hz", "power_limit_w", "power_limit_default_w")}
    facts |= {
        "vram_used_bytes": told.whole("vram_used_max_bytes"),
        "temperature_c": told.fact("temperature_max_c"),
        "power_w": told.fact("power_max_w"),
        "memory_clock_hz": _rested(told) or told.fact("memory_clock_hz"),
        "memory_temperature_c": told.fact("memory_temperature_max_c"),
    }
    facts |= {name: told.share(name) for name in ("busy", "memory_busy")}
    names = {"name": gpu.name, "vendor": gpu.vendor, "driver": gpu.driver}
    facts |= {key: reported(text, f"{SOURCE}: its GPU exporter") for key, text in names.items() if text}
    facts |= {"name": part} if (part := _part_of_one(gpu.name, told.value("vram_total_bytes"))) else {}
    return Gpu(index=gpu.index, **facts)


def _part_of_one(name: str, memory_bytes: float) -> Unknown | None:
    """Why its name does not tell what it is: with so little of its memory it is a part, as MIG and others divide it."""
    device = _device(name, round(memory_bytes)) if name and memory_bytes else None
    if device is None or memory_bytes >= A_PART * device.memory_bytes:
        return None
    sizes = f"{memory_bytes / GIB:.0f} GiB of the {device.memory_bytes / GIB:.0f} GiB of {name}"
    return not_found(f"its GPU is a part of one ({sizes}), and how fast the part is nothing tells")


_device = lru_cache(maxsize=1024)(find_device)  # a fleet of thousands has few kinds of GPUs


def gpus_under_load(member: Member) -> Fact[tuple[GpuUnderLoad, ...]]:
    """What they did in the window; empty facts where they rested."""
    if not member.gpus:
        return not_found(member.missing.get("gpus", f"{SOURCE} knows no GPU of it"))
    samples = max(1, round(Readings(member.engine, "").value("samples", 1.0)))
    return reported(tuple(_under_load(gpu, samples) for gpu in gpus_of(member)), f"{SOURCE}: its GPU exporter")


def _under_load(gpu: MemberGpu, samples: int) -> GpuUnderLoad:
    told = Readings(gpu.readings, "")
    rested = _rested(told)
    return GpuUnderLoad(
        index=gpu.index,
        samples=samples,
        busy=told.share("busy"),
        memory_busy=told.share("memory_busy"),
        clock_hz=told.fact("clock_hz") if not rested or WHILE_BUSY in told.source("clock_hz") else rested,
        temperature_max_c=told.fact("temperature_max_c"),
        power_max_w=told.fact("power_max_w"),
        vram_used_max_bytes=told.whole("vram_used_max_bytes"),
        event_reasons=_reasons(told),
        pcie_generation_max_seen=_asleep(told) or told.whole("pcie_generation"),
        pcie_width_max_seen=_asleep(told) or told.whole("pcie_width"),
    )


def _rested(told: Readings) -> Unknown | None:
    """Why means of its clock and its link say nothing; None where it worked nearly all the time."""
    if "busy" not in told:
        return not_found(f"{SOURCE} does not tell how busy the GPU was, so its mean clock may be one of pauses")
    if told.value("busy") >= AT_WORK:
        return None
    return not_found(
        f"the GPU rested for {1 - told.value('busy'):.0%} of the window, so its mean clock is one of pauses"
    )


def _asleep(told: Readings) -> Unknown | None:
    """Why its link says nothing: that of a GPU without work goes down to the first generation."""
    if told.value("busy") >= AWAKE:
        return None
    return not_found("the GPU had next to no work in the window, and its link rests with it")


def _reasons(told: Readings) -> Fact[list[str]]:
    """Why its clocks were held down for long enough to matter; that nothing did needs both reasons to be told."""
    known = [name for name in _REASONS if name in told]
    found = [_REASONS[name] for name in known if told.value(name) >= THROTTLED]
    if found or len(known) == len(_REASONS):
        return reported(found, told.source(*known))
    return told.missing("reasons for its clocks")
