"""Facts of several sources laid over each other, the GPUs of one machine matched, and all held to their bounds."""

from contextlib import suppress
from functools import cache
from typing import Any, TypeVar, cast, get_type_hints

import msgspec

from unslow.facts.machine import Facts, Gpu, GpuProcess, Machine
from unslow.facts.values import NOT_LOOKED, Fact, Known, Unknown, failed_fact

F = TypeVar("F", bound=Facts)


def overlaid(base: F, over: F) -> F:
    """`base` with every fact that `over` has looked for; a known value is never replaced by a missing one."""
    changes: dict[str, Any] = {}
    for name in base.__struct_fields__:
        old, new = getattr(base, name), getattr(over, name)
        if isinstance(old, Facts) and isinstance(new, Facts):
            changes[name] = overlaid(old, new) if old is not new else old
        elif isinstance(new, tuple):
            changes[name] = old + new
        elif isinstance(old, Known) and isinstance(new, Known) and isinstance(old.value, tuple):
            both = old.value + new.value  # known lists of things, such as the GPUs of two vendors
            if all(isinstance(thing, Gpu) for thing in both):
                both = gpus_in_order(joined_gpus(old.value, new.value))
            changes[name] = Known(both, new.origin, f"{old.source}, {new.source}")
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
            # On Windows NVIDIA's driver tells no sizes of processes, and the system does
            fuller = gpu.processes if _sizes(gpu.processes) > _sizes(twin.processes) else twin.processes
            gpus[gpus.index(twin)] = msgspec.structs.replace(overlaid(gpu, twin), processes=fuller)
    return tuple(gpus)


def same_gpu(gpu: Gpu, gpus: tuple[Gpu, ...]) -> Gpu | None:
    """The one among these that is the same device: by its place on the bus, else by a name that only one has."""
    place, name = gpu.bus_id.value_or(""), gpu.name.value_or("")
    if place and any(other.bus_id.value_or("") == place for other in gpus):
        return next(other for other in gpus if other.bus_id.value_or("") == place)
    named = [other for other in gpus if name and other.name.value_or("") == name]
    apart = place and any(other.bus_id.value_or("") for other in named)
    return named[0] if len(named) == 1 and not apart else None


def _sizes(processes: Fact[list[GpuProcess]]) -> int:
    return sum(isinstance(process.vram_bytes, Known) for process in processes.value_or([]))


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
    """Those that a runtime uses by default: the cards where there are any, else what the processor has.

    llama.cpp adds an integrated GPU to its devices only where it finds no other.
    """
    cards = tuple(gpu for gpu in gpus if gpu.kind.value_or("") != "integrated")
    return cards or gpus


def bound_facts(facts: F) -> F:
    """The facts; one outside its bounds becomes a failed look instead of a false number."""
    with suppress(msgspec.ValidationError, OverflowError):
        return msgspec.convert(msgspec.to_builtins(facts), type(facts))
    kinds = _kinds(type(facts))
    changes: dict[str, Any] = {}
    for name in facts.__struct_fields__:  # only one by one it shows which does not fit
        value = getattr(facts, name)
        if isinstance(value, Known):
            changes[name] = bounded_fact(value, kinds[name])
        elif isinstance(value, Facts):
            changes[name] = bound_facts(value)
    return msgspec.structs.replace(facts, **changes)


def bounded_fact(fact: Fact[Any], kind: Any) -> Fact[Any]:
    """The fact as its type declares it, or a failed look where it does not fit."""
    if not isinstance(fact, Known):
        return fact
    try:
        return cast("Fact[Any]", msgspec.convert(msgspec.to_builtins(fact), kind))
    except (msgspec.ValidationError, OverflowError) as error:
        return failed_fact(f"{fact.source} answered {str(fact.value)[:40]}: {error}")


@cache
def _kinds(kind: type[Facts]) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)
