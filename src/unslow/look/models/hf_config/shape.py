"""The plain numbers of a model's shape, whatever its family calls them in `config.json`."""

from collections.abc import Mapping
from typing import Any, TypeAlias

from unslow.catalog.config_defaults import config_defaults
from unslow.facts.model_bounds import CONFIG_BOUNDS, MOST_OF_ANYTHING, check_count
from unslow.look.models.hf_config.layer_types import layer_types, listed_layers
from unslow.look.system import LookError

Shape: TypeAlias = dict[str, int | bool | str | list[int] | list[str]]

INNER = ("text_config", "language_config", "llm_config", "thinker_config", "vlm_config", "decoder")
"""Where a config keeps the language model of one that also sees or hears."""
_DEEPEST = 3

NAMES: dict[str, tuple[str, ...]] = {
    "layers": ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "num_decoder_layers", "decoder_layers"),
    "encoder_layers": ("encoder_layers", "num_encoder_layers"),
    "width": ("hidden_size", "n_embd", "d_model", "dim", "model_dim"),
    "heads": ("num_attention_heads", "n_head", "n_heads", "num_heads", "num_query_heads",
              "decoder_attention_heads"),
    "kv_heads": ("num_key_value_heads", "num_kv_heads", "n_kv_heads", "n_head_kv", "kv_n_heads",
                 "multi_query_group_num"),
    "head_dim": ("head_dim", "kv_channels", "d_kv", "attention_head_dim"),
    "global_head_dim": ("global_head_dim",),
    "global_kv_heads": ("num_global_key_value_heads",),
    "intermediate": ("intermediate_size", "n_inner", "ffn_dim", "d_ff", "ffn_hidden_size", "hidden_dim"),
    "vocabulary": ("vocab_size", "padded_vocab_size", "n_vocab"),
    "context": ("max_position_embeddings", "n_positions", "max_seq_len", "seq_length", "max_sequence_length", "n_ctx"),
    "experts": ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"),
    "experts_used": ("num_experts_per_tok", "num_experts_per_token", "experts_per_token", "top_k_experts", "moe_topk",
                     "moe_top_k", "moe_k"),
    "expert_intermediate": ("moe_intermediate_size", "expert_ffn_hidden_size", "expert_intermediate_size"),
    "shared_experts": ("n_shared_experts", "num_shared_experts", "num_shared_expert", "moe_num_shared_experts"),
    "shared_expert_intermediate": ("shared_expert_intermediate_size", "shared_intermediate_size"),
    "dense_layers_first": ("first_k_dense_replace", "num_dense_layers", "moe_layer_start_index"),
    "expert_layer_step": ("decoder_sparse_step", "interleave_moe_layer_step", "moe_layer_freq", "expert_layer_period"),
    "dense_intermediate": ("intermediate_size_mlp",),
    "sliding_window": ("sliding_window", "sliding_window_size", "attention_window_size", "window_size"),
    "attention_chunk": ("attention_chunk_size",),
    "kv_shared_layers": ("num_kv_shared_layers",),
    "q_lora_rank": ("q_lora_rank",),
    "kv_lora_rank": ("kv_lora_rank",),
    "qk_rope_head_dim": ("qk_rope_head_dim",),
    "qk_nope_head_dim": ("qk_nope_head_dim",),
    "v_head_dim": ("v_head_dim",),
    "linear_key_heads": ("linear_num_key_heads",),
    "linear_value_heads": ("linear_num_value_heads",),
    "linear_key_head_dim": ("linear_key_head_dim",),
    "linear_value_head_dim": ("linear_value_head_dim",),
    "conv_kernel": ("linear_conv_kernel_dim", "mamba_d_conv", "conv_kernel", "conv_kernel_size", "conv_L_cache"),
    "mamba_state": ("mamba_d_state", "ssm_state_size", "state_size"),
    "mamba_expand": ("mamba_expand", "expand"),
    "mamba_heads": ("mamba_n_heads", "mamba_num_heads"),
    "mamba_head_dim": ("mamba_d_head", "mamba_head_dim"),
    "mamba_groups": ("mamba_n_groups", "n_groups"),
    "per_layer_width": ("hidden_size_per_layer_input",),
    "per_layer_vocabulary": ("vocab_size_per_layer_input",),
    "mtp_layers": ("num_nextn_predict_layers",),
}  # fmt: skip
"""Every number that `hf_shape` can give, and the keys that it may stand under."""

