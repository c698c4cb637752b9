"""`config.json`, as Transformers writes it beside the weights: what a model is, in the dialect of its family."""

import json
from collections.abc import Callable, Mapping
from functools import partial
from itertools import cycle, islice
from typing import Any, TypeAlias

import msgspec

from unslow.catalog.architectures import config_defaults
from unslow.facts.model import CONFIG_BOUNDS, MOST_LAYERS, MOST_OF_ANYTHING, HfShape, LayerKind, check_count
from unslow.look.system import LookError, System, look_if_there

Numbers = Mapping[str, int | bool | str | list[int] | list[str]]
_KINDS = {
    "full_attention": LayerKind.FULL,
    "sliding_attention": LayerKind.WINDOW,
    "chunked_attention": LayerKind.CHUNK,
    **dict.fromkeys(("linear_attention", "mamba", "conv"), LayerKind.RECURRENT),
    **dict.fromkeys(("mlp", "moe"), LayerKind.BARE),
}
_TWO_BASES = ("gemma3", "gemma3_text", "gemma3n_text")
"""Windowed layers rotate with a base of their own, and full ones stretch their positions by eight."""
_GEMMA_ROTATIONS = 9
_FOUR_NORMS = ("gemma2", "gemma3", "gemma3_text", "gemma4", "gemma4_text")

# Numbers of a shape that `hf_shape` gives as they are, by its names
_AS_THEY_ARE = {
    "layers": "layers", "width": "width", "vocabulary": "vocabulary", "heads": "heads", "kv_heads": "kv_heads",
    "positions": "context", "experts": "experts", "experts_used": "experts_used", "kv_rank": "kv_lora_rank",
    "full_kv_heads": "global_kv_heads", "full_key_length": "global_head_dim", "shared_kv_layers": "kv_shared_layers",
    "leading_dense": "dense_layers_first",
}  # fmt: skip
Config = dict[str, Any]
MOST_CONFIG_BYTES = 2 * 1024**2  # with one entry for each layer of a pruned model, some have a fifth of it
DEEPEST = 6
LONGEST_LIST = 1024
LONGEST_TEXT = 256
MOST_KEYS = 2048
LARGEST_NUMBER = 2**53
_LISTS_OF_NAMES = ("ignore", "ignored_layers", "modules_to_not_convert", "exclude_modules")  # of thousands of modules
FULL, SLIDING, CHUNKED = "full_attention", "sliding_attention", "chunked_attention"
LINEAR, MAMBA = "linear_attention", "mamba"
_Config = Mapping[str, Any]
_WORDS = {"attention": FULL, "global": FULL, "local": SLIDING}
_LETTERS = {"M": MAMBA, "*": FULL, "-": "mlp", "E": "moe", "L": SLIDING, "G": FULL}
_ALIKE = {"mamba": MAMBA, "mamba2": MAMBA, "falcon_mamba": MAMBA, "falcon_h1": "hybrid"}
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
    "q_lora_rank": ("q_lora_rank",), "kv_lora_rank": ("kv_lora_rank",),
    "qk_rope_head_dim": ("qk_rope_head_dim",), "qk_nope_head_dim": ("qk_nope_head_dim",),
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
_OF_THE_WHOLE = ("tie_word_embeddings", "vocab_size", "max_position_embeddings")
_FOUR_WIDTHS = ("gpt2", "gptj", "gpt_bigcode", "bloom", "codegen", "gpt_neo", "falcon")
MOST_OVERRIDES = 4096
_PARTS = ("weights", "input_activations")  # of a group of compressed-tensors
_FIXED = {"fp8": (8, "FP8"), "fbgemm_fp8": (8, "FP8"), "finegrained_fp8": (8, "FP8"), "mxfp4": (4, "MXFP4")}
_TITLES = {"gptq": "GPTQ", "awq": "AWQ", "auto-round": "AutoRound", "intel/auto-round": "AutoRound", "hqq": "HQQ"}


