"""Transformers: inside one's own program by `unslow.watch`, or as `transformers serve`."""

import importlib.metadata
import math
import os
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from itertools import islice
from typing import Any

import msgspec

from unslow.facts.merge import overlaid
from unslow.facts.model import Model
from unslow.facts.runtime import Buffer, Runtime
from unslow.facts.snapshot import Subject
from unslow.facts.values import NOT_LOOKED, Fact, not_found, not_supported, reported_fact
from unslow.look.command_line import COMMAND
from unslow.look.kernel.processors import read_own_pid
from unslow.look.models.hf_config import hf_shape, parse_config
from unslow.look.models.safetensors import model_facts, read_checkpoint
from unslow.look.openai_api import Server, parse_model_list
from unslow.look.processes import Process, ProcessSigns, words_of
from unslow.look.server_answers import value_at
from unslow.look.system import LookError, System, try_look
from unslow.look.system.http import LOCAL_HOST, is_port, reachable_host

NAME = "Transformers"
SOURCE = "the model object"
MOST_TENSORS = 200_000
MOST_PLACES = 4096
_LAYER = re.compile(r"\b(?:layers|h|blocks|block)\.(\d{1,4})\.")
_EXPERT = re.compile(r"\.experts?\.")
_INSTRUCTIONS = {"AVX512": ("AVX512",), "AVX2": ("AVX2", "FMA", "F16C", "AVX")}
_LEVELS = tuple(_INSTRUCTIONS)  # the highest first
_COMPILED_CACHES = ("static", "offloaded_static", "hybrid", "sliding_window")
_SHAPE = {
    "layers": "layers", "width": "width", "heads": "heads", "kv_heads": "kv_heads", "key_length": "head_dim",
    "value_length": "head_dim", "vocabulary": "vocabulary", "context_trained": "context", "experts": "experts",
    "experts_used": "experts_used", "expert_width": "expert_intermediate",
}  # fmt: skip
_QUANTS = {"bfloat16": "BF16", "float16": "F16", "float32": "F32"}
PORTS = (8000,)
RANK = 7
PROCESSES = ProcessSigns(("python", "transformers"), "transformers")
_SIGNS = frozenset({"/load_model", "/reset", "/v1/responses"})
"""Addresses that `transformers serve` has and other servers with OpenAI's interface lack."""
_TOLD = {
    "attention": "attn-implementation",
    "quantization": "quantization",
    "weights_type": "dtype",
    "device_set": "device",
}
"""Facts by the options that tell them."""
_UNTOLD = not_supported(
    "`transformers serve` does not report it", "use `with unslow.watch(model):` in a program of your own"
)


def describe(model: Any) -> dict[str, Any]:
    """What the model object tells of itself: placement, types, kernels, cache. Plain JSON, bounded."""
    config = getattr(model, "config", None)
    try:
        settings = dict(parse_config(config.to_json_string(use_diff=False).encode(), "config"))  # type: ignore[union-attr]
    except Exception:  # noqa: BLE001 (an unknown class: without its config the rest still holds)
        settings = {}
    try:
        version = importlib.metadata.version("transformers")
    except importlib.metadata.PackageNotFoundError:
        version = ""
    generation = getattr(model, "generation_config", None)
    found = getattr(model, "hf_device_map", None)
    device_map = {str(k): str(v) for k, v in list(found.items())[:MOST_PLACES]} if isinstance(found, dict) else {}
    return {
        "class": type(model).__name__,
        "name": str(getattr(config, "_name_or_path", "") or "")[:200],
        "config": settings,
        "weights": _weights(model),
        "device_map": device_map,
        "attention": _text(getattr(config, "_attn_implementation", None)),
        "experts": _text(getattr(config, "_experts_implementation", None)),
        "quantization": _text(getattr(model, "quantization_method", None)),
        "training": bool(getattr(model, "training", False)),
        "generation": {
            "use_cache": getattr(generation, "use_cache", None),
            "cache_implementation": _text(getattr(generation, "cache_implementation", None)),
            "compile": getattr(generation, "compile_config", None) is not None,
        },
        "compiled": type(model).__name__ == "OptimizedModule"
        or getattr(model, "_compiled_call_impl", None) is not None,
        "transformers": version,
        "torch": _torch(),
    }


def _text(value: object) -> str | None:
    return None if value is None else str(getattr(value, "value", value))[:100]


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
    # every weight once; those that are shared come under their first name
    for name, tensor in islice(model.named_parameters(), MOST_TENSORS):
        size, device = int(tensor.numel()) * int(tensor.element_size()), str(tensor.device)
        packed = getattr(getattr(tensor, "quant_state", None), "shape", None)  # then a byte holds two or more weights
        found["count"] += int(tensor.numel()) if packed is None else math.prod(int(length) for length in packed)
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


