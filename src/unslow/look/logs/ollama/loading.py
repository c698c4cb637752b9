"""Lines of a load: what was started and how, where it went, how it ended."""

import re
from typing import Literal

from unslow.facts.runtime import AllocationFailure, Buffer
from unslow.facts.snapshot import Contradiction, Statement
from unslow.facts.values import reported
from unslow.look.logs.go_values import size_bytes
from unslow.look.logs.llama_cpp.start import is_gpu_name
from unslow.look.logs.ollama.runner import command_facts, model_path, other_settings, request_facts
from unslow.look.logs.ollama.slog import Line
from unslow.look.logs.ollama.state import Reading, Rule

_LAYERS = re.compile(
    r"\b(\d{1,5})\s?(?:/|of|out of)\s?(\d{1,5})\s+(?:model )?layers\b(?:.{0,40}?\b(offload|GPU|VRAM))?"
)
_STARTED = re.compile(r"\b(?:runner|llama-server) started in (\d{1,9}(?:\.\d{1,6})?) seconds")
_CPU_RUNNER = re.compile(r"runners[/\\]+cpu")
_KINDS: dict[str, Literal["model", "kv", "compute"]] = {
    "model weights": "model",
    "kv cache": "kv",
    "compute graph": "compute",
}
_MOST_BUFFERS = 256  # far more than any machine has devices
_NO_MEMORY = re.compile(
    r"out of (?:device )?memory|cudaMalloc failed|hipMalloc failed|failed to allocate|allocation failed|"
    r"not enough memory|insufficient memory|ErrorOutOfDeviceMemory|unable to allocate",
    re.IGNORECASE,
)


def _started_with(reading: Reading, line: Line) -> bool:
    """What runs the model is started; a runner without a model only looks for GPUs."""
    command = line.fields.get("cmd", "")
    reading.is_ollama(line)
    path = model_path(command)
    if not path:
        return False
    load = reading.load_with("start", line)
    load.model["path"] = reported(path, line.where)
    load.settings = other_settings(command)
    load.context_cut, reading.context_cut = reading.context_cut, None
    is_server = "starting llama-server" in line.text
    for name, fact in command_facts(command, line.where, is_server=is_server).items():
        if name != "gpu_layers" or name not in load.facts:  # the plan says it better
            load.facts[name] = fact
    if _CPU_RUNNER.search(command):
        load.facts["gpu_layers"] = reported(0, line.where)
        reading.refused = reading.refused or (1, reported("it started the runner for the CPU", line.where))
    return True


def _request(reading: Reading, line: Line) -> bool:
    """Only the last of several requests, the one that commits, is what was done."""
    if "Operation:commit" not in line.text:
        return False
    reading.is_ollama(line)
    load = reading.load_with("request", line)
    load.facts |= request_facts(line.text, line.where)
    return True


def _offloaded(reading: Reading, line: Line) -> bool:
    """`offloaded 20/33 layers to GPU`, and `31/33 layers` of somebody who talks of offloading."""
    found = _LAYERS.search(line.text)
    if not found or not (found[3] or "offload" in line.text):
        return False
    on_gpu, whole = int(found[1]), int(found[2])
    if on_gpu > whole:
        return False
    load = reading.load
    if load.done or "start" not in load.kinds:
        load = reading.load_with("layers", line)
    elif "layers" in load.kinds and load.facts["layers"].value > whole:
        return True  # a draft model beside the one that counts
    load.kinds.add("layers")
    load.facts["gpu_layers"], load.facts["layers"] = reported(on_gpu, line.where), reported(whole, line.where)
    return True


def _output_layer(reading: Reading, line: Line) -> bool:
    found = re.search(r"offloading output layer to (CPU|GPU)", line.text)
    if found:
        reading.load.facts["output_on_gpu"] = reported(found[1] == "GPU", line.where)
    return bool(found)


