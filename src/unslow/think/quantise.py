"""The type that each tensor of a model gets in a mix, as llama-quantize picks it."""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from typing import Literal, NamedTuple, TypeAlias

from unslow.catalog.quants import Layers, Mix, Role, Rule, find_mix, quants, sensitive
from unslow.facts.errors import UserError
from unslow.facts.model import MetadataValue

WIDE = ("F32", "BF16", "F16")
_MATRIX = 2  # dimensions
_STACKED = 3  # dimensions
_SMALLEST_BLOCK = 32  # numbers; beneath it there is nothing to fall back to but F16
_SEVENTY_BILLION = {"llama": 80, "qwen2": 80, "deci": 80, "olmo": 80, "jais2": 68}
"""The models that llama.cpp calls 70B, by their number of layers (src/models/*.cpp: LLM_TYPE_70B)."""
_EIGHT_EXPERTS = 8  # Mixtral's number: to give its small attention matrices eight bits costs about 128 MB
Table: TypeAlias = Literal["output", "token_table"]
_TABLES: dict[str, Table] = {
    "output.weight": "output",
    "token_embd.weight": "token_table",
    "per_layer_token_embd.weight": "token_table",
}


# Values decide what a layer says: matrices that hold them with the queries and keys, or for MLA, count as they do.
_ROLES: dict[str, Role] = {
    "attn_qkv.weight": "attn_v",
    "attn_kv_b.weight": "attn_v",
    "attn_v.weight": "attn_v",
    "attn_k.weight": "attn_k",
    "attn_q.weight": "attn_q",
    "attn_output.weight": "attn_output",
    "ffn_up": "ffn_up",
    "ffn_gate": "ffn_gate",
    "ffn_down": "ffn_down",
}
_NAMED = re.compile("|".join(map(re.escape, _ROLES)))
_LAYER = re.compile(r"blk\.(\d{1,9})\.")


class _Model(NamedTuple):
    architecture: str
    layers: int
    experts: int
    heads_sharing: int
    is_70b: bool
    tied: bool  # Whether the token table is the output matrix too
    value_matrices: int
    matrix: bool  # Whether there is an importance matrix


class _Place(NamedTuple):
    name: str
    shape: tuple[int, ...]
    role: str | None
    before: int  # How many of this role came before


def types_of(
    architecture: str,
    metadata: Mapping[str, MetadataValue],
    tensors: Sequence[tuple[str, tuple[int, ...]]],
    mix: str,
    *,
    importance_matrix: bool | None = None,
) -> list[str]:
    """The ggml type of each tensor; without a word on the importance matrix, there is one where the mix needs it."""
    chosen = find_mix(mix)
    has_matrix = chosen.needs_matrix if importance_matrix is None else importance_matrix
    model = _model(architecture, metadata, [name for name, _ in tensors], matrix=has_matrix)
    wide = chosen.main_type.name if chosen.main_type.name in WIDE else "F16"
    types: dict[str, str] = {}
    counts: Counter[str | None] = Counter()
    for name, shape in sorted(tensors, key=lambda t: (layer_of(t[0]), t[0])):  # as llama-quantize goes through them
        if is_kept(architecture, name, shape):
            types[name] = stored_type(architecture, name, shape, wide)
        else:
            role = role_of(name)
            types[name] = _type(chosen, model, _Place(name, shape, role, counts[role]))
            counts[role] += 1
    return [types[name] for name, _ in tensors]


def _model(architecture: str, metadata: Mapping[str, MetadataValue], names: list[str], *, matrix: bool) -> _Model:
    keys = ("block_count", "expert_count", "num_loops", "attention.head_count")
    values = [metadata.get(f"{architecture}.{key}") for key in keys]
    values.append(metadata.get(f"{architecture}.attention.head_count_kv", values[-1]))
    # Of numbers that are given for each layer, that of the first
    firsts = [(value[0] if value else 0) if isinstance(value, list) else value for value in values]
    layers, experts, loops, heads, kv_heads = (first if isinstance(first, int) else 0 for first in firsts)
    grouped = heads != kv_heads or architecture != "llama"  # an old Llama of 80 layers without groups is the 65B
    return _Model(
        architecture,
        layers * max(1, loops) + (architecture == "graniteswitch"),  # loops count again; its router is a layer more
        experts,
        heads_sharing=heads // kv_heads if kv_heads else 0,
        is_70b=_SEVENTY_BILLION.get(architecture) == layers and grouped and experts != _EIGHT_EXPERTS,
        tied="output.weight" not in names,
        value_matrices=sum(role_of(name) == "attn_v" for name in names),
        matrix=matrix,
    )


@lru_cache(maxsize=8192)  # the same tensors come back for each mix that is tried
def is_kept(architecture: str, name: str, shape: tuple[int, ...]) -> bool:
    """Whether llama-quantize leaves a tensor alone."""
    if dimensions(shape) < _MATRIX or not name.endswith("weight"):
        return True
    by_part = _parts(architecture, "kept").search(name)
    return bool(by_part) or any(name in group.kept_names for group in sensitive(architecture))