class Quantization(msgspec.Struct, frozen=True, kw_only=True):
    """A method of quantising; 0 bits where its config does not tell them."""

    method: str  # As the file names it: gptq, awq, fp8, compressed-tensors, bitsandbytes, modelopt, mxfp4, mlx
    name: str  # As people call the result: GPTQ 4-bit, NVFP4, W4A16
    bits: int = 0
    override_bits: dict[str, int] = {}  # Of single modules, by name, where they differ (MLX)


def read_config(system: System, folder: str, name: str = "config.json") -> Config:
    """The config in a folder, trimmed; empty where there is none."""
    path = f"{folder}/{name}"
    data = look_if_there(None, system.read_bytes, path, MOST_CONFIG_BYTES)
    return {} if data is None else parse_config(data, path)


def parse_config(data: bytes, source: str) -> Config:
    """The JSON object in `data`, trimmed; LookError where it is anything else."""
    try:
        value = json.loads(data, parse_constant=lambda _: None)  # Python writes Infinity, which JSON does not have
    except (ValueError, RecursionError) as error:
        raise LookError(f"{source}: is not JSON: {str(error)[:80]}") from error
    if not isinstance(value, dict):
        raise LookError(f"{source}: is not a JSON object")
    trimmed: Config = _trim(value, DEEPEST)
    return trimmed


def _trim(value: Any, depth: int) -> Any:
    """The value without what is not needed; an ellipsis where nothing is left."""
    match value:
        case None | bool():
            return value
        case int() | float():
            return value if abs(value) <= LARGEST_NUMBER else ...
        case str():
            return value if len(value) <= LONGEST_TEXT else ...
        case dict() if depth > 0:
            kept = [(key, v) for key, v in value.items() if key not in _LISTS_OF_NAMES and len(key) <= LONGEST_TEXT]
            trimmed = ((key, _trim(v, depth - 1)) for key, v in kept[:MOST_KEYS])
            return {key: v for key, v in trimmed if v is not ...}
        case list() if depth > 0 and len(value) <= LONGEST_LIST:
            items = [_trim(v, depth - 1) for v in value]
            return ... if ... in items else items
        case _:
            return ...


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
    lists = (text.get(key) for key in ("layer_types", "layers_block_type", "hybrid_override_pattern"))
    named = (words for words in lists if isinstance(words, str | list) and all(isinstance(word, str) for word in words))
    if "layers" not in shape and (words := next(filter(None, named), None)):
        shape["layers"] = len(words)
    _complete(shape, text)
    shape["tied"] = text.get("tie_word_embeddings") is not False  # Transformers 4 leaves out what is true
    if isinstance(text.get("model_type"), str):
        shape["model_type"] = text["model_type"]
    types = layer_types(text, _count(shape, "layers"))
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
        if "model_type" in inner:  # the sizes of the outer one may be those of something else
            outer = {k: v for k, v in outer.items() if k in _OF_THE_WHOLE}
            inner = {**config_defaults(str(inner["model_type"])), **inner}
        text = {**outer, **inner}
    parts = [text[k] for k in _INNER_PARTS if isinstance(text.get(k), dict)]
    flat = {k: v for part in parts for k, v in part.items()}
    return {**flat, **config_defaults(str(text.get("model_type"))), **text}


def _put(shape: Shape, name: str, key: str, value: Any) -> None:
    try:
        check_count(key, value, CONFIG_BOUNDS.get(name, MOST_OF_ANYTHING))
    except ValueError as error:
        raise LookError(f"config.json {error}") from error
    numbers = value if isinstance(value, list) else [value]
    if numbers and all(isinstance(n, int | float) and not isinstance(n, bool) and n >= 0 for n in numbers):
        if isinstance(value, list):
            shape[f"{name}_per_layer"] = value
        shape[name] = int(max(numbers))


