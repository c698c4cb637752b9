"""How many parameters a tensor holds: quantised ones are packed several to a word, beside scales that are none."""

import math
from collections.abc import Container

from unslow.facts.blueprint import Tensor
from unslow.look.models.hf_config import Quantization
from unslow.look.models.safetensors.header import BITS

_WORDS, _BYTE, _NIBBLE = ("I32", "U32"), "U8", 4
_PACKED = (".qweight", ".weight_packed")
_SCALES = (
    ".qzeros", ".scales", ".g_idx",  # GPTQ, AWQ
    ".weight_scale", ".weight_scale_2", ".weight_scale_inv", ".weight_zero_point", ".weight_shape", ".weight_g_idx",
    ".weight_global_scale", ".input_global_scale", ".input_scale", ".k_scale", ".v_scale", ".q_scale", ".output_scale",
    ".absmax", ".quant_map", ".nested_absmax", ".nested_quant_map", ".SCB", ".weight_format",  # bitsandbytes
    ".biases", ".weight.scale", ".weight.bias",  # MLX: the offsets of groups
    "_blocks_scales", "_proj_scales",  # MXFP4 as gpt-oss has it
)  # fmt: skip


def parameters_in(tensor: Tensor, quantization: Quantization | None, names: Container[str]) -> int | None:
    """The parameters that a tensor holds; None where they are packed and nothing tells how many bits each has."""
    elements = math.prod(tensor.shape)
    if quantization and (tensor.name.endswith(_SCALES) or ".quant_state." in tensor.name):
        return 0
    if not is_packed(tensor, quantization, names):
        return elements
    bits = packed_bits(tensor, quantization)
    return elements * BITS[tensor.type] // bits if bits else None


def type_name(tensor: Tensor, quantization: Quantization | None, names: Container[str]) -> str:
    """The type as the file says it, and how many bits are packed into it."""
    if not is_packed(tensor, quantization, names):
        return tensor.type
    bits = packed_bits(tensor, quantization)
    return f"{tensor.type} packed {bits}-bit" if bits else f"{tensor.type} packed"


def is_packed(tensor: Tensor, quantization: Quantization | None, names: Container[str]) -> bool:
    """Whether an element of the tensor is several weights."""
    name, declared = tensor.name, quantization is not None
    if tensor.type in _WORDS:
        return name.endswith(_PACKED) or (declared and tensor.type == "U32" and name.endswith(".weight"))
    if tensor.type != _BYTE:
        return False
    beside = f"{name}.absmax" in names or f"{name}_scale_2" in names  # bitsandbytes, NVFP4 by ModelOpt
    return name.endswith(".weight_packed") or beside or (declared and name.endswith("_blocks"))


def packed_bits(tensor: Tensor, quantization: Quantization | None) -> int:
    """The bits of one weight in a packed tensor; a byte always holds two. 0 where nothing tells."""
    if tensor.type == _BYTE:
        return _NIBBLE
    bits = quantization.bits_of(tensor.name) if quantization else 0
    return bits if bits <= BITS[tensor.type] else 0