def stored_type(architecture: str, name: str, shape: tuple[int, ...], wide: str) -> str:
    """The type of a tensor in a file that is not quantised, whose matrices are of the type `wide`."""
    for group in sensitive(architecture):
        if group.stored and any(part in name for part in group.kept):
            return group.stored
    if dimensions(shape) < _MATRIX or not name.endswith(".weight"):
        return "F32"
    return "F32" if _parts(architecture, "f32").search(name) else wide


def _type(mix: Mix, model: _Model, place: _Place) -> str:
    main = mix.main_type.name
    if mix.tables and place.role in ("output", "token_table"):
        return mix.tables
    if main in WIDE:
        return main
    if _parts(model.architecture, "eight_bits").search(place.name):  # in every mix of quantised types
        return _fitting("Q8_0", place.shape[0])
    if place.role == "output" or (place.role == "token_table" and model.tied):
        # Falcon's output matrix, and one whose rows are no whole blocks, get eight bits
        odd = place.shape[0] % mix.main_type.block_elements
        eight = model.architecture == "falcon" or odd or main == "Q8_0"
        return _fitting("Q8_0" if eight else mix.output, place.shape[0])
    if place.role == "token_table":
        return _fitting(mix.token_table or main, place.shape[0])
    by_rule = next((rule.type for rule in mix.rules if _holds(rule, model, place)), main)
    if mix.spares_attention and place.role in ("attn_v", "attn_k"):
        # More bits for the matrices that few heads share: they are small beside the others of such models
        if model.experts == _EIGHT_EXPERTS:
            by_rule = "Q8_0"
        elif model.is_70b and place.role == "attn_v" and by_rule in ("Q3_K", "Q4_K"):
            by_rule = "Q5_K"
    return _fitting(by_rule, place.shape[0])


def _holds(rule: Rule, model: _Model, place: _Place) -> bool:
    if not (
        (not rule.tensors or place.role in rule.tensors)
        and rule.architecture in ("", model.architecture)
        and rule.experts in (0, model.experts)
        and model.experts >= rule.experts_at_least
        and model.heads_sharing >= rule.heads_sharing
        and rule.matrix in (None, model.matrix)
        and (not rule.stacked or dimensions(place.shape) >= _STACKED)
    ):
        return False
    if place.role == "attn_v":
        return is_among(rule.layers, place.before, model.value_matrices)
    # It stands among others by layer where experts make several of a layer
    by_layer = model.experts > 1 and not rule.by_count and layer_of(place.name) >= 0
    return is_among(rule.layers, layer_of(place.name) if by_layer else place.before, model.layers)


def is_among(layers: Layers, position: int, total: int) -> bool:
    """Whether a position of so many belongs to the layers that a rule means."""
    eighth, last_eighth = total // 8, 7 * total // 8
    if layers == "both ends and every third":
        return position < eighth or position >= last_eighth or (position - eighth) % 3 == 2  # noqa: PLR2004 (the third)
    if layers == "middle":
        return eighth <= position < last_eighth
    ends = {"all": total, "first two": 2, "first four": 4, "first sixteenth": total // 16, "first eighth": eighth}
    return layers == "all" or position < ends[layers]


def _fitting(name: str, row: int) -> str:
    """The type, or what llama.cpp falls back to for rows that are no whole blocks of it."""
    quant = quants()[name]
    if row % quant.block_elements == 0:
        return name
    if quant.block_elements > _SMALLEST_BLOCK and not quant.fallback:
        raise UserError(f"llama-quantize cannot make {name} from rows of {row} values", "Choose another quant")
    fallback = quants()[quant.fallback or name]
    return "F16" if row % fallback.block_elements else fallback.name


@lru_cache(maxsize=8192)  # the same names come back for each mix that is tried
def role_of(name: str) -> Role | Table | None:
    """What a tensor is for; None for those that no mix tells apart."""
    if name in _TABLES:
        return _TABLES[name]
    found = _NAMED.search(name)
    return _ROLES[found[0]] if found else None


@lru_cache(maxsize=8192)
def layer_of(name: str) -> int:
    """The repeating layer that a tensor belongs to; -1 outside of them."""
    found = _LAYER.match(name)
    return int(found[1]) if found else -1


def dimensions(shape: tuple[int, ...]) -> int:
    """The number of dimensions, as ggml counts them: a trailing 1 is none."""
    count = len(shape)
    while count > 1 and shape[count - 1] <= 1:
        count -= 1
    return count


@cache
def _parts(architecture: str, kind: Literal["kept", "eight_bits", "f32"]) -> re.Pattern[str]:
    """What a name of that kind has in it; where there is nothing of the kind, no name does."""
    parts = [re.escape(part) for group in sensitive(architecture) for part in getattr(group, kind)]
    return re.compile("|".join(parts) or r"(?!)")