def _buffer(reading: Reading, line: Line) -> bool:
    """Weights, cache or scratch memory on one device; the field that names the device has changed over time."""
    kind = _KINDS.get(line.fields.get("msg", ""))
    device = next((line.fields[n] for n in ("device", "buffer_type", "buffer", "backend") if n in line.fields), "")
    size = size_bytes(line.fields.get("size", ""))
    if kind is None or not device or size is None:
        return False
    reading.is_ollama(line)
    if len(reading.load.buffers) < _MOST_BUFFERS:
        buffer = Buffer(device=device[:80], kind=kind, bytes=size, on_gpu=is_gpu_name(device))
        reading.load.buffers[kind, device] = (buffer, line.where)
    return True


def _total(reading: Reading, line: Line) -> bool:
    size = size_bytes(line.fields.get("size", ""))
    if size is not None:
        reading.load.facts["size_bytes"] = reported(size, line.where)
    return size is not None


def _started(reading: Reading, line: Line) -> bool:
    found = _STARTED.search(line.text)
    if not found:
        return False
    reading.is_ollama(line)
    load = reading.load
    load.kinds.add("started")
    load.where, load.at = load.where or line.where, load.at or line.at
    load.seconds = reported(float(found[1]), line.where)
    load.facts["state"] = reported("loaded", line.where)
    load.facts.pop("load_error", None)
    load.facts.pop("allocation_failure", None)
    load.done = True
    return True


def _failed(reading: Reading, line: Line) -> bool:
    """The load ended in an error; what comes after is another load."""
    message = line.said()
    load = reading.load
    if load.done:
        return False
    load.failed = True
    if "context canceled" in line.text:  # the client gave up, which says nothing of the load
        return True
    load.facts["state"] = reported("failed", line.where)
    load.facts["load_error"] = reported(message, line.where)
    if _NO_MEMORY.search(message):
        failure = AllocationFailure(device="", what="unknown", message=message)
        load.facts["allocation_failure"] = reported(failure, line.where)
    return True


def _flash_attention(reading: Reading, line: Line) -> bool:
    on = "enabling flash attention" in line.text
    if on or "flash attention enabled but not supported" in line.text:
        reading.load_with("flash attention", line).facts["flash_attention"] = reported(on, line.where)
        return True
    return False


def _plain_cache(reading: Reading, line: Line) -> bool:
    """A quantised cache was asked for and is not had: without flash attention it silently stays f16."""
    facts = reading.load_with("plain cache", line).facts
    facts["kv_type_k"] = facts["kv_type_v"] = reported("f16", line.where)
    return True


def _cut_context(reading: Reading, line: Line) -> bool:
    """More was asked for than the model was trained with: Ollama takes that instead, and no client is told."""
    asked, trained = line.fields.get("num_ctx", ""), line.fields.get("n_ctx_train", "")
    if not (asked.isdecimal() and trained.isdecimal()):
        return False
    reading.context_cut = Contradiction(
        about="context_length",
        statements=(
            Statement(says=f"a context of {asked[:12]} tokens was asked for", source=line.where),
            Statement(says=f"the model was trained with {trained[:12]}", source=line.where),
        ),
        meaning=f"Ollama cuts it to {trained[:12]} tokens: what is longer is cut off, and no client is told",
    )
    return True


def _retry(reading: Reading, line: Line) -> bool:
    """It could not load with the context of its own choice and takes a smaller one."""
    reading.close_load()
    return bool(line.fields)


RULES = (
    Rule("starting llama server", _started_with),
    Rule("starting llama-server", _started_with),
    Rule("starting runner", _started_with),
    Rule("load request=", _request),
    Rule(" layers", _offloaded),
    Rule("offloading output layer", _output_layer),
    Rule('msg="model weights"', _buffer),
    Rule('msg="kv cache"', _buffer),
    Rule('msg="compute graph"', _buffer),
    Rule('msg="total memory"', _total),
    Rule("started in ", _started),
    Rule("error loading llama server", _failed),
    Rule('msg="Load failed"', _failed),
    Rule("NewLlamaServer failed", _failed),
    Rule("model is too large for system memory", _failed),
    Rule("flash attention", _flash_attention),
    Rule("quantized kv cache requested but flash attention disabled", _plain_cache),
    Rule("must be enabled to use a quantized OLLAMA_KV_CACHE_TYPE", _plain_cache),
    Rule("requested context size too large for model", _cut_context),
    Rule("load failed; reducing automatic context", _retry),
    Rule("load failed; evicting all other models", _retry),
)