def _complete(shape: Shape, text: Mapping[str, Any]) -> None:
    heads, width = _count(shape, "heads"), _count(shape, "width")
    if heads:
        shape.setdefault("kv_heads", heads)
        if text.get("multi_query") is True and not text.get("new_decoder_architecture"):
            shape["kv_heads"] = 1  # Falcon and StarCoder, whatever number stands beside it
    nope, rope = _count(shape, "qk_nope_head_dim"), _count(shape, "qk_rope_head_dim")
    if "kv_lora_rank" in shape and nope + rope:
        shape["head_dim"] = nope + rope
    elif heads and width and not shape.get("head_dim"):
        shape["head_dim"] = width // heads
    if "intermediate" not in shape and text.get("model_type") in _FOUR_WIDTHS and width:
        shape["intermediate"] = 4 * width
    if _count(shape, "experts") and not shape.get("expert_intermediate") and "intermediate" in shape:
        shape["expert_intermediate"] = shape["intermediate"]


def layer_types(text: _Config, layers: int) -> list[str]:
    """One word for each layer; none where the config does not tell the number of layers."""
    if not 0 < layers <= MOST_LAYERS:
        return []
    for dialect in (_listed_kinds, _by_number, _chunked_kinds, _windowed_kinds):
        if types := dialect(text, layers):
            return types
    return [_ALIKE.get(str(text.get("model_type")), FULL)] * layers


def _listed_kinds(text: _Config, layers: int) -> list[str]:
    """By words, or by letters: Nemotron-H's `M-M*-`, EXAONE 4's `LLLG`."""
    names = {**_WORDS, "attention": SLIDING} if _count(text, "attention_window_size") else _WORDS  # RecurrentGemma
    for key in ("layer_types", "layers_block_type", "block_types"):
        words = text.get(key)
        if isinstance(words, list) and words and all(isinstance(word, str) for word in words):
            return list(islice(cycle(names.get(str(word), str(word)) for word in words), layers))
    for key in ("hybrid_override_pattern", "sliding_window_pattern"):
        letters = text.get(key)
        if isinstance(letters, str) and letters and not set(letters) - set(_LETTERS):
            return list(islice(cycle(_LETTERS[letter] for letter in letters), layers))
    return []


def _by_number(text: _Config, layers: int) -> list[str]:
    """By the indices of those that attend, by a period, or by a number for each layer."""
    for key, other in (("attn_layer_indices", MAMBA), ("full_attn_idxs", "conv")):
        indices = text.get(key)
        if isinstance(indices, list) and all(isinstance(i, int) for i in indices):
            return _split(layers, set(indices).__contains__, FULL, other)
    linear = text.get("linear_attn_config")  # Kimi Linear counts from one
    counted = linear.get("full_attn_layers") if isinstance(linear, Mapping) else None
    if isinstance(counted, list):
        return _split(layers, lambda n: n + 1 in counted, FULL, LINEAR)
    if period := _count(text, "attn_layer_period"):  # Jamba
        offset = _count(text, "attn_layer_offset")
        return _split(layers, lambda n: n % period == offset, FULL, MAMBA)
    if period := _count(text, "full_attention_interval"):  # Qwen3-Next: the last of each
        return _split(layers, lambda n: (n + 1) % period == 0, FULL, LINEAR)
    # MiniMax marks full attention by 1, MiMo a window by 1
    for key, zero, one in (("attn_type_list", LINEAR, FULL), ("hybrid_layer_pattern", FULL, SLIDING)):
        flags = text.get(key)
        if isinstance(flags, list) and len(flags) >= layers:
            return _split(layers, [flag == 1 for flag in flags].__getitem__, one, zero)
    return []


def _chunked_kinds(text: _Config, layers: int) -> list[str]:
    """Llama 4: layers with rotary positions attend within a chunk."""
    if not _count(text, "attention_chunk_size"):
        return []
    flags = text.get("no_rope_layers")
    if isinstance(flags, list) and len(flags) >= layers:
        return _split(layers, lambda n: flags[n] == 0, FULL, CHUNKED)
    period = _count(text, "no_rope_layer_interval")
    return _split(layers, lambda n: (n + 1) % period == 0, FULL, CHUNKED) if period else []


