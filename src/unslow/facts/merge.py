"""Lays what one look has seen over what others have."""

from typing import Any, TypeVar

import msgspec

from unslow.facts.gpu_lists import are_gpus, fuller, in_order, same_gpu
from unslow.facts.machine import Facts, Gpu
from unslow.facts.values import NOT_LOOKED, Known, Unknown

F = TypeVar("F", bound=Facts)


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
            changes[name] = Known(_together(old.value, new.value), new.origin, f"{old.source}, {new.source}")
        elif new != NOT_LOOKED and not (isinstance(old, Known) and isinstance(new, Unknown)):
            changes[name] = new
    return msgspec.structs.replace(base, **changes)


def _together(old: tuple[Any, ...], new: tuple[Any, ...]) -> tuple[Any, ...]:
    """Both lists; a GPU that both speak of stands there once."""
    return in_order(joined_gpus(old, new)) if are_gpus(old + new) else old + new


def joined_gpus(old: tuple[Gpu, ...], new: tuple[Gpu, ...]) -> tuple[Gpu, ...]:
    """The GPUs of both lists; where both speak of the same one, the first is believed and the second fills gaps."""
    gpus = list(old)
    for gpu in new:
        twin = same_gpu(gpu, old)
        if twin is None or twin not in gpus:  # of two that are alike, the other one is it already
            gpus.append(gpu)
        else:
            both = msgspec.structs.replace(overlaid(gpu, twin), processes=fuller(twin.processes, gpu.processes))
            gpus[gpus.index(twin)] = both
    return tuple(gpus)
