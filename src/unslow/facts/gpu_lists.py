"""Puts together what several sources say of the GPUs of one machine."""

import msgspec

from unslow.facts.machine import Facts, Gpu, GpuProcess, Machine
from unslow.facts.values import Fact, Known


def same_gpu(gpu: Gpu, gpus: tuple[Gpu, ...]) -> Gpu | None:
    """The one among these that is the same device: by its place on the bus, else by a name that only one has."""
    place, name = gpu.bus_id.value_or(""), gpu.name.value_or("")
    if place and any(other.bus_id.value_or("") == place for other in gpus):
        return next(other for other in gpus if other.bus_id.value_or("") == place)
    named = [other for other in gpus if name and other.name.value_or("") == name]
    apart = place and any(other.bus_id.value_or("") for other in named)
    return named[0] if len(named) == 1 and not apart else None


def fuller(first: Fact[list[GpuProcess]], second: Fact[list[GpuProcess]]) -> Fact[list[GpuProcess]]:
    """The list of processes that tells more sizes: on Windows NVIDIA's driver tells none, and the system does."""
    return second if _sizes(second) > _sizes(first) else first


def _sizes(processes: Fact[list[GpuProcess]]) -> int:
    return sum(isinstance(process.vram_bytes, Known) for process in processes.value_or([]))


def are_gpus(things: tuple[Facts, ...]) -> bool:
    """Whether a list is one of GPUs."""
    return all(isinstance(thing, Gpu) for thing in things)


def in_order(gpus: tuple[Gpu, ...]) -> tuple[Gpu, ...]:
    """The GPUs with those that are a part of the processor last; otherwise as they came."""
    return tuple(sorted(gpus, key=lambda gpu: gpu.kind.value_or("") == "integrated"))


def with_cards_first(machine: Machine) -> Machine:
    """The machine with its GPUs in that order, whoever wrote the list: the first is then one that computes."""
    gpus = machine.gpus
    if not isinstance(gpus, Known) or gpus.value == in_order(gpus.value):
        return machine
    return msgspec.structs.replace(machine, gpus=msgspec.structs.replace(gpus, value=in_order(gpus.value)))


def computing(gpus: tuple[Gpu, ...]) -> tuple[Gpu, ...]:
    """Those that a runtime takes by itself: the cards where there are any, else what the processor has.

    llama.cpp adds an integrated GPU to its devices only where it finds no other.
    """
    cards = tuple(gpu for gpu in gpus if gpu.kind.value_or("") != "integrated")
    return cards or gpus
