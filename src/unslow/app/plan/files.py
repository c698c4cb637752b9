"""The files of one model that a plan chooses among: the one that was named, its siblings, and quants to be had."""

import posixpath
from collections.abc import Callable, Iterator

from unslow.app.fit.models import CATALOGUE, Found, as_quant, find_gguf_model
from unslow.catalog.quant_in_name import split_quant
from unslow.facts.blueprint import Blueprint
from unslow.facts.errors import UserError
from unslow.look.system import LookError, System
from unslow.think.plan.llama_cpp.pieces import Pieces
from unslow.think.plan.llama_cpp.variants import Variant

OTHER_QUANTS = ("Q8_0", "Q6_K", "Q5_K_M", "Q4_K_M", "Q3_K_M", "Q2_K")
"""Of the mixes that llama-quantize makes, those that most publishers offer."""
SMALLEST_QUANTS = ("IQ2_M", "IQ2_XS", "IQ2_XXS")
"""Looked at where one of them is the first that fits onto the GPUs whole: that may be ten times as fast."""
_MOST_SIBLINGS = 6
_LIKE = 0.03
"""Of parameters: a file with so many fewer or more is another model."""


def variants_of(
    system: System | None, found: Found, fits_whole: Callable[[Blueprint], bool] = lambda _: True
) -> tuple[Variant, ...]:
    """The given one among its siblings and what could be had, finest first; without a system none lie beside it.

    `fits_whole` says whether all of a file fits onto the GPUs.
    """
    given = Variant(found.quant, Pieces(found.blueprint), found.parameters, _file(found), given=True, at_hand=True)
    known = {given.quant: given}
    for other in _siblings(system, found):
        known.setdefault(other.quant, _variant(other, at_hand=True))
    for quant in OTHER_QUANTS:
        if quant not in known:
            known[quant] = _variant(_made(found, quant), at_hand=found.source == CATALOGUE)
    every = sorted(known.values(), key=lambda v: -_bytes(v.blueprint))
    if fits_whole(every[-1].blueprint):
        return tuple(every)
    smaller = (_made(found, quant) for quant in SMALLEST_QUANTS if quant not in known)
    first = next((made for made in smaller if fits_whole(made.blueprint)), None)
    if first is None or _bytes(first.blueprint) >= _bytes(every[-1].blueprint):
        return tuple(every)
    return (*every, _variant(first, at_hand=found.source == CATALOGUE)._replace(whole=True))


def _made(found: Found, quant: str) -> Found:
    """The model as llama-quantize would make it."""
    return found._replace(quant=quant, blueprint=as_quant(found.blueprint, quant), source="")


def _bytes(blueprint: Blueprint) -> int:
    return sum(tensor.bytes for tensor in blueprint.tensors)


def _variant(found: Found, *, at_hand: bool) -> Variant:
    return Variant(found.quant, Pieces(found.blueprint), found.parameters, _file(found), at_hand=at_hand)


def _file(found: Found) -> str:
    return "" if found.source == CATALOGUE else found.source


def _siblings(system: System | None, found: Found) -> Iterator[Found]:
    """Files beside it that are the same model, by name, shape and number of parameters."""
    folder, name = posixpath.split(found.source)
    if system is None or not folder or not name.endswith(".gguf"):
        return
    stem = split_quant(name.removesuffix(".gguf"))[0]
    try:
        names = sorted(system.list_dir(folder))
    except LookError:
        return
    alike = [n for n in names if n != name and n.endswith(".gguf") and split_quant(n.removesuffix(".gguf"))[0] == stem]
    for other in alike[:_MOST_SIBLINGS]:
        try:
            read = find_gguf_model(system, posixpath.join(folder, other), None)
        except UserError:
            continue
        if _is_same(read, found):
            yield read


def _is_same(one: Found, other: Found) -> bool:
    near = abs(one.parameters - other.parameters) <= _LIKE * max(1, other.parameters)
    layers = one.blueprint.count("block_count") == other.blueprint.count("block_count")
    return near and layers and one.blueprint.architecture == other.blueprint.architecture and not one.incomplete
