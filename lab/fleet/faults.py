"""What can be wrong with one instance, and the cause that must be named for it and for no other."""

from collections.abc import Callable
from typing import NamedTuple

from lab.fleet.engine import Engine
from lab.fleet.instance import Instance
from lab.fleet.machines import Gpu

HW_SLOWDOWN, SW_THERMAL, HW_THERMAL, SW_POWER_CAP = 0x8, 0x20, 0x40, 0x4
"""Bits of NVML's clocks event reasons."""


class Fault(NamedTuple):
    """A change to a healthy instance."""

    name: str
    change: Callable[[Instance], Instance]
    causes: frozenset[str]
    """Any of these names it; empty where no cause but a statement or another verdict must come of it."""
    slower: float = 1.0
    """How many times as long a token takes."""
    also: frozenset[str] = frozenset()
    """What is true of it besides, as a consequence."""


def _slower(engine: Engine, times: float) -> Engine:
    return engine._replace(gap_s=engine.gap_s * times)


def _on_gpus(instance: Instance, times: float, change: Callable[[Gpu], Gpu]) -> Instance:
    gpus = tuple(change(gpu) for gpu in instance.gpus)
    return instance._replace(gpus=gpus, engine=_slower(instance.engine, times))


def _hot(instance: Instance) -> Instance:
    def change(gpu: Gpu) -> Gpu:
        return gpu._replace(
            clock_share=0.42, temperature_c=88.0, memory_temperature_c=95.0, thermal=0.96,
            reasons=HW_SLOWDOWN | SW_THERMAL | HW_THERMAL, power_share=0.5,
        )  # fmt: skip

    return _on_gpus(instance, 2.6, change)


def _capped(instance: Instance) -> Instance:
    def change(gpu: Gpu) -> Gpu:
        return gpu._replace(
            limit_share=0.3,
            clock_share=0.37,
            power_share=0.99,
            power_held=0.99,
            reasons=SW_POWER_CAP,
            temperature_c=44.0,
        )

    return _on_gpus(instance, 2.8, change)


def _low_clocks(instance: Instance) -> Instance:
    return _on_gpus(instance, 3.0, lambda gpu: gpu._replace(clock_share=0.17, power_share=0.25, temperature_c=40.0))


def _preempting(instance: Instance) -> Instance:
    engine = instance.engine
    room = engine.running * (engine.prompt_tokens + engine.answer_tokens / 2)
    crowded = engine._replace(cache_tokens=room, cache_used=0.995, preemptions_per_s=0.9, waiting=engine.running * 0.8)
    return instance._replace(engine=_slower(crowded, 1.5))


def _queueing(instance: Instance) -> Instance:
    engine = instance.engine
    return instance._replace(engine=engine._replace(waiting=engine.running * 3, places=round(engine.running)))


def _held(instance: Instance) -> Instance:
    """The engine took half of the memory, and something else the rest: its cache is small, and requests wait."""
    engine = instance.engine._replace(memory_share=0.5)
    room = engine.running * (engine.prompt_tokens + engine.answer_tokens / 2)
    crowded = engine._replace(cache_tokens=room, cache_used=0.97, waiting=engine.running * 0.5)
    gpus = tuple(gpu._replace(memory_used_share=0.985) for gpu in instance.gpus)
    return instance._replace(engine=crowded, gpus=gpus)


def _swapping(instance: Instance) -> Instance:
    host = instance.host._replace(
        available_share=0.015, swap_used_share=0.85, swapped_in_pages_per_s=9000.0, swapped_out_pages_per_s=7000.0,
        memory_pressure=0.45, io_pressure=0.4, read_bytes_per_s=4e7,
    )  # fmt: skip
    return instance._replace(host=host, engine=_slower(instance.engine, 2.2))


def _slow_for_no_reason(instance: Instance) -> Instance:
    return instance._replace(engine=_slower(instance.engine, 2.4))


def _without_exporter(instance: Instance) -> Instance:
    return instance._replace(missing=frozenset({"gpu", "node"}))


def _down(instance: Instance) -> Instance:
    return instance._replace(down=True)


_ALL = (
    Fault("thermal", _hot, frozenset({"gpu_thermal_throttling"}), 2.6),
    Fault("power", _capped, frozenset({"gpu_power_capped"}), 2.8),
    Fault("low_clocks", _low_clocks, frozenset({"gpu_held_at_low_clocks"}), 3.0),
    Fault("preemption", _preempting, frozenset({"kv_cache_preemption"}), 1.5, frozenset({"queueing"})),
    Fault("queueing", _queueing, frozenset({"queueing"})),
    Fault("held", _held, frozenset({"other_process_holds_vram", "queueing", "kv_cache_preemption"})),
    Fault("swapping", _swapping, frozenset({"swapping"}), 2.2),
    Fault("unexplained", _slow_for_no_reason, frozenset(), 2.4),
    Fault("no_exporter", _without_exporter, frozenset()),
    Fault("down", _down, frozenset()),
)
FAULTS = {fault.name: fault for fault in _ALL}
"""By name; that of a version is made by what was there before, see `history`."""


def with_fault(instance: Instance, name: str) -> Instance:
    """The instance with that fault; without a name as it was."""
    return FAULTS[name].change(instance)._replace(fault=name) if name else instance
