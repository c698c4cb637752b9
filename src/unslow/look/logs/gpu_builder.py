"""Puts the facts about a GPU of any maker together."""

from collections.abc import Mapping
from typing import Any, get_type_hints

from unslow.facts.bounded import fitting
from unslow.facts.machine import Gpu
from unslow.facts.merge import overlaid
from unslow.facts.values import Fact, reported

MOST_GPUS = 64
_TYPES = get_type_hints(Gpu, include_extras=True)


def gpu_of(index: int, vendor: str, source: str, facts: Mapping[str, Fact[Any]]) -> Gpu:
    """The GPU; a fact outside the bounds that its type declares becomes a failed look instead of a false number."""
    checked: dict[str, Any] = {name: fitting(fact, _TYPES[name]) for name, fact in facts.items()}
    maker = {"vendor": reported(vendor, source)} if vendor else {}
    return Gpu(index=index, **{**maker, **checked})


def by_index(*lists: tuple[Gpu, ...]) -> tuple[Gpu, ...]:
    """The GPUs of several texts, by index; what a later one says is laid over what an earlier one said."""
    gpus: dict[int, Gpu] = {}
    for gpu in (gpu for found in lists for gpu in found):
        gpus[gpu.index] = overlaid(gpus[gpu.index], gpu) if gpu.index in gpus else gpu
    return tuple(gpus[index] for index in sorted(gpus)[:MOST_GPUS])
