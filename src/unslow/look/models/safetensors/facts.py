"""What a checkpoint says of its model, as facts with their source."""

import re
from typing import Any

from unslow.catalog.weight_parts import Role, parts_of_shape, plainly, stored_as, total_bytes
from unslow.facts.errors import UserError
from unslow.facts.merge import overlaid
from unslow.facts.model import Model
from unslow.facts.values import Fact, estimated, not_found, reported
from unslow.look.models.hf_config import Config, Shape, hf_shape, named_quant, shape_of_config
from unslow.look.models.safetensors.checkpoint import Checkpoint

_TOKEN_TABLE = re.compile(
    r"(?:^|\.)(?:embed_tokens(?:_per_layer)?|wte|embed_in|tok_embeddings|word_embeddings|shared)\."
)
_OUTPUT = re.compile(r"(?:^|\.)(?:lm_head|embed_out|output)\.(?:weight|qweight|scales|biases|qzeros|g_idx)")
_EXPERT = re.compile(r"\.experts?\.")


def model_facts(checkpoint: Checkpoint, source: str = "") -> Model:
    """The model that the checkpoint describes; `source` names it, by default its path."""
    source = source or checkpoint.path
    shape = hf_shape(checkpoint.config) if checkpoint.config else {}
    config = f"{source}: config.json"
    return Model(
        name=_name(checkpoint, config),
        path=reported(checkpoint.path, source),
        architecture=_architecture(checkpoint, shape, config),
        quant=_quant(checkpoint, source),
        layers=_count(shape, "layers", config),
        context_trained=_count(shape, "context", config),
        width=_count(shape, "width", config),
        heads=_count(shape, "heads", config),
        kv_heads=_count(shape, "kv_heads", config),
        key_length=_count(shape, "head_dim", config),
        value_length=_count(shape, "v_head_dim" if "kv_lora_rank" in shape else "head_dim", config),
        vocabulary=_count(shape, "vocabulary", config),
        experts=_count(shape, "experts", config, absent=0),
        experts_used=_count(shape, "experts_used", config, absent=0),
        expert_width=_count(shape, "expert_intermediate", config, absent=0),
        made_up=reported(False, source),  # noqa: FBT003 (a fact, not a flag)
        **_sizes(checkpoint, f"{source}: tensors"),
    )


def config_facts(config: Config, source: str) -> Model:
    """The model of a folder without weights: their sizes are counted from the numbers of its config."""
    told = model_facts(Checkpoint(path=source, parts=[], tensors=[], config=config))
    shape, quant = shape_of_config(hf_shape(config)), named_quant(config)
    if not shape.layers or not shape.width or not shape.heads:
        missing = not_found(
            f"{source}: holds no safetensors files, and its config.json does not tell its layers and heads"
        )
        return overlaid(told, Model(weights_bytes=missing))
    try:
        parts = parts_of_shape(shape, stored_as(quant))
    except UserError as error:
        missing = not_found(f"{source}: holds no safetensors files; by its config.json, {error.message}")
        return overlaid(told, Model(weights_bytes=missing))
    table, output, experts = (
        sum(part.bytes for part in parts if part.role is role) for role in (Role.EMBEDDING, Role.OUTPUT, Role.EXPERTS)
    )
    numbers: dict[str, Any] = {
        "quant": quant,
        "parameters": total_bytes(parts_of_shape(shape, plainly(1))),
        "weights_bytes": total_bytes(parts),
        "expert_bytes": experts,
        "token_table_bytes": table,
        "output_bytes": output or table,
        "output_tied": shape.tied,
    }
    return overlaid(told, Model(**{name: estimated(n, f"{source}: config.json") for name, n in numbers.items()}))


def _count(shape: Shape, name: str, source: str, absent: int | None = None) -> Fact[int]:
    value = shape.get(name)
    if isinstance(value, int):
        return reported(value, f"{source}: {name}")
    if absent is not None and shape:
        return reported(absent, f"{source}: no {name}")
    return not_found(f"{source} does not tell {name}")


def _name(checkpoint: Checkpoint, source: str) -> Fact[str]:
    name = checkpoint.config.get("_name_or_path")
    if isinstance(name, str) and name:
        return reported(name, f"{source}: _name_or_path")
    return not_found(f"{source} has no name")


def _architecture(checkpoint: Checkpoint, shape: Shape, source: str) -> Fact[str]:
    """The family of the whole model, not only of its language part."""
    for name in (checkpoint.config.get("model_type"), shape.get("model_type")):
        if isinstance(name, str) and name:
            return reported(name, f"{source}: model_type")
    return not_found(f"{source} has no model_type")


def _quant(checkpoint: Checkpoint, source: str) -> Fact[str]:
    if checkpoint.quantization:
        return reported(checkpoint.quantization.name, f"{source}: {checkpoint.quantization.method}")
    if not checkpoint.tensors:
        return not_found(f"{source} has no tensors")
    return estimated(next(iter(checkpoint.type_bytes)), f"{source}: the type of most bytes")


def _sizes(checkpoint: Checkpoint, source: str) -> dict[str, Any]:
    if not checkpoint.tensors:
        missing = not_found(f"{source}: none")
        names = ("parameters", "weights_bytes", "expert_bytes", "token_table_bytes", "output_bytes", "output_tied")
        return dict.fromkeys(names, missing)
    count = checkpoint.parameters
    table, output = _bytes_of(checkpoint, _TOKEN_TABLE), _bytes_of(checkpoint, _OUTPUT)
    return {
        "parameters": not_found(f"{source}: packed, nothing tells how") if count is None else reported(count, source),
        "weights_bytes": reported(checkpoint.weights_bytes, source),
        "expert_bytes": reported(_bytes_of(checkpoint, _EXPERT), source),
        "token_table_bytes": reported(table, source),
        "output_bytes": reported(output or table, source),
        "output_tied": reported(not output, source),
    }


def _bytes_of(checkpoint: Checkpoint, pattern: re.Pattern[str]) -> int:
    return sum(t.bytes for t in checkpoint.tensors if pattern.search(t.name))
