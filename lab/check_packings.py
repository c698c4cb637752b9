"""Pack matrices with the real packages and write down the size of each array that comes out.

    python lab/check_packings.py tests/catalog/packings_real.json

Needs torch, bitsandbytes, mlx with mlx-cpu, compressed-tensors, autoawq (its source), hqq and torchao, all on the CPU;
src/unslow/catalog/packings/*.toml names the versions. What can't run without a GPU was read from its source instead:
GPTQ (the shapes are in the constructor), EXL2, EXL3 and torchao's int4.
"""

import json
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

SHAPES = ((256, 512), (1024, 2048), (320, 1280))
Arrays = dict[str, int]


def sizes(arrays: dict[str, Any]) -> Arrays:
    """The bytes of each array; of the numbers that only describe the others, the sum."""
    return {name: t.numel() * t.element_size() for name, t in arrays.items() if torch.is_tensor(t)}


def bitsandbytes_4bit(kind: str, *, double: bool) -> Callable[[int, int], Arrays]:
    """Linear4bit as it is saved."""
    bnb = import_module("bitsandbytes")

    def pack(rows: int, columns: int) -> Arrays:
        layer = bnb.nn.Linear4bit(columns, rows, bias=False, quant_type=kind, compress_statistics=double)
        weight = torch.randn(rows, columns, dtype=torch.bfloat16)
        layer.weight = bnb.nn.Params4bit(weight, requires_grad=False, quant_type=kind, compress_statistics=double)
        layer.weight = layer.weight._quantize("cpu")  # noqa: SLF001
        saved = sizes(layer.state_dict())
        saved.pop(f"weight.quant_state.bitsandbytes__{kind}")  # JSON: its length varies by some bytes
        return saved

    return pack


def bitsandbytes_8bit(rows: int, columns: int) -> Arrays:
    """LLM.int8."""
    bnb = import_module("bitsandbytes")

    weight, scales, _ = bnb.functional.int8_vectorwise_quant(torch.randn(rows, columns, dtype=torch.float16))
    return sizes({"weight": weight, "SCB": scales})


def mlx(bits: int, group: int, mode: str = "affine") -> Callable[[int, int], Arrays]:
    """MLX's quantize."""
    mx = import_module("mlx.core")

    def pack(rows: int, columns: int) -> Arrays:
        arrays = mx.quantize(mx.zeros((rows, columns), dtype=mx.bfloat16), group_size=group, bits=bits, mode=mode)
        return {name: a.nbytes for name, a in zip(("weight", "scales", "biases"), arrays, strict=False)}

    return pack


def compressed(
    form: str, weights: dict[str, Any], activations: dict[str, Any] | None = None
) -> Callable[[int, int], Arrays]:
    """A layer as compressed-tensors, and so llm-compressor, saves it."""
    compressors = import_module("compressed_tensors.compressors")
    quantization = import_module("compressed_tensors.quantization")

    def pack(rows: int, columns: int) -> Arrays:
        model = torch.nn.Sequential(torch.nn.Linear(columns, rows, bias=False, dtype=torch.bfloat16))
        group = {"targets": ["Linear"], "weights": {"symmetric": True, **weights}, "input_activations": activations}
        config = quantization.QuantizationConfig(
            config_groups={"group_0": group}, format=form, quantization_status="frozen"
        )
        quantization.apply_quantization_config(model, config)
        compressors.ModelCompressor(quantization_config=config).compress_model(model)
        return {name.removeprefix("0."): size for name, size in sizes(model.state_dict()).items()}

    return pack


def awq(group: int) -> Callable[[int, int], Arrays]:
    """AutoAWQ's layer."""
    gemm = import_module("awq.modules.linear.gemm")

    return lambda rows, columns: sizes(gemm.WQLinear_GEMM(4, group, columns, rows, bias=False, dev="cpu").state_dict())


