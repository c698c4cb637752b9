"""The quants that a model could be had in without asking anybody: those of its files, and what llama-quantize makes."""

from collections.abc import Iterable, Mapping

from unslow.catalog.mixes import Mix, find_mix
from unslow.facts.errors import UserError


def candidate_quants(found_quant: str, mixes: Mapping[str, Mix]) -> tuple[str, ...]:
    """The quant of a file and every usual mix of fewer bits, which llama-quantize can make of it, the finest first.

    Nothing says that these were published anywhere. What is made of a file that is quantised already is worse than the
    same mix made of 16 bits. Of a publisher's own mix, and of one that spares only experts, nothing is made: how many
    bits these have depends on the model.
    """
    try:
        found = find_mix(found_quant)
    except UserError:
        return (found_quant,)
    if any(rule.stacked and rule.type != found.main_type.name and not rule.tensors for rule in found.rules):
        return (found.name,)
    coarser = [m for m in mixes.values() if m.usual and m.bits_per_weight < found.bits_per_weight]
    return (found.name, *(m.name for m in sorted(coarser, key=lambda m: (-m.bits_per_weight, m.name))))


def finest_first(quants: Iterable[str]) -> tuple[str, ...]:
    """Quants of files from the finest to the coarsest by their bits; those whose bits nobody knows come last."""
    return tuple(sorted(dict.fromkeys(quants), key=lambda quant: (-_bits(quant), quant)))


def _bits(quant: str) -> float:
    try:
        return find_mix(quant).bits_per_weight
    except UserError:
        return 0.0
