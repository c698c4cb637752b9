"""Facts of several sources laid over each other, the GPUs of one machine matched, and all held to their bounds."""

from functools import cache
from typing import Any, TypeVar, get_type_hints

import msgspec

from unslow.facts.machine import Facts, Gpu, GpuProcess, Machine
from unslow.facts.values import NOT_LOOKED, Fact, Known, Unknown, failed


def same_gpu(gpu: Gpu, gpus: tuple[Gpu, ...]) -> Gpu | None:
    """The one among these that is the same device: by its place on the bus, else by a name that only one has."""
    place, name = gpu.bus_id.value_or(""), gpu.name.value_or("")
    if place and any(other.bus_id.value_or("") == place for other in gpus):
        return next(other for other in gpus if other.bus_id.value_or("") == place)
    named = [other for other in gpus if name and other.name.value_or("") == name]
    apart = place and any(other.bus_id.value_or("") for other in named)
    return named[0] if len(named) == 1 and not apart else None


def fuller_processes(first: Fact[list[GpuProcess]], second: Fact[list[GpuProcess]]) -> Fact[list[GpuProcess]]:
    """The list of processes that tells more sizes: on Windows NVIDIA's driver tells none, and the system does."""
    return second if _sizes(second) > _sizes(first) else first


def _sizes(processes: Fact[list[GpuProcess]]) -> int:
    return sum(isinstance(process.vram_bytes, Known) for process in processes.value_or([]))


def are_gpus(things: tuple[Facts, ...]) -> bool:
    """Whether a list is one of GPUs."""
    return all(isinstance(thing, Gpu) for thing in things)


def gpus_in_order(gpus: tuple[Gpu, ...]) -> tuple[Gpu, ...]:
    """The GPUs with those that are a part of the processor last; otherwise as they came."""
    return tuple(sorted(gpus, key=lambda gpu: gpu.kind.value_or("") == "integrated"))


def with_cards_first(machine: Machine) -> Machine:
    """The machine with its GPUs in that order, whoever wrote the list: the first is then one that computes."""
    gpus = machine.gpus
    if not isinstance(gpus, Known) or gpus.value == gpus_in_order(gpus.value):
        return machine
    return msgspec.structs.replace(machine, gpus=msgspec.structs.replace(gpus, value=gpus_in_order(gpus.value)))


def computing_gpus(gpus: tuple[Gpu, ...]) -> tuple[Gpu, ...]:
    """Those that a runtime takes by itself: the cards where there are any, else what the processor has.

    llama.cpp adds an integrated GPU to its devices only where it finds no other.
    """
    cards = tuple(gpu for gpu in gpus if gpu.kind.value_or("") != "integrated")
    return cards or gpus


F = TypeVar("F", bound=Facts)


def bounded(facts: F) -> F:
    """The facts; one outside its bounds becomes a failed look instead of a false number."""
    try:
        return msgspec.convert(msgspec.to_builtins(facts), type(facts))
    except (msgspec.ValidationError, OverflowError):
        return _each_by_itself(facts)


def _each_by_itself(facts: F) -> F:
    """The same where some do not fit: only one by one it shows which."""
    kinds = _kinds(type(facts))
    changes: dict[str, Any] = {}
    for name in facts.__struct_fields__:
        value = getattr(facts, name)
        if isinstance(value, Known):
            changes[name] = bounded_fact(value, kinds[name])
        elif isinstance(value, Facts):
            changes[name] = bounded(value)
    return msgspec.structs.replace(facts, **changes)


def bounded_fact(fact: Fact[Any], kind: Any) -> Fact[Any]:
    """The fact as its type declares it, or a failed look where it does not fit."""
    if not isinstance(fact, Known):
        return fact
    try:
        checked: Fact[Any] = msgspec.convert(msgspec.to_builtins(fact), kind)
    except (msgspec.ValidationError, OverflowError) as error:
        return failed(f"{fact.source} answered {str(fact.value)[:40]}: {error}")
    return checked


@cache
def _kinds(kind: type[Facts]) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)


def overlaid(base: F, over: F) -> F:
    """`base` with every fact that `over` has looked for; a known value is never replaced by a missing one."""
    changes: dict[str, Any] = {}
    for name in base.__struct_fields__:
        old, new = getattr(base, name), getattr(over, name)
        if isinstance(old, Facts) and isinstance(new, Facts):
            changes[name] = overlaid(old, new)
        elif isinstance(new, tuple):
            changes[name] = old + new
        elif isinstance(old, Known) and isinstance(new, Known) and isinstance(old.value, tuple):
            # known lists of things, such as the GPUs of two vendors
            # Both lists; a GPU that both speak of stands there once
            changes[name] = Known(
                gpus_in_order(joined_gpus(old.value, new.value))
                if are_gpus(old.value + new.value)
                else old.value + new.value,
                new.origin,
                f"{old.source}, {new.source}",
            )
        elif new != NOT_LOOKED and not (isinstance(old, Known) and isinstance(new, Unknown)):
            changes[name] = new
    return msgspec.structs.replace(base, **changes)


def joined_gpus(old: tuple[Gpu, ...], new: tuple[Gpu, ...]) -> tuple[Gpu, ...]:
    """The GPUs of both lists; where both speak of the same one, the first is believed and the second fills gaps."""
    gpus = list(old)
    for gpu in new:
        twin = same_gpu(gpu, old)
        if twin is None or twin not in gpus:  # of two that are alike, the other one is it already
            gpus.append(gpu)
        else:
            both = msgspec.structs.replace(
                overlaid(gpu, twin), processes=fuller_processes(twin.processes, gpu.processes)
            )
            gpus[gpus.index(twin)] = both
    return tuple(gpus)