def _weight_of(model: Any, getter: str) -> Any:
    try:
        return getattr(model, getter)().weight
    except (AttributeError, NotImplementedError, TypeError):
        return None


def _torch() -> dict[str, Any]:
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


def subject_of(raw: dict[str, Any], pid: int) -> Subject:
    """The runtime and the model, as the model object tells them."""
    torch, weights = raw.get("torch", {}), raw.get("weights", {})
    layers, types, source = weights.get("layers", {}), weights.get("types", {}), "model.named_parameters()"
    on_gpu = sum(all(_is_gpu(device) for device in devices) for devices in layers.values())
    buffers = [
        Buffer(device=device, kind="model", bytes=size, on_gpu=_is_gpu(device))
        for device, size in weights.get("devices", {}).items()
    ]
    # PyTorch names the highest level of instructions, which has all below it
    capability = torch.get("cpu", "")
    below = _LEVELS[_LEVELS.index(capability.upper()) :] if capability.upper() in _LEVELS else ()
    features = [name for level in below for name in _INSTRUCTIONS[level]] or ([capability] if capability else None)
    cached = raw.get("generation", {}).get("use_cache")
    runtime = Runtime(
        name=reported_fact(NAME, SOURCE),
        version=_some(raw.get("transformers"), "installed package"),
        state=reported_fact("loaded", SOURCE),
    ).with_facts(
        pid=reported_fact(pid, "this process"),
        weights_type=reported_fact(max(types, key=types.get), source) if types else NOT_LOOKED,
        quantization=_some(raw.get("quantization"), "model.quantization_method"),
        attention=_some(raw.get("attention"), "model.config._attn_implementation"),
        prompt_cache=_some(cached if isinstance(cached, bool) else None, "generation_config.use_cache"),
        eager=_eager(raw),
        threads=_some(torch.get("threads"), "torch.get_num_threads()"),
        build_architectures=_some(torch.get("architectures") or None, "torch.cuda.get_arch_list()"),
        build_features=_some(features, "torch.backends.cpu"),
        gpu_layers=reported_fact(on_gpu, SOURCE) if layers else NOT_LOOKED,
        layers=reported_fact(len(layers), SOURCE) if layers else NOT_LOOKED,
        buffers=reported_fact(buffers, source),
        **_gpu_facts(torch),
    )
    return Subject(runtime=runtime, model=_model(raw, weights, runtime))


def _some(value: Any, source: str) -> Fact[Any]:
    return reported_fact(value, source) if value not in (None, "") else not_found(f"{source} says nothing")


def _gpu_facts(torch: dict[str, Any]) -> dict[str, Any]:
    """The backends that PyTorch has, and why it drives no GPU; unknown where it drives one."""
    refused = not_found("torch does not reject a GPU")
    if not torch:
        return {"backends": not_found("torch is not loaded in this process"), "gpu_refused": refused}
    gpu = ["ROCm" if torch.get("hip") else "CUDA"] if torch.get("gpu_available") else []
    backends = reported_fact([*gpu, *(["Metal"] if torch.get("metal") else []), "CPU"], "torch")
    if gpu or torch.get("metal"):
        return {"backends": backends, "gpu_refused": refused}
    words, source = "is a build without CUDA and ROCm", "torch.version"
    if torch.get("cuda") or torch.get("hip"):
        words, source = "finds no GPU: torch.cuda.is_available() is False", "torch.cuda"
    return {"backends": backends, "gpu_refused": reported_fact(f"torch {torch.get('version', '')} {words}", source)}


def _eager(raw: dict[str, Any]) -> Fact[bool]:
    """Whether every kernel is launched by Python: no compiled model, and no cache that `generate` compiles for."""
    devices = raw.get("weights", {}).get("devices", {})
    if devices and not any(_is_gpu(device) for device in devices):
        return not_found("no GPU computes: there are no graphs")
    cache = raw.get("generation", {}).get("cache_implementation") or "dynamic"
    compiled = raw.get("compiled") or raw.get("generation", {}).get("compile") or cache in _COMPILED_CACHES
    source = f"generation_config: cache_implementation {cache}, {'' if compiled else 'not '}compiled"
    return reported_fact(not compiled, source)


def _is_gpu(device: str) -> bool:
    return device.startswith(("cuda", "xpu", "mps", "hip"))