def _windowed_kinds(text: _Config, layers: int) -> list[str]:
    """A window in all layers, in all but the last of each period, or from one layer on."""
    window = _count(text, "sliding_window") or _count(text, "sliding_window_size")
    if not window or text.get("use_sliding_window") is False:
        return []
    period = _count(text, "sliding_window_pattern") or _count(text, "global_attn_every_n_layers")
    if period:
        return _split(layers, lambda n: (n + 1) % period == 0, FULL, SLIDING)
    first = _count(text, "max_window_layers")
    return _split(layers, lambda n: n < first, FULL, SLIDING)


def _split(layers: int, chosen: Callable[[int], bool], yes: str, no: str) -> list[str]:
    return [yes if chosen(n) else no for n in range(layers)]


def _count(text: _Config, key: str) -> int:
    value = text.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0


def shape_of_config(numbers: Numbers) -> HfShape:
    """The shape; what the config is silent about is taken to be absent."""
    of = partial(_count, numbers)
    family = str(numbers.get("model_type", ""))
    latent = of("kv_lora_rank")
    expert = of("expert_intermediate") if of("experts") else 0
    words = numbers.get("layer_types")
    # A word that is not known is taken for full attention, which keeps the most
    kinds = tuple(_KINDS.get(str(w), LayerKind.FULL) for w in words) if isinstance(words, list) else ()
    plain: dict[str, Any] = {field: of(name) for field, name in _AS_THEY_ARE.items()}
    return HfShape(
        **plain,
        **_recurrent_sizes(of),
        key_length=of("head_dim"),
        value_length=of("v_head_dim" if latent else "head_dim"),
        feed_forward=of("dense_intermediate") or of("intermediate"),
        tied=bool(numbers.get("tied")),
        rotations=_GEMMA_ROTATIONS * of("context") if family in _TWO_BASES else 0,
        kinds=() if set(kinds) <= {LayerKind.FULL} else kinds,
        window=of("sliding_window") or of("attention_chunk"),
        expert_width=expert,
        shared_width=of("shared_expert_intermediate") or of("shared_experts") * expert,
        expert_step=of("expert_layer_step") or 1,
        rope_length=of("qk_rope_head_dim") if latent else 0,
        query_rank=of("q_lora_rank") if latent else 0,
        norms=4 if family in _FOUR_NORMS else 2,
    )


def _recurrent_sizes(of: Callable[[str], int]) -> dict[str, Any]:
    """What recurrent layers come to: the state, channels of the short convolution, and the weights of one mixer."""
    heads, kernel, steps = of("linear_value_heads"), of("conv_kernel") or 4, of("mamba_state")
    keys, values = of("linear_key_heads") * of("linear_key_head_dim"), heads * of("linear_value_head_dim")
    inner = of("mamba_heads") * of("mamba_head_dim") or of("mamba_expand") * of("width")
    state, channels, mixer = inner * steps, 0, 0
    if values:
        state, channels = values * of("linear_key_head_dim") or state, 2 * keys + values
        mixer = 2 * keys + 2 * values + 2 * heads + values  # into its channels, and out again
    elif steps:
        groups = of("mamba_groups") if of("mamba_heads") else 0
        channels = inner + 2 * groups * steps
        mixer = inner + channels + of("mamba_heads") + inner
    weights = of("width") * mixer + channels * kernel
    return {"state": state, "convolution": channels, "convolution_length": kernel, "recurrent_parameters": weights}


