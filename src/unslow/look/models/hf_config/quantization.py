"""How the weights of a checkpoint are quantised, from what `config.json` says of it in the words of each method."""

from collections.abc import Mapping
from typing import Any

import msgspec

from unslow.look.models.hf_config.read import Config
from unslow.look.models.hf_config.shape import INNER

MOST_OVERRIDES = 4096


class Quantization(msgspec.Struct, frozen=True, kw_only=True):
    """A method of quantising; 0 bits where its config does not tell them."""

    method: str
    """As the file names it: gptq, awq, fp8, compressed-tensors, bitsandbytes, modelopt, mxfp4, mlx ..."""
    name: str
    """As people call the result: GPTQ 4-bit, NVFP4, W4A16."""
    bits: int = 0
    group_size: int = 0
    override_bits: dict[str, int] = {}
    """Of single modules, by name, where they differ (MLX)."""

    def bits_of(self, tensor: str) -> int:
        """The bits of one tensor's elements."""
        return self.override_bits.get(tensor.rpartition(".")[0], self.bits)


def parse_quantization(config: Mapping[str, Any]) -> Quantization | None:
    """The quantisation that a config declares; None where it declares none."""
    inner = (v for k, v in config.items() if k in ("text_config", "language_config") and isinstance(v, dict))
    for place in (config, *inner):
        if isinstance(declared := place.get("quantization"), dict) and _number(declared, "bits"):
            return _mlx(declared)  # it repeats itself under `quantization_config`, without naming the method
        for key in ("quantization_config", "compression_config"):
            if isinstance(declared := place.get(key), dict) and declared:
                return _transformers(declared)
    return None


def named_quant(config: Mapping[str, Any]) -> str:
    """The quantisation, or the type of weights that are not quantised: BF16 where it is silent, as most models have."""
    places = (config, *(config[key] for key in INNER if isinstance(config.get(key), dict)))
    named = next((p[key] for p in places for key in ("torch_dtype", "dtype") if isinstance(p.get(key), str)), "")
    packing = parse_quantization(config)
    return packing.name if packing else {"float32": "F32", "float16": "F16"}.get(named, "BF16")


def _transformers(declared: Config) -> Quantization:
    method = _text(declared, "quant_method") or ("bitsandbytes" if _has_bitsandbytes(declared) else "quantized")
    parse = _METHODS.get(method, _plain)
    bits, name = parse(declared)
    group_size = _number(declared, "group_size") or _number(declared, "q_group_size") or _first_group_size(declared)
    return Quantization(method=method, name=name or _named(method, bits), bits=bits, group_size=group_size)


def _named(method: str, bits: int) -> str:
    title = _TITLES.get(method, method)
    return f"{title} {bits}-bit" if bits else title


def _plain(declared: Config) -> tuple[int, str]:
    """GPTQ, AWQ, AutoRound, HQQ and others that give their bits as such."""
    return _number(declared, "bits") or _number(declared, "w_bit") or _number(declared, "nbits"), ""


def _fp8(_: Config) -> tuple[int, str]:
    return 8, "FP8"


def _mxfp4(_: Config) -> tuple[int, str]:
    return 4, "MXFP4"


def _has_bitsandbytes(declared: Config) -> bool:
    return bool(declared.get("load_in_4bit") or declared.get("load_in_8bit"))


def _bitsandbytes(declared: Config) -> tuple[int, str]:
    if declared.get("load_in_4bit"):
        return 4, f"bitsandbytes {(_text(declared, 'bnb_4bit_quant_type') or 'fp4').upper()}"
    return 8, "bitsandbytes INT8"


def _modelopt(declared: Config) -> tuple[int, str]:
    algorithm = _text(declared, "quant_algo") or _text(declared, "quant_type")
    bits = next((n for word, n in (("FP4", 4), ("W4", 4), ("INT4", 4), ("FP8", 8), ("W8", 8)) if word in algorithm), 0)
    return bits, algorithm or "ModelOpt"


def _compressed(declared: Config) -> tuple[int, str]:
    """compressed-tensors: the groups' weights, where all have the same bits, and the activations with them."""
    widths = {_number(weights, "num_bits") for weights, _ in _groups(declared)}
    bits = widths.pop() if len(widths) == 1 else 0
    form = _text(declared, "format")
    if form.startswith(("nvfp4", "mxfp4")):
        return bits or 4, form[:5].upper()
    if not bits:
        return 0, "compressed-tensors"
    weights, inputs = _groups(declared)[0]
    if bits == 8 and _text(weights, "type") == "float":  # noqa: PLR2004 (FP8)
        return bits, "FP8"
    return bits, f"W{bits}A{_number(inputs, 'num_bits') or 16}"


def _groups(declared: Config) -> list[tuple[Config, Config]]:
    """What each group of compressed-tensors says of its weights and of its inputs."""
    groups = declared.get("config_groups")
    listed = [g for g in groups.values() if isinstance(g, dict)] if isinstance(groups, dict) else []
    return [(_object(g, "weights"), _object(g, "input_activations")) for g in listed]


def _first_group_size(declared: Config) -> int:
    return next((_number(weights, "group_size") for weights, _ in _groups(declared)), 0)


_TITLES = {"gptq": "GPTQ", "awq": "AWQ", "auto-round": "AutoRound", "intel/auto-round": "AutoRound", "hqq": "HQQ"}
_METHODS = {
    "fp8": _fp8,
    "fbgemm_fp8": _fp8,
    "finegrained_fp8": _fp8,
    "mxfp4": _mxfp4,
    "bitsandbytes": _bitsandbytes,
    "modelopt": _modelopt,
    "modelopt_fp4": _modelopt,
    "compressed-tensors": _compressed,
}


def _mlx(declared: Config) -> Quantization:
    """MLX: bits for the whole, and for single modules where they differ."""
    bits, mode = _number(declared, "bits"), _text(declared, "mode")
    single = [(name, v) for name, v in declared.items() if isinstance(v, dict)][:MOST_OVERRIDES]
    return Quantization(
        method="mlx",
        name=f"MLX {mode.upper()}" if mode not in ("", "affine") else f"MLX {bits}-bit",
        bits=bits,
        group_size=_number(declared, "group_size"),
        override_bits={name: n for name, v in single if (n := _number(v, "bits"))},
    )


def _text(declared: Mapping[str, Any], key: str) -> str:
    value = declared.get(key)
    return value if isinstance(value, str) else ""


def _object(declared: Mapping[str, Any], key: str) -> Config:
    value = declared.get(key)
    return value if isinstance(value, dict) else {}


def _number(declared: Mapping[str, Any], key: str) -> int:
    value = declared.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 < value <= 2**20 else 0
