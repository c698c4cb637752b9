"""A well-known model in a mix, down to its tensors, as its file would be."""

import math

import msgspec

from unslow.catalog.layouts import layouts
from unslow.catalog.mixes import find_mix
from unslow.catalog.models import WellKnown
from unslow.catalog.quants import quants
from unslow.facts.blueprint import Blueprint, Tensor, Value
from unslow.think.blueprints.metadata import metadata
from unslow.think.blueprints.tensors import Named, tensors
from unslow.think.quantise import types_of


def made_up(model: WellKnown, quant: str) -> Blueprint:
    """The model with the types that llama-quantize would give it; UserError where there is no such mix."""
    layout, stated = layouts()[model.architecture], msgspec.structs.asdict(model.shape)
    named = [*tensors(layout, stated)]
    keys = {**_general(model, quant), **metadata(model.architecture, layout, stated)}
    types = types_of(model.architecture, keys, named, quant)
    return Blueprint(
        architecture=model.architecture,
        metadata=keys,
        tensors=[_typed(one, type_) for one, type_ in zip(named, types, strict=True)],
        vocabulary=model.shape.vocabulary,
    )


def _general(model: WellKnown, quant: str) -> dict[str, Value]:
    file_type, _ = find_mix(quant).file_type
    return {"general.architecture": model.architecture, "general.name": model.name, "general.file_type": file_type.id}


def _typed(one: Named, type_: str) -> Tensor:
    row, *others = one.shape
    return Tensor(one.name, type_, one.shape, quants()[type_].bytes_of(row) * math.prod(others))
