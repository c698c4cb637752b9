"""What one token asks of a model that is known by its config and the sizes of its weights, as safetensors have them."""

from collections.abc import Iterable, Sequence

from unslow.catalog.weight_parts import Part, Role, parts_of_shape, plainly
from unslow.facts.hf_shape import HfShape, LayerKind
from unslow.think.physics.kinds import BYTES, HALF, NIBBLES
from unslow.think.speed.load import LayerLoad, ModelLoad

_KINDS = {HALF: "f16", BYTES: "q8_0", NIBBLES: "q4_0"}
"""The type of ggml that a class of types was learned by; of engines that read safetensors only the class counts."""
_STATE_BYTES = 4
_WINDOWED = frozenset({LayerKind.WINDOW, LayerKind.CHUNK})
_BESIDE = frozenset({Role.EMBEDDING, Role.OUTPUT, Role.OTHER, Role.EXPERTS})


def hf_load(shape: HfShape, parts: Sequence[Part], types: str) -> ModelLoad:
    """The load of a model whose matrices are of one class of types; a tower for images is read by no token of text."""
    counted = parts_of_shape(shape, plainly(1))  # a byte for each weight
    table, output = (_sum(parts, role) for role in (Role.EMBEDDING, Role.OUTPUT))
    after = sum(p.bytes for p in parts if p.layer >= shape.layers and p.role not in _BESIDE)
    return ModelLoad(
        layers=tuple(_layer(shape, n, of, weights, types) for n, of, weights in _by_layer(shape, parts, counted)),
        output_bytes=float((table if shape.tied else output) + after),
        output_weights=float(shape.vocabulary * shape.width),
        output_kind=_KINDS[HALF],
        table_bytes=0.0 if shape.tied else float(table),
        width=shape.width,
        experts=shape.experts,
        experts_used=shape.experts_used,
    )


def _sum(parts: Iterable[Part], role: Role) -> int:
    return sum(part.bytes for part in parts if part.role is role)


def _by_layer(
    shape: HfShape, parts: Sequence[Part], counted: Sequence[Part]
) -> Iterable[tuple[int, list[Part], list[Part]]]:
    sizes: list[list[Part]] = [[] for _ in range(shape.layers)]
    weights: list[list[Part]] = [[] for _ in range(shape.layers)]
    for found, into in ((parts, sizes), (counted, weights)):
        for part in found:
            if 0 <= part.layer < shape.layers:
                into[part.layer].append(part)
    return zip(range(shape.layers), sizes, weights, strict=True)


def _layer(shape: HfShape, layer: int, parts: list[Part], weights: list[Part], types: str) -> LayerLoad:
    kind = _KINDS.get(types, _KINDS[NIBBLES])
    dense = float(sum(p.bytes for p in weights if p.role not in _BESIDE))
    experts = float(_sum(weights, Role.EXPERTS))
    attends = shape.kind(layer) not in {LayerKind.RECURRENT, LayerKind.BARE}
    keys, values = _cached(shape, layer) if attends else (0, 0)
    return LayerLoad(
        dense_bytes=float(sum(p.bytes for p in parts if p.role not in _BESIDE)),
        dense_weights=dense,
        expert_bytes=float(_sum(parts, Role.EXPERTS)),
        expert_weights=experts,
        kinds={kind: dense},
        expert_kinds={kind: experts} if experts else {},
        key_elements=float(keys),
        value_elements=float(values),
        window=float(shape.window if shape.kind(layer) in _WINDOWED else 0),
        score_products=float(_scores(shape, layer)) if attends else 0.0,
        state_bytes=float(_STATE_BYTES * shape.state) if shape.kind(layer) is LayerKind.RECURRENT else 0.0,
    )


def _cached(shape: HfShape, layer: int) -> tuple[int, int]:
    """Numbers of a token's key and value; a latent is read once for both."""
    if shape.kv_rank:
        return shape.kv_rank + shape.rope_length, 0
    heads = shape.kv_heads_of(layer)
    return heads * shape.key_length_of(layer), heads * shape.value_length_of(layer)


def _scores(shape: HfShape, layer: int) -> int:
    """Multiply-adds of attention for a token of depth; with a latent, all heads look at that."""
    if shape.kv_rank:
        return shape.heads * (2 * shape.kv_rank + shape.rope_length)
    return shape.heads * (shape.key_length_of(layer) + shape.value_length_of(layer))