_INNER_PARTS = ("attn_config", "ffn_config", "text_model")  # DBRX and MPT keep some numbers one level down
_FOUR_WIDTHS = ("gpt2", "gptj", "gpt_bigcode", "bloom", "codegen", "gpt_neo", "falcon")


def hf_shape(config: Mapping[str, Any]) -> Shape:
    """The numbers of `NAMES` that a config gives, with `tied`, `model_type`, `layer_types`; absent where it is silent.

    `kv_heads`, `head_dim` and `intermediate` are filled in as Transformers does. A number that is given for each layer
    is the largest, and stands as it is under its name with `_per_layer`. `layer_types` has one word for each layer:
    full_attention, sliding_attention, chunked_attention, linear_attention, mamba, conv, or what the file itself says.
    LookError where a number is larger than that of any model.
    """
    text = text_config(config)
    shape: Shape = {}
    for name, keys in NAMES.items():
        key = next((k for k in keys if text.get(k) is not None), "")
        _put(shape, name, key, text.get(key))
    if count := "layers" not in shape and listed_layers(text):
        shape["layers"] = count
    _complete(shape, text)
    shape["tied"] = text.get("tie_word_embeddings") is not False  # Transformers 4 leaves out what is true
    if isinstance(text.get("model_type"), str):
        shape["model_type"] = text["model_type"]
    types = layer_types(text, _whole(shape, "layers"))
    if types:
        shape["layer_types"] = types
    if not any(kind.startswith("sliding") for kind in types):
        shape.pop("sliding_window", None)
    return shape


def text_config(config: Mapping[str, Any]) -> dict[str, Any]:
    """The language model's own config, with the values that Transformers leaves out as they equal its defaults."""
    text = dict(config)
    for _ in range(_DEEPEST):
        inner = next((text[k] for k in INNER if isinstance(text.get(k), dict) and text[k]), None)
        if inner is None:
            break
        outer = {k: v for k, v in text.items() if not isinstance(v, dict) and k != "model_type"}
        text = {**outer, **inner} if "model_type" not in inner else {**_kept(outer), **_defaults(inner), **inner}
    parts = [text[k] for k in _INNER_PARTS if isinstance(text.get(k), dict)]
    flat = {k: v for part in parts for k, v in part.items()}
    return {**flat, **_defaults(text), **text}


def _kept(outer: dict[str, Any]) -> dict[str, Any]:
    """What an outer config says for its language model too; its sizes may be those of something else."""
    return {k: v for k, v in outer.items() if k in ("tie_word_embeddings", "vocab_size", "max_position_embeddings")}


def _defaults(config: Mapping[str, Any]) -> dict[str, Any]:
    model_type = config.get("model_type")
    return dict(config_defaults(model_type)) if isinstance(model_type, str) else {}


def _put(shape: Shape, name: str, key: str, value: Any) -> None:
    try:
        check_count(key, value, CONFIG_BOUNDS.get(name, MOST_OF_ANYTHING))
    except ValueError as error:
        raise LookError(f"config.json {error}") from error
    if isinstance(value, list) and value and all(_is_count(v) for v in value):
        shape[f"{name}_per_layer"] = value
        value = max(value)
    if _is_count(value):
        shape[name] = int(value)


def _is_count(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 0


def _whole(shape: Shape, name: str) -> int:
    value = shape.get(name, 0)
    return value if isinstance(value, int) else 0


def _complete(shape: Shape, text: Mapping[str, Any]) -> None:
    """Fill in what a config leaves to be worked out."""
    heads, width = _whole(shape, "heads"), _whole(shape, "width")
    if heads:
        shape.setdefault("kv_heads", heads)
        if text.get("multi_query") is True and not text.get("new_decoder_architecture"):
            shape["kv_heads"] = 1  # Falcon and StarCoder, whatever number stands beside it
    nope, rope = _whole(shape, "qk_nope_head_dim"), _whole(shape, "qk_rope_head_dim")
    if "kv_lora_rank" in shape and nope + rope:
        shape["head_dim"] = nope + rope
    elif heads and width and not shape.get("head_dim"):
        shape["head_dim"] = width // heads
    if "intermediate" not in shape and text.get("model_type") in _FOUR_WIDTHS and width:
        shape["intermediate"] = 4 * width
    if _whole(shape, "experts") and not shape.get("expert_intermediate") and "intermediate" in shape:
        shape["expert_intermediate"] = shape["intermediate"]
