"""The hardware of one engine as facts: its GPUs and what they did, its host, tensor parallelism, offloaded layers.

Exporters tell means over a window with pauses in it. A GPU that rested for a part of it has a low mean clock without
being held down, and its link sleeps; such readings are kept back unless it worked nearly all the time.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from unslow.catalog.devices import find_device
from unslow.facts.machine import Cpu, Gpu, Load, Machine, Memory
from unslow.facts.model import Model
from unslow.facts.run import GpuUnderLoad
from unslow.facts.runtime import IN_BATCHES
from unslow.facts.values import (
    GIB,
    LARGEST_COUNT,
    Fact,
    Known,
    Unknown,
    estimated_fact,
    not_found,
    not_supported,
    reported_fact,
)
from unslow.fleet.member import Member, MemberGpu, Reading
from unslow.think.physics.placement import kv_bytes_per_token

SOURCE = "Prometheus"
BUSY_AT_WORK = 0.85
"""Of the window that kernels ran: then its mean clock is that under load. A decoding GPU shows 90 % and more."""
AWAKE = 0.3  # Of the window: the fastest that its link was seen at is then that under load
WHILE_BUSY = "while busy"  # How the source of a mean over the busy moments alone says so
THROTTLED = 0.1  # Of the window: a reason that holds for less of it explains no mean
HOLDS_NOTHING = 2 * GIB
"""Of its memory in use at most: what a driver and a display take; an engine with a model takes more."""
A_PART = 0.6  # Of the memory of a device: one with less is a slice of it; MIG's next smaller than a whole one has half
_REASONS = {"thermal_throttled": "sw_thermal_slowdown", "power_throttled": "sw_power_cap"}
_device = lru_cache(maxsize=1024)(find_device)  # a fleet of thousands has few kinds of GPUs


class Readings:
    """The readings of an engine, a GPU or a host; what is missing is told by `why`."""

    def __init__(self, readings: Mapping[str, Reading], why: str) -> None:
        self._readings, self._why = readings, why

    def __contains__(self, name: str) -> bool:
        """Whether there is such a reading."""
        return name in self._readings

    def value(self, name: str, default: float = 0.0) -> float:
        found = self._readings.get(name)
        return found.value if found else default

    def source(self, *names: str) -> str:
        """Where these come from, as evidence shows it."""
        told = dict.fromkeys(self._readings[name].source for name in names if name in self._readings)
        return f"{SOURCE}: {'; '.join(told)}" if told else SOURCE

    def fact(self, name: str) -> Fact[float]:
        return reported_fact(self._readings[name].value, self.source(name)) if name in self else self.missing(name)

    def count(self, name: str) -> Fact[int]:
        """A count or a size in bytes."""
        is_one = name in self and 0 <= self.value(name) <= LARGEST_COUNT
        return reported_fact(round(self.value(name)), self.source(name)) if is_one else self.missing(name)

    def share(self, name: str) -> Fact[float]:
        """A part of one; what two clocks make a little more of it is one."""
        found = self.fact(name)
        return reported_fact(min(1.0, max(0.0, found.value)), found.source) if isinstance(found, Known) else found

    def estimate(self, value: Any, *names: str) -> Fact[Any]:
        return estimated_fact(value, self.source(*names))

    def missing(self, name: str) -> Fact[Any]:
        return not_found(self._why or f"{SOURCE} has no {name.replace('_', ' ')} for it")


def machine_of(member: Member) -> Machine:
    """Means and extremes over the window; what a container may use belongs to the runtime."""
    told = Readings(member.host, member.missing.get("host", ""))
    seen = tuple(_gpu(gpu) for gpu in gpus_of(member))
    gpus: Fact[tuple[Gpu, ...]] = reported_fact(seen, f"{SOURCE}: its GPU exporter")
    if not member.gpus:  # that no exporter reports one does not mean that there is none
        why = member.missing.get("gpus", f"{SOURCE} has no GPU data for it")
        gpus = not_found(why, "scrape a GPU exporter on its host, or run `unslow exporter` there")
    return Machine(
        cpu=Cpu(logical_cpus=told.count("cpus"), package_throttles=told.count("package_throttles")),
        load=Load(
            busy_cpus=told.fact("busy_cpus"),
            average_1min=told.fact("load_1min"),
            cpu_pressure=told.share("cpu_pressure"),
            memory_pressure=told.share("memory_pressure"),
            io_pressure=told.share("io_pressure"),
        ),
        memory=Memory(
            total_bytes=told.count("memory_total_bytes"),
            available_bytes=told.count("memory_available_bytes"),
            swap_total_bytes=told.count("swap_total_bytes"),
            swap_used_bytes=told.count("swap_used_bytes"),
            swapped_in_bytes=_in_window(told, "swapped_in_bytes_per_s", member.window_s),
            swapped_out_bytes=_in_window(told, "swapped_out_bytes_per_s", member.window_s),
            numa_nodes=told.count("numa_nodes"),
        ),
        gpus=gpus,
    )


def _in_window(told: Readings, name: str, window_s: float) -> Fact[int]:
    return told.estimate(round(told.value(name) * window_s), name) if name in told else told.missing(name)


def host_readings(member: Member) -> Readings:
    """The same, to be read one by one."""
    return Readings(member.host, member.missing.get("host", f"{SOURCE} has no data on its host"))


def gpus_of(member: Member) -> tuple[MemberGpu, ...]:
    """Those that the engine can be on: one with next to nothing in its memory beside a full one belongs to nobody."""
    used = ((gpu, gpu.readings.get("vram_used_max_bytes")) for gpu in member.gpus)
    return tuple(gpu for gpu, found in used if found is None or found.value >= HOLDS_NOTHING) or member.gpus


def _gpu(gpu: MemberGpu) -> Gpu:
    told = Readings(gpu.readings, "")
    facts: dict[str, Any] = {
        name: told.count(name)
        for name in ("vram_total_bytes", "vram_free_bytes", "gtt_used_bytes", "pcie_generation_max", "pcie_width_max")
    }  # fmt: skip
    facts |= {name: told.fact(name) for name in ("clock_max_hz", "power_limit_w", "power_limit_default_w")}
    facts |= {
        "vram_used_bytes": told.count("vram_used_max_bytes"),
        "temperature_c": told.fact("temperature_max_c"),
        "power_w": told.fact("power_max_w"),
        "memory_clock_hz": _idle_clock(told) or told.fact("memory_clock_hz"),
        "memory_temperature_c": told.fact("memory_temperature_max_c"),
    }
    facts |= {name: told.share(name) for name in ("busy", "memory_busy")}
    names = {"name": gpu.name, "vendor": gpu.vendor, "driver": gpu.driver}
    facts |= {key: reported_fact(text, f"{SOURCE}: its GPU exporter") for key, text in names.items() if text}
    memory_bytes = told.value("vram_total_bytes")
    device = _device(gpu.name, round(memory_bytes)) if gpu.name and memory_bytes else None
    # With so little of its memory it is a part, as MIG and others divide it, and its name does not tell what it is
    if device and memory_bytes < A_PART * device.memory_bytes:
        sizes = f"{memory_bytes / GIB:.0f} GiB of the {device.memory_bytes / GIB:.0f} GiB of {gpu.name}"
        facts["name"] = not_found(f"its GPU is a partition ({sizes}) of unknown speed")
    return Gpu(index=gpu.index, **facts)


def gpus_under_load(member: Member) -> Fact[tuple[GpuUnderLoad, ...]]:
    """What they did in the window; empty facts where they rested."""
    if not member.gpus:
        return not_found(member.missing.get("gpus", f"{SOURCE} has no GPU data for it"))
    samples = max(1, round(Readings(member.engine, "").value("samples", 1.0)))
    return reported_fact(tuple(_under_load(gpu, samples) for gpu in gpus_of(member)), f"{SOURCE}: its GPU exporter")


def _under_load(gpu: MemberGpu, samples: int) -> GpuUnderLoad:
    told = Readings(gpu.readings, "")
    rested, asleep = _idle_clock(told), None
    if told.value("busy") < AWAKE:  # the link of a GPU without work goes down to the first generation
        asleep = not_found("the GPU was almost idle in the window, and its link with it")
    # Why its clocks were held down for long enough to matter; that nothing did needs both reasons to be told
    known = [name for name in _REASONS if name in told]
    reasons = [_REASONS[name] for name in known if told.value(name) >= THROTTLED]
    all_told = reasons or len(known) == len(_REASONS)
    return GpuUnderLoad(
        index=gpu.index,
        samples=samples,
        busy=told.share("busy"),
        memory_busy=told.share("memory_busy"),
        clock_hz=told.fact("clock_hz") if not rested or WHILE_BUSY in told.source("clock_hz") else rested,
        temperature_max_c=told.fact("temperature_max_c"),
        power_max_w=told.fact("power_max_w"),
        vram_used_max_bytes=told.count("vram_used_max_bytes"),
        event_reasons=reported_fact(reasons, told.source(*known)) if all_told else told.missing("throttle reasons"),
        pcie_generation_max_seen=asleep or told.count("pcie_generation"),
        pcie_width_max_seen=asleep or told.count("pcie_width"),
    )


def _idle_clock(told: Readings) -> Unknown | None:
    """Why means of its clock and its link say nothing; None where it worked nearly all the time."""
    busy = told.value("busy")
    if "busy" not in told:
        return not_found("GPU utilization unknown, so its mean clock may include idle time")
    if busy >= BUSY_AT_WORK:
        return None
    return not_found(f"the GPU was idle for {1 - busy:.0%} of the window, so its mean clock includes idle time")


# Over how many of its GPUs an engine cuts every layer.
# No metric tells it. An engine fills the share of each GPU's memory that it was given with weights and cache; both are
# cut alike, so what they take together by the memory of one GPU is the number of GPUs that a copy of the model lies on.

OFF = 0.25  # Of a count: buffers and graphs take some of the memory, and types are taken from a name
_FILLED = 0.9  # Of a GPU's memory: weights that take more than this do not fit one of them


def tensor_parallel(runtime: str, gpus: tuple[Gpu, ...], model: Model, facts: dict[str, Fact[Any]]) -> Fact[int]:
    """Worked out from what one copy of the model fills; unknown where nothing tells."""
    if runtime not in IN_BATCHES or not gpus:
        return not_found(f"{SOURCE} does not report it")
    if len(gpus) == 1:
        return estimated_fact(1, f"{SOURCE}: it has one GPU")
    copies = _filled_gpus(gpus, model, facts)
    if copies is None:
        memory, weights = min(gpu.vram_total_bytes.value_or(0) for gpu in gpus), model.weights_bytes.value_or(0)
        if memory and weights > _FILLED * memory:
            return estimated_fact(len(gpus), f"{SOURCE}: its weights do not fit on one of its {len(gpus)} GPUs")
        ways = "are tensor parallel or hold a copy of the model each"
        return not_supported(f"unknown whether its {len(gpus)} GPUs {ways}")
    for count in (len(gpus), 1):
        if abs(copies - count) <= OFF * count:
            return estimated_fact(count, f"{SOURCE}: weights and KV cache fill the memory of {copies:.1f} GPUs")
    return not_supported(f"weights and KV cache fill the memory of {copies:.1f} GPUs, but it has {len(gpus)}")


def _filled_gpus(gpus: tuple[Gpu, ...], model: Model, facts: dict[str, Fact[Any]]) -> float | None:
    cells, given = facts.get("kv_capacity_tokens"), facts.get("gpu_memory_fraction")
    # What the engine takes of one GPU: the share that it was given, else what is in use there
    memory = float(min(gpu.vram_used_bytes.value_or(0) for gpu in gpus))
    if isinstance(given, Known):
        memory = float(given.value) * min(gpu.vram_total_bytes.value_or(0) for gpu in gpus)
    if not isinstance(cells, Known) or not memory:
        return None
    kind = facts.get("kv_type_k")
    of_type = str(kind.value) if isinstance(kind, Known) else "f16"
    each = kv_bytes_per_token(
        model.layers.value_or(0), model.kv_heads.value_or(0), model.key_length.value_or(0),
        model.value_length.value_or(0), (of_type, of_type),
    )  # fmt: skip
    weights = model.weights_bytes.value_or(0)
    return (weights + float(cells.value) * each) / memory if weights and each else None


# How much of a model that llama.cpp runs is on GPUs, by the memory that is in use there.
# No metric of it tells the layers. But weights that are more than all that is in use on its GPUs can't all be there;
# and with more in use than the weights take, on a card that belongs to it alone, they are.

LEAST_BUSY_SHARE = 0.3
"""Of the time that an engine generates: its GPU works at least so much of it, whatever else it waits for."""
LACKING = 0.9
"""Of the weights: with less than this in use, some of them are elsewhere; sizes by a name are a few percent off."""


def offloaded_layers(runtime: str, gpus: Fact[tuple[Gpu, ...]], model: Model, worked: float) -> dict[str, Fact[Any]]:
    """The share, and where that is all of it the layers too, the output counted as one more.

    `worked` is the part of the window in which it generated: GPUs that rested then belong to somebody else.
    """
    share, layers = _share_on_gpus(runtime, gpus, model), model.layers.value_or(0)
    busy = [gpu.busy.value for gpu in gpus.value_or(()) if isinstance(gpu.busy, Known)]
    if isinstance(share, Known) and busy and max(busy) < LEAST_BUSY_SHARE * worked:
        share = not_found("its GPUs were almost idle while it generated: the VRAM in use may belong to other processes")
    if not isinstance(share, Known) or share.value < 1 or not layers:
        return {"vram_share": share}
    whole = estimated_fact(layers + 1, share.source)
    return {"vram_share": share, "gpu_layers": whole, "layers": whole}


def _share_on_gpus(runtime: str, gpus: Fact[tuple[Gpu, ...]], model: Model) -> Fact[float]:
    """The share; unknown where what is in use may be anybody's."""
    weights = float(model.weights_bytes.value_or(0))
    if runtime in IN_BATCHES or not isinstance(gpus, Known) or not weights:
        return not_found(f"{SOURCE} does not report where its weights are")
    used = [gpu.vram_used_bytes for gpu in gpus.value]
    if not used or not all(isinstance(fact, Known) for fact in used):
        return not_found(f"{SOURCE} does not report the VRAM in use")
    held = sum(float(fact.value_or(0)) for fact in used)
    source = f"{SOURCE}: {held / GIB:.1f} GiB of VRAM in use, {weights / GIB:.1f} GiB of weights"
    if held < LACKING * weights:
        return estimated_fact(held / weights, source)
    if held > weights:
        return estimated_fact(1.0, source)
    return not_found(f"its weights are about as large as the VRAM in use: {held / GIB:.1f} GiB")