def _model(raw: dict[str, Any], weights: dict[str, Any], runtime: Runtime) -> Model:
    shape, source = hf_shape(raw["config"]) if raw.get("config") else {}, "model.named_parameters()"
    counts = {name: shape.get(key) for name, key in _SHAPE.items()}
    known = {name: count for name, count in counts.items() if isinstance(count, int | float)}
    facts: dict[str, Any] = {name: reported_fact(int(count), "config") for name, count in known.items()}
    kind = runtime.compute.weights_type.value_or("")
    quant: Fact[str] = reported_fact(_QUANTS.get(kind, kind), "model.dtype") if kind else NOT_LOOKED
    if raw.get("quantization"):
        quant = reported_fact(str(raw["quantization"]), "model.quantization_method")
    return Model(
        name=reported_fact(raw.get("name") or raw.get("class", "unknown"), "config"),
        architecture=_some(raw.get("config", {}).get("model_type"), "config"),
        quant=quant,
        parameters=reported_fact(weights.get("count", 0), source),
        weights_bytes=reported_fact(sum(weights.get("devices", {}).values()), source),
        token_table_bytes=reported_fact(weights.get("table", 0), source),
        output_bytes=reported_fact(weights.get("output", 0), source),
        output_tied=reported_fact(bool(weights.get("tied")), source),
        expert_bytes=reported_fact(weights.get("experts", 0), source),
        **{"experts": reported_fact(0, "config"), "experts_used": reported_fact(0, "config"), **facts},
    )


def find(processes: Sequence[Process]) -> list[Process]:
    """Every `transformers serve`; other programs that use Transformers look like any Python."""
    found = []
    for process in processes:
        words = words_of(process.command()) if process.name.startswith(("python", "transformers")) else []
        names = [word.rpartition("/")[2] for word in words[:4]]
        if ("transformers", "serve") in zip(names, words[1:5], strict=False):
            found.append(process)
    return found


def read(process: Process, api_key: str) -> tuple[Subject, ...]:
    """The server of a process, by its command line and its answers."""
    words = words_of(process.command())
    options: dict[str, str] = {}
    for at, word in enumerate(words):
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            following = words[at + 1] if at + 1 < len(words) else ""
            options[name] = value if equals else "on" if following.startswith("-") or not following else following
    host, port = options.get("host", ""), options.get("port", "")
    url = f"http://{LOCAL_HOST if host == 'localhost' else reachable_host(host)}:{port if is_port(port) else PORTS[0]}"
    subjects = read_url(process.system, url, api_key) or (Subject(runtime=_runtime(url)),)
    compiled = "compile" in options or options.get("cb-use-cuda-graph") == "on"
    told: dict[str, Any] = {
        "eager": reported_fact(not compiled, COMMAND),
        "command": reported_fact(words, COMMAND),
        "pid": reported_fact(process.pid, "/proc"),
        "container": process.container(),
    }
    for fact, option in _TOLD.items():
        if options.get(option):
            told[fact] = reported_fact(options[option], f"{COMMAND}: {options[option]}")
    model = _forced_model(words, process)
    described = ((each, each.runtime.with_facts(**told), overlaid(each.model, model)) for each in subjects)
    return tuple(msgspec.structs.replace(each, runtime=runtime, model=whole) for each, runtime, whole in described)


def read_url(system: System, url: str, api_key: str) -> tuple[Subject, ...] | None:
    """The server at a URL; asking it for a model would load that model, so only its list is read."""
    server = Server(system, url, api_key)
    paths = value_at(try_look(None, server.json, "/openapi.json"), "paths")
    if not isinstance(paths, dict) or not paths.keys() >= _SIGNS:
        return None
    name: Fact[str] = _UNTOLD
    with suppress(LookError):  # without a cache of the hub it cannot list any
        source = f"{server.url}/v1/models"
        models = parse_model_list(server.json("/v1/models"), source) or []
        if len(models) == 1:
            name = reported_fact(models[0].name, source)
    return (Subject(runtime=_runtime(url), model=Model(name=name)),)


def _forced_model(words: list[str], process: Process) -> Model:
    at = words.index("serve") + 1 if "serve" in words else len(words)
    name = words[at] if at < len(words) and not words[at].startswith("-") else ""
    if not name:
        return Model()
    folder = name if name.startswith("/") else f"{process.folder().value_or('')}/{name}"
    facts = try_look(Model(), lambda: model_facts(read_checkpoint(process.system, folder), name))
    return overlaid(facts, Model(name=reported_fact(name, COMMAND)))


def _runtime(url: str) -> Runtime:
    names = ("gpu_layers", "buffers", "attention", "weights_type", "threads", "busy_slots", "state")
    given = reported_fact(url, "given")
    return Runtime(name=reported_fact(NAME, url)).with_facts(url=given, **dict.fromkeys(names, _UNTOLD))


def read_model(system: System, model: Any) -> Subject:
    """A model that lives in this process, as it describes itself."""
    described = system.ask("transformers model", lambda: describe(model))
    pid = try_look(None, read_own_pid, system)  # of the process that was recorded; systems without /proc have none
    return subject_of(described, pid or os.getpid())
