"""One machine out of what several texts say of it."""

import re
from collections.abc import Iterable, Sequence

import msgspec

from unslow.facts.gpu_lists import in_order
from unslow.facts.machine import Gpu, Machine
from unslow.facts.merge import overlaid
from unslow.facts.values import NOT_LOOKED, Fact, Known

MOST_GPUS = 64
_NOISE = re.compile(r"(?i)\b(?:nvidia|geforce|amd|ati|radeon|intel|apple|corporation|graphics|\(r\)|\(tm\)|gpu)\b|[()]")


def merged_machine(machines: Iterable[Machine]) -> Machine:
    """Each laid over those before it; a GPU that two of them describe is one."""
    whole = Machine()
    for machine in machines:
        gpus = _merged_gpus(whole.gpus, machine.gpus)
        whole = overlaid(whole, msgspec.structs.replace(machine, gpus=NOT_LOOKED))
        whole = msgspec.structs.replace(whole, gpus=gpus)
    return msgspec.structs.replace(whole, gpus=_in_order(whole.gpus))


def _in_order(gpus: Fact[tuple[Gpu, ...]]) -> Fact[tuple[Gpu, ...]]:
    return Known(in_order(gpus.value), gpus.origin, gpus.source) if isinstance(gpus, Known) else gpus


def _merged_gpus(first: Fact[tuple[Gpu, ...]], second: Fact[tuple[Gpu, ...]]) -> Fact[tuple[Gpu, ...]]:
    if not isinstance(second, Known) or not second.value:
        return first if isinstance(first, Known) or second == NOT_LOOKED else second
    if not isinstance(first, Known) or not first.value:
        return second
    return Known(paired(first.value, second.value), second.origin, f"{first.source}, {second.source}")


def paired(first: Sequence[Gpu], second: Sequence[Gpu]) -> tuple[Gpu, ...]:
    """GPUs of two descriptions: those that can be the same are laid over one another, in their order."""
    gpus, free = list(first), set(range(len(first)))
    for gpu in second:
        alike = [place for place in sorted(free) if _may_be_the_same(gpus[place], gpu)]
        # of several that are alike, the one with the same number
        partner = min(alike, key=lambda place: (gpus[place].index != gpu.index, place), default=None)
        if partner is None:
            gpus.append(gpu)
        else:
            free.discard(partner)
            gpus[partner] = msgspec.structs.replace(overlaid(gpus[partner], gpu), index=gpu.index)
    return tuple(gpus[:MOST_GPUS])


def _may_be_the_same(one: Gpu, other: Gpu) -> bool:
    """By their names where both have one, else by maker and number."""
    ours, theirs = _words(one), _words(other)
    if ours and theirs:
        return ours <= theirs or theirs <= ours
    makers = {str(gpu.vendor.value_or("")).casefold() for gpu in (one, other)} - {""}
    return one.index == other.index and len(makers) <= 1


def _words(gpu: Gpu) -> set[str]:
    """The words that tell one model of GPU from another."""
    return set(_NOISE.sub(" ", gpu.name.value_or("")).casefold().split())
