"""The model behind a name: its numbers by the catalogue, in the type that the name carries or its publisher ships."""

from functools import lru_cache
from typing import Any

import msgspec

from unslow.catalog.mixes import find_mix
from unslow.catalog.model_names import find_model
from unslow.catalog.models import WellKnown
from unslow.catalog.quant_in_name import split_quant
from unslow.catalog.weight_parts import Part, Role, parts_of_shape, stored_as, total_bytes
from unslow.facts.errors import UserError
from unslow.facts.hf_shape import HfShape
from unslow.facts.model import Model
from unslow.facts.runtime import IN_BATCHES
from unslow.facts.values import Fact, estimated, not_found, reported
from unslow.fleet.snapshot.readings import SOURCE
from unslow.think.blueprints.made_up import made_up
from unslow.think.memory.blueprint_shape import shape_of_blueprint

LABEL_IT = "label its target in the scrape settings: `model: NAME`"
_LONGEST_NAME = 200
_USUAL_MIX = {"Ollama": "Q4_K_M"}
"""What a name without a quant means to a runtime: the tags of Ollama's library are in this mix."""


@lru_cache(maxsize=4096)  # a fleet of thousands has few models
def model_named(name: str, runtime: str, told_quant: str = "") -> Model:
    """What the catalogue has of it; the name alone where nobody knows it. A quant that was told goes first."""
    if not name:
        unnamed = not_found("nothing says which model it serves", LABEL_IT)
        return Model(name=unnamed, weights_bytes=unnamed, parameters=unnamed)
    told = Model(name=reported(name[:_LONGEST_NAME].rstrip("/").rpartition("/")[2] or name, f"{SOURCE}: model_name"))
    try:
        known = find_model(name[:_LONGEST_NAME])
        quant = told_quant or split_quant(name.rpartition("/")[2])[1]
        numbers = _of_safetensors(known, quant) if runtime in IN_BATCHES else _of_gguf(known, quant, runtime)
    except UserError as error:
        unknown = not_found(f"its model is none that the catalogue knows: {error.message[:200]}")
        return msgspec.structs.replace(told, weights_bytes=unknown, parameters=unknown)
    return msgspec.structs.replace(told, **numbers)


def _of_safetensors(known: WellKnown, quant: str) -> dict[str, Fact[Any]]:
    written = quant or known.published or "BF16"
    shape = shape_of_blueprint(made_up(known, "F16"))
    how = "as it is told" if quant else "as its publisher ships it"
    return _facts(known, shape, parts_of_shape(shape, stored_as(written)), written, how)


def _of_gguf(known: WellKnown, quant: str, runtime: str) -> dict[str, Fact[Any]]:
    written = quant or _USUAL_MIX.get(runtime, "")
    if not written:
        raise UserError("its quant is not told")
    find_mix(written)
    plan = made_up(known, written.upper().removeprefix("UD-"))
    facts = _facts(known, shape_of_blueprint(plan), [], written, "as it is told" if quant else "as is usual")
    size = sum(tensor.bytes for tensor in plan.tensors)
    return facts | {"weights_bytes": estimated(size, _source(known, written, "of its tensors"))}


def _facts(known: WellKnown, shape: HfShape, parts: list[Part], quant: str, how: str) -> dict[str, Fact[Any]]:
    source = _source(known, quant, how)
    table, output, experts = (
        sum(part.bytes for part in parts if part.role is role) for role in (Role.EMBEDDING, Role.OUTPUT, Role.EXPERTS)
    )
    heads, key, value = _cached(shape)
    numbers: dict[str, Any] = {
        "architecture": known.architecture, "quant": quant, "parameters": known.parameters, "layers": shape.layers,
        "width": shape.width, "vocabulary": shape.vocabulary, "context_trained": known.shape.context_trained,
        "heads": shape.heads, "kv_heads": heads, "key_length": key, "value_length": value, "experts": shape.experts,
        "experts_used": shape.experts_used, "expert_width": shape.expert_width, "output_tied": shape.tied,
    }  # fmt: skip
    if parts:
        numbers |= {"weights_bytes": total_bytes(parts), "token_table_bytes": table, "output_bytes": output or table}
        numbers |= {"expert_bytes": experts} if experts else {}
    return {name: estimated(number, source) for name, number in numbers.items()}


def _cached(shape: HfShape) -> tuple[int, int, int]:
    """Heads of keys and values, and the lengths of both, in a layer; of a latent, which all heads share, one."""
    if shape.kv_rank:
        return 1, shape.kv_rank + shape.rope_length, 0
    return shape.kv_heads, shape.key_length, shape.value_length


def _source(known: WellKnown, quant: str, how: str) -> str:
    return f"the catalogue: {known.name} in {quant}, {how}"
