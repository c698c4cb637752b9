"""A described model as facts."""

from typing import Any

from unslow.facts.model import Model
from unslow.facts.runtime import Buffer, Runtime
from unslow.facts.snapshot import Subject
from unslow.facts.values import NOT_LOOKED, Fact, not_found, reported
from unslow.look.models.hf_config import hf_shape

SOURCE = "the model object"
NAME = "Transformers"
_INSTRUCTIONS = {"AVX512": ("AVX512",), "AVX2": ("AVX2", "FMA", "F16C", "AVX")}
_LEVELS = tuple(_INSTRUCTIONS)  # the highest first
_COMPILED_CACHES = ("static", "offloaded_static", "hybrid", "sliding_window")


def subject_of(raw: dict[str, Any], pid: int) -> Subject:
    """The runtime and the model, as the model object tells them."""
    return Subject(runtime=_runtime(raw, pid), model=_model(raw))


def _runtime(raw: dict[str, Any], pid: int) -> Runtime:
    torch, weights = raw.get("torch", {}), raw.get("weights", {})
    on_gpu, layers = _layers(weights.get("layers", {}))
    return Runtime(
        name=reported(NAME, SOURCE),
        version=_some(raw.get("transformers"), "installed package"),
        pid=reported(pid, "this process"),
        state=reported("loaded", SOURCE),
        weights_type=_main_type(weights),
        quantization=_some(raw.get("quantization"), "model.quantization_method"),
        attention=_some(raw.get("attention"), "model.config._attn_implementation"),
        prompt_cache=_truth(raw.get("generation", {}).get("use_cache"), "generation_config.use_cache"),
        eager=_eager(raw),
        threads=_some(torch.get("threads"), "torch.get_num_threads()"),
        backends=_backends(torch),
        build_architectures=_some(torch.get("architectures") or None, "torch.cuda.get_arch_list()"),
        build_features=_some(_features(torch.get("cpu", "")), "torch.backends.cpu"),
        gpu_refused=_refused(torch),
        gpu_layers=reported(on_gpu, SOURCE) if layers else NOT_LOOKED,
        layers=reported(layers, SOURCE) if layers else NOT_LOOKED,
        buffers=reported(_buffers(weights), "model.named_parameters()"),
    )


def _some(value: Any, source: str) -> Fact[Any]:
    return reported(value, source) if value not in (None, "") else not_found(f"{source} says nothing")


def _features(capability: str) -> list[str] | None:
    """The instructions that PyTorch uses: it names the highest level, which has all below it."""
    level = capability.upper()
    if level not in _LEVELS:
        return [capability] if capability else None
    return [name for part in _LEVELS[_LEVELS.index(level) :] for name in _INSTRUCTIONS[part]]


def _truth(value: object, source: str) -> Fact[bool]:
    return reported(value, source) if isinstance(value, bool) else not_found(f"{source} says nothing")


def _main_type(weights: dict[str, Any]) -> Fact[str]:
    types = weights.get("types", {})
    return reported(max(types, key=types.get), "model.named_parameters()") if types else NOT_LOOKED


def _eager(raw: dict[str, Any]) -> Fact[bool]:
    """Whether every kernel is launched by Python: no compiled model, and no cache that `generate` compiles for."""
    devices = raw.get("weights", {}).get("devices", {})
    if devices and not any(_is_gpu(device) for device in devices):
        return not_found("no GPU computes: there are no graphs")
    cache = raw.get("generation", {}).get("cache_implementation") or "dynamic"
    compiled = raw.get("compiled") or raw.get("generation", {}).get("compile") or cache in _COMPILED_CACHES
    return reported(
        not compiled, f"generation_config: cache_implementation {cache}, {'' if compiled else 'not '}compiled"
    )


def _backends(torch: dict[str, Any]) -> Fact[list[str]]:
    if not torch:
        return not_found("torch is not loaded in this process")
    gpu = "ROCm" if torch.get("hip") else "CUDA"
    names = [gpu] if torch.get("gpu_available") else []
    return reported([*names, *(["Metal"] if torch.get("metal") else []), "CPU"], "torch")


def _refused(torch: dict[str, Any]) -> Fact[str]:
    """Why PyTorch drives no GPU; unknown where it drives one."""
    if not torch or torch.get("gpu_available") or torch.get("metal"):
        return not_found("torch does not refuse a GPU")
    version = torch.get("version", "")
    if not torch.get("cuda") and not torch.get("hip"):
        return reported(f"torch {version} is a build without CUDA and ROCm", "torch.version")
    return reported(f"torch {version} finds no GPU: torch.cuda.is_available() is False", "torch.cuda")


def _is_gpu(device: str) -> bool:
    return device.startswith(("cuda", "xpu", "mps", "hip"))


def _buffers(weights: dict[str, Any]) -> list[Buffer]:
    return [
        Buffer(device=device, kind="model", bytes=size, on_gpu=_is_gpu(device))
        for device, size in weights.get("devices", {}).items()
    ]


def _layers(layers: dict[str, dict[str, int]]) -> tuple[int, int]:
    """How many layers lie on GPUs as a whole, and of how many."""
    return sum(all(_is_gpu(device) for device in devices) for devices in layers.values()), len(layers)


def _model(raw: dict[str, Any]) -> Model:
    weights, shape = raw.get("weights", {}), hf_shape(raw["config"]) if raw.get("config") else {}
    total, source = sum(weights.get("devices", {}).values()), "model.named_parameters()"
    counts = {name: shape.get(key) for name, key in _SHAPE.items()}
    facts: dict[str, Any] = {k: reported(int(v), "config") for k, v in counts.items() if isinstance(v, int | float)}
    return Model(
        name=reported(raw.get("name") or raw.get("class", "unknown"), "config"),
        architecture=_some(raw.get("config", {}).get("model_type"), "config"),
        quant=_quant(raw, weights),
        parameters=reported(weights.get("count", 0), source),
        weights_bytes=reported(total, source),
        token_table_bytes=reported(weights.get("table", 0), source),
        output_bytes=reported(weights.get("output", 0), source),
        output_tied=reported(bool(weights.get("tied")), source),
        expert_bytes=reported(weights.get("experts", 0), source),
        **{"experts": reported(0, "config"), "experts_used": reported(0, "config"), **facts},
    )


_SHAPE = {
    "layers": "layers", "width": "width", "heads": "heads", "kv_heads": "kv_heads", "key_length": "head_dim",
    "value_length": "head_dim", "vocabulary": "vocabulary", "context_trained": "context", "experts": "experts",
    "experts_used": "experts_used", "expert_width": "expert_intermediate",
}  # fmt: skip
_QUANTS = {"bfloat16": "BF16", "float16": "F16", "float32": "F32"}


def _quant(raw: dict[str, Any], weights: dict[str, Any]) -> Fact[str]:
    if raw.get("quantization"):
        return reported(str(raw["quantization"]), "model.quantization_method")
    kind = _main_type(weights).value_or("")
    return reported(_QUANTS.get(kind, kind), "model.dtype") if kind else NOT_LOOKED