def named_quant(config: Mapping[str, Any]) -> str:
    """The quantisation, or the type of weights that are not quantised: BF16 where it is silent, as most models have."""
    places = (config, *(config[key] for key in INNER if isinstance(config.get(key), dict)))
    named = next((p[key] for p in places for key in ("torch_dtype", "dtype") if isinstance(p.get(key), str)), "")
    packing = parse_quantization(config)
    return packing.name if packing else {"float32": "F32", "float16": "F16"}.get(named, "BF16")


def parse_quantization(config: Mapping[str, Any]) -> Quantization | None:
    """The quantisation that a config declares; None where it declares none."""
    inner = (v for k, v in config.items() if k in ("text_config", "language_config") and isinstance(v, dict))
    for place in (config, *inner):
        if isinstance(declared := place.get("quantization"), dict) and (bits := _number(declared, "bits")):
            # MLX: bits for the whole, and for single modules where they differ; it repeats itself under
            # `quantization_config`, without naming the method
            mode = _text(declared, "mode")
            name = f"MLX {mode.upper()}" if mode not in ("", "affine") else f"MLX {bits}-bit"
            single = [(module, v) for module, v in declared.items() if isinstance(v, dict)][:MOST_OVERRIDES]
            overrides = {module: n for module, v in single if (n := _number(v, "bits"))}
            return Quantization(method="mlx", name=name, bits=bits, override_bits=overrides)
        for key in ("quantization_config", "compression_config"):
            if isinstance(declared := place.get(key), dict) and declared:
                loaded = declared.get("load_in_4bit") or declared.get("load_in_8bit")
                method = _text(declared, "quant_method") or ("bitsandbytes" if loaded else "quantized")
                bits, name = _bits_and_name(method, declared)
                return Quantization(method=method, name=name, bits=bits)
    return None


def _bits_and_name(method: str, declared: Config) -> tuple[int, str]:
    if method in _FIXED:
        return _FIXED[method]
    if method == "bitsandbytes":
        if declared.get("load_in_4bit"):
            return 4, f"bitsandbytes {(_text(declared, 'bnb_4bit_quant_type') or 'fp4').upper()}"
        return 8, "bitsandbytes INT8"
    if method in ("modelopt", "modelopt_fp4"):
        algorithm = _text(declared, "quant_algo") or _text(declared, "quant_type")
        widths = (("FP4", 4), ("W4", 4), ("INT4", 4), ("FP8", 8), ("W8", 8))
        return next((bits for word, bits in widths if word in algorithm), 0), algorithm or "ModelOpt"
    if method == "compressed-tensors":
        return _compressed_bits(declared)
    # GPTQ, AWQ, AutoRound, HQQ and others that give their bits as such
    bits = _number(declared, "bits") or _number(declared, "w_bit") or _number(declared, "nbits")
    title = _TITLES.get(method, method)
    return bits, f"{title} {bits}-bit" if bits else title


def _compressed_bits(declared: Config) -> tuple[int, str]:
    """compressed-tensors: the groups' weights, where all have the same bits, and the activations with them."""
    groups = declared.get("config_groups")
    listed = [group for group in groups.values() if isinstance(group, dict)] if isinstance(groups, dict) else []
    parts = [[part if isinstance(part := group.get(key), dict) else {} for key in _PARTS] for group in listed]
    widths = {_number(weights, "num_bits") for weights, _ in parts}
    bits = widths.pop() if len(widths) == 1 else 0
    form = _text(declared, "format")
    if form.startswith(("nvfp4", "mxfp4")):
        return bits or 4, form[:5].upper()
    if not bits:
        return 0, "compressed-tensors"
    weights, inputs = parts[0]
    if bits == 8 and _text(weights, "type") == "float":  # noqa: PLR2004 (FP8)
        return bits, "FP8"
    return bits, f"W{bits}A{_number(inputs, 'num_bits') or 16}"


def _text(declared: Mapping[str, Any], key: str) -> str:
    value = declared.get(key)
    return value if isinstance(value, str) else ""


def _number(declared: Mapping[str, Any], key: str) -> int:
    value = declared.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= 2**20 else 0
