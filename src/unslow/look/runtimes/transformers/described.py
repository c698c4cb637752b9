"""A loaded model in words that can be written down: nothing here imports torch, the model brings it along."""

import importlib.metadata
import re
import sys
from collections.abc import Iterator
from typing import Any

from unslow.look.models.hf_config import parse_config

MOST_TENSORS = 200_000
MOST_PLACES = 4096
_LAYER = re.compile(r"\b(?:layers|h|blocks|block)\.(\d{1,4})\.")
_EXPERT = re.compile(r"\.experts?\.")


def describe(model: Any) -> dict[str, Any]:
    """What the model object tells of itself: placement, types, kernels, cache. Plain JSON, bounded."""
    config = getattr(model, "config", None)
    generation = getattr(model, "generation_config", None)
    return {
        "class": type(model).__name__,
        "name": str(getattr(config, "_name_or_path", "") or "")[:200],
        "config": _config(config),
        "weights": _weights(model),
        "device_map": _device_map(model),
        "attention": _text(getattr(config, "_attn_implementation", None)),
        "experts": _text(getattr(config, "_experts_implementation", None)),
        "quantization": _text(getattr(model, "quantization_method", None)),
        "training": bool(getattr(model, "training", False)),
        "generation": {
            "use_cache": getattr(generation, "use_cache", None),
            "cache_implementation": _text(getattr(generation, "cache_implementation", None)),
            "compile": getattr(generation, "compile_config", None) is not None,
        },
        "compiled": _is_compiled(model),
        "transformers": _version("transformers"),
        "torch": _torch(),
    }


def _text(value: object) -> str | None:
    if value is None:
        return None
    return str(getattr(value, "value", value))[:100]


def _config(config: Any) -> dict[str, Any]:
    try:
        return dict(parse_config(config.to_json_string(use_diff=False).encode(), "config"))
    except Exception:  # noqa: BLE001 (a stranger's class: without its config the rest still holds)
        return {}


def _is_compiled(model: Any) -> bool:
    return type(model).__name__ == "OptimizedModule" or getattr(model, "_compiled_call_impl", None) is not None


def _weights(model: Any) -> dict[str, Any]:
    """Bytes by device, by type, of the layers on each device, of the token table, the output and the experts."""
    found: dict[str, Any] = {
        "devices": {},
        "types": {},
        "layers": {},
        "table": 0,
        "output": 0,
        "experts": 0,
        "count": 0,
    }
    table, output = _weight_of(model, "get_input_embeddings"), _weight_of(model, "get_output_embeddings")
    for name, tensor in _tensors(model):
        size, device = int(tensor.numel()) * int(tensor.element_size()), str(tensor.device)
        found["count"] += _elements(tensor)
        found["devices"][device] = found["devices"].get(device, 0) + size
        kind = str(tensor.dtype).removeprefix("torch.")
        found["types"][kind] = found["types"].get(kind, 0) + size
        if layer := _LAYER.search(name):
            found["layers"].setdefault(layer[1], {}).setdefault(device, 0)
            found["layers"][layer[1]][device] += size
        found["experts"] += size if _EXPERT.search(name) else 0
        found["table"] += size if tensor is table else 0
        found["output"] += size if tensor is output else 0
    found["tied"] = table is not None and table is output
    return found


def _elements(tensor: Any) -> int:
    """Weights that a tensor stands for: packed ones hold two or more in a byte."""
    shape = getattr(getattr(tensor, "quant_state", None), "shape", None)
    if shape is None:
        return int(tensor.numel())
    count = 1
    for length in shape:
        count *= int(length)
    return count


def _tensors(model: Any) -> Iterator[tuple[str, Any]]:
    """Every weight once, with its name; weights that are shared come under their first name."""
    for number, (name, tensor) in enumerate(model.named_parameters()):
        if number >= MOST_TENSORS:
            return
        yield name, tensor


def _weight_of(model: Any, getter: str) -> Any:
    try:
        return getattr(model, getter)().weight
    except (AttributeError, NotImplementedError, TypeError):
        return None


def _device_map(model: Any) -> dict[str, str]:
    found = getattr(model, "hf_device_map", None)
    return {str(k): str(v) for k, v in list(found.items())[:MOST_PLACES]} if isinstance(found, dict) else {}


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _torch() -> dict[str, Any]:
    """What PyTorch says of its backends, where it is loaded at all."""
    torch = sys.modules.get("torch")
    if torch is None:
        return {}
    version, cuda = getattr(torch, "version", None), torch.cuda
    available = bool(cuda.is_available())
    return {
        "version": str(torch.__version__),
        "cuda": getattr(version, "cuda", None),
        "hip": getattr(version, "hip", None),
        "gpu_available": available,
        "gpus": [str(cuda.get_device_name(i)) for i in range(cuda.device_count())] if available else [],
        "architectures": [str(arch) for arch in cuda.get_arch_list()] if available else [],
        "metal": bool(getattr(torch.backends, "mps", None) and torch.backends.mps.is_available()),
        "threads": int(torch.get_num_threads()),
        "cpu": str(torch.backends.cpu.get_cpu_capability()) if hasattr(torch.backends, "cpu") else "",
    }