def hqq(bits: int, group: int) -> Callable[[int, int], Arrays]:
    """HQQ's layer; the many numbers that describe it are added up."""
    quantize = import_module("hqq.core.quantize")

    def pack(rows: int, columns: int) -> Arrays:
        linear, config = (
            torch.nn.Linear(columns, rows, bias=False),
            quantize.BaseQuantizeConfig(nbits=bits, group_size=group),
        )
        saved = sizes(quantize.HQQLinear(linear, config, compute_dtype=torch.float16, device="cpu").state_dict())
        arrays = {name: saved.pop(name) for name in ("W_q", "scale", "zero")}
        return arrays | {"settings": sum(saved.values())}

    return pack


def torchao(config: str) -> Callable[[int, int], Arrays]:
    """A layer after torchao's quantize_."""
    quantization = import_module("torchao.quantization")

    def pack(rows: int, columns: int) -> Arrays:
        model = torch.nn.Sequential(torch.nn.Linear(columns, rows, bias=False, dtype=torch.bfloat16))
        quantization.quantize_(model, getattr(quantization, config)())
        weight = model[0].weight
        return sizes({name: getattr(weight, name) for name in weight.__tensor_flatten__()[0]})

    return pack


def cases() -> dict[str, Callable[[int, int], Arrays]]:
    """By the words that find_scheme knows each by."""
    integer, real = {"num_bits": 4, "type": "int"}, {"num_bits": 8, "type": "float"}
    dynamic = {"num_bits": 8, "type": "float", "symmetric": True, "strategy": "token", "dynamic": True}
    static = {"num_bits": 8, "type": "float", "symmetric": True, "strategy": "tensor", "dynamic": False}
    by_group, small = {"strategy": "group", "group_size": 128}, {"num_bits": 4, "type": "float"}
    local = small | {"symmetric": True, "strategy": "tensor_group", "group_size": 16, "dynamic": "local"}
    packs = {f"{k}{' double' * d}": bitsandbytes_4bit(k, double=d) for k in ("nf4", "fp4") for d in (False, True)}
    packs |= {"bnb int8": bitsandbytes_8bit, "AWQ g64": awq(64), "AWQ g128": awq(128)}
    packs |= {f"MLX {bits}bit g{group}": mlx(bits, group) for bits in (2, 3, 4, 5, 6, 8) for group in (32, 64, 128)}
    packs |= {"MLX MXFP4": mlx(4, 32, "mxfp4"), "MLX NVFP4": mlx(4, 16, "nvfp4"), "MLX MXFP8": mlx(8, 32, "mxfp8")}
    packs |= {f"HQQ {bits}bit g{group}": hqq(bits, group) for bits in (1, 2, 3, 4, 8) for group in (64, 128)}
    packs |= {"torchao int8": torchao("Int8WeightOnlyConfig"), "torchao float8": torchao("Float8WeightOnlyConfig")}
    return packs | {
        "W4A16 g128": compressed("pack-quantized", integer | by_group),
        "W4A16 g32": compressed("pack-quantized", integer | by_group | {"group_size": 32}),
        "W4A16 asymmetric": compressed("pack-quantized", integer | by_group | {"symmetric": False}),
        "W8A16": compressed("pack-quantized", {"num_bits": 8, "type": "int", "strategy": "channel"}),
        "W8A8": compressed(
            "int-quantized", {"num_bits": 8, "type": "int", "strategy": "channel"}, dynamic | {"type": "int"}
        ),
        "FP8 per channel": compressed("float-quantized", real | {"strategy": "channel"}, dynamic),
        "FP8 per tensor": compressed("float-quantized", real | {"strategy": "tensor"}, static),
        "NVFP4": compressed("nvfp4-pack-quantized", small | {"strategy": "tensor_group", "group_size": 16}, local),
        "MXFP4": compressed(
            "mxfp4-pack-quantized", small | {"strategy": "group", "group_size": 32, "scale_dtype": "torch.uint8"}
        ),
    }


def main() -> None:
    """Run as a script."""
    packed = {name: {f"{r}x{c}": pack(r, c) for r, c in SHAPES} for name, pack in cases().items()}
    lines = (f" {json.dumps(name)}: {json.dumps(shapes)}" for name, shapes in packed.items())
    Path(sys.argv[1]).write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
