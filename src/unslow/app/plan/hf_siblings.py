"""Other checkpoints of the same model that lie on this machine: a plan may choose among them."""

import posixpath
from collections.abc import Iterator

from unslow.app.fit.hf_models import FoundShape, find_shape
from unslow.catalog.model_names import find_model
from unslow.catalog.quant_in_name import split_quant
from unslow.facts.errors import UserError
from unslow.look.stores import described, find_everywhere
from unslow.look.system import System

MOST_SEEN, MOST_TAKEN = 300, 4
_LIKE = 0.03
"""Of parameters: a checkpoint with so many fewer or more is another model."""
_SAFETENSORS = "safetensors"
_ELSEWHERE = "mlx"
"""A packing that only Apple's library reads."""


def other_checkpoints(system: System, found: FoundShape) -> list[FoundShape]:
    """Those of the same name and shape in another format, the largest first."""
    known, others = {found.quant}, []
    for other in _alike(system, found):
        if other.quant not in known:
            known.add(other.quant)
            others.append(other)
    return sorted(others, key=lambda one: -sum(part.bytes for part in one.parts))


def _alike(system: System, found: FoundShape) -> Iterator[FoundShape]:
    name, folder = _identity(found.name), posixpath.dirname(found.source.rstrip("/"))
    seen = find_everywhere(system, [folder] if folder else []).models[:MOST_SEEN]
    alike = [m for m in seen if m.path.rstrip("/") != found.source.rstrip("/") and _identity(m.name) == name]
    for stored in (described(system, model) for model in alike[:MOST_TAKEN]):
        if stored.format != _SAFETENSORS or stored.broken:
            continue
        try:
            other = find_shape(system, stored.path, None)
        except UserError:
            continue
        if other.packing != _ELSEWHERE and _is_same(other, found):
            yield other


def _identity(name: str) -> str:
    """The model that a name means, whatever format it tells of."""
    try:
        return find_model(name).name
    except UserError:
        return split_quant(name.rstrip("/").rpartition("/")[2])[0].casefold()


def _is_same(one: FoundShape, other: FoundShape) -> bool:
    near = abs(one.parameters - other.parameters) <= _LIKE * max(1, other.parameters)
    shape = (one.shape.layers, one.shape.width, one.shape.heads) == (
        other.shape.layers, other.shape.width, other.shape.heads
    )  # fmt: skip
    return shape and (near or not one.parameters or not other.parameters)
