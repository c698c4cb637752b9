"""Lines of a load: what was planned, the command that runs the model, where it went, how it ended."""

import re
from itertools import pairwise
from typing import Literal

from unslow.facts.runtime import AllocationFailure, Buffer
from unslow.facts.snapshot import Contradiction, Statement
from unslow.facts.values import estimated_fact, reported_fact
from unslow.look.gguf_server_flags import OFF, ON, find_flags
from unslow.look.logs.llama_cpp.start_lines import is_gpu_name
from unslow.look.logs.ollama.server_lines import see_device
from unslow.look.logs.ollama.state import FactsByName, Line, Reading, Rules, parse_all_sizes, parse_size_bytes

RULES = Rules()
_COUNT = re.compile(r"\d{1,6}")
_RUNNER_COUNT = re.compile(r"\d{1,12}")
_COUNTS = {"context": "context_length"} | {name: name for name in ("slots", "batch", "ubatch", "threads", "main_gpu")}
_OWN_FLAGS = ("--model", "--port", "-c", "--ctx-size", "--n-gpu-layers", "--tensor-split")
"""The last two are Ollama's own estimates before 0.30; since then a person's `num_gpu` is passed on as -ngl."""
_REQUEST = {"Parallel": "slots", "BatchSize": "batch", "KvSize": "context_length", "NumThreads": "threads"}
_CONTEXTS = re.compile(r"--ctx-size[ =]((?:\d{3,8}\b(?:\s*(?:,|->|then|and|/)\s*(?:--ctx-size[ =])?)?){1,50})")
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
_KILLED = "terminated: signal: killed"
_NO_MEMORY = re.compile(
    r"out of (?:device )?memory|cudaMalloc failed|hipMalloc failed|failed to allocate|allocation failed|"
    r"not enough memory|insufficient memory|ErrorOutOfDeviceMemory|unable to allocate|terminated: signal: killed",
    re.IGNORECASE,
)


@RULES("layers.model", "layers.offload", "memory.available", "memory.required", own=True)
def _offload(reading: Reading, line: Line) -> bool:
    """The plan of Ollama before 0.12: layers, and what was estimated against what was free."""
    fields, where = line.fields, line.where
    if not any(name.startswith(("layers.", "memory.")) for name in fields):
        return False
    load = reading.load_with("offload" if "layers.offload" in fields or "layers.model" in fields else "memory", line)
    # `layers.offload=44 layers.model=81`, or `layers.offload=49/63` in people's short way
    on_gpu, _, whole = fields.get("layers.offload", "").partition("/")
    counts = {
        "gpu_layers": on_gpu,
        "layers": fields.get("layers.model", whole),
        "gpu_layers_set": fields.get("layers.requested", ""),
    }
    load.facts |= {name: reported_fact(int(text), where) for name, text in counts.items() if _COUNT.fullmatch(text)}
    split = re.findall(r"\d{1,5}", fields.get("layers.split", ""))
    if len(split) > 1:
        load.facts["tensor_split"] = reported_fact([float(part) for part in split], where)
    for name, field in (
        ("asked_bytes", "memory.required.full"),
        ("kv_bytes", "memory.required.kv" if "memory.required.kv" in fields else "kv"),
        ("size_bytes", "memory.required.full"),
        ("size_vram_bytes", "memory.required.partial"),
    ):
        if (size := parse_size_bytes(fields.get(field, ""))) is not None:
            load.facts[name] = reported_fact(size, f"{where}: {field}")
    # With `library=cpu` the memory that was free is the machine's, not a GPU's
    free = parse_all_sizes(fields.get("memory.available", ""))
    if free and fields.get("library") != "cpu" and "offload to cpu" not in fields.get("msg", ""):
        load.facts["available_bytes"] = reported_fact(sum(free), f"{where}: memory.available")
    if weights := parse_size_bytes(fields.get("memory.weights.total", "")):
        load.model["weights_bytes"] = estimated_fact(weights, f"{where}: memory.weights.total")
    return True


@RULES('msg="gpu memory"', own=True)
def _gpu_memory(reading: Reading, line: Line) -> bool:
    """One line for each GPU that may be used; what a reserve leaves is less than what is free."""
    free = parse_size_bytes(line.fields.get("free", line.fields.get("available", "")))
    name = line.fields.get("id", "")
    if free is None:
        return False
    load = reading.load_with(f"gpu memory {name}", line)
    load.free[name] = free
    load.facts["available_bytes"] = reported_fact(sum(load.free.values()), line.where)
    return True


@RULES("new model will fit")
def _will_fit(reading: Reading, line: Line) -> bool:
    load = reading.load_with("fit", line)
    load.facts = line.sizes(asked_bytes="required", available_bytes="available") | load.facts
    return True


@RULES("--ctx-size")
def _contexts(reading: Reading, line: Line) -> bool:
    """`--ctx-size 8192, 2048, 8192` in people's short way: a load for each."""
    found = _CONTEXTS.search(line.text)
    if not found or "cmd" in line.fields:
        return False
    for number in re.findall(r"\d{3,8}", found[1]):
        load = reading.load_with("context", line)
        load.facts["context_length"] = reported_fact(int(number), line.where)
    return True


@RULES("selecting ", own=True)
def _selected_library(reading: Reading, line: Line) -> bool:
    if not line.fields.get("library") or "name" not in line.fields:
        return False
    load = reading.load_with("select", line)
    load.facts["device_used"] = reported_fact(see_device(reading, line), line.where)
    return True


@RULES("starting llama server", "starting llama-server", "starting runner")
def _started_with(reading: Reading, line: Line) -> bool:
    """What runs the model is started; a runner without a model only looks for GPUs."""
    command = line.fields.get("cmd", "")
    reading.surely = reading.surely or line.where
    words = command.split()
    path = _value(words, "--model").replace("\\\\", "\\")
    if not path:
        return False
    load = reading.load_with("start", line)
    load.model["path"] = reported_fact(path, line.where)
    # Without the model, its context, and what Ollama decides anew for each process
    flags = [word for before, word in pairwise(words) if word not in _OWN_FLAGS and before not in _OWN_FLAGS]
    load.settings = " ".join(flags)[:500]
    load.context_cut, reading.context_cut = reading.context_cut, None
    is_server = "starting llama-server" in line.text
    for name, fact in command_facts(command, line.where, is_server=is_server).items():
        if name != "gpu_layers" or name not in load.facts:  # the plan says it better
            load.facts[name] = fact
    if _CPU_RUNNER.search(command):
        load.facts["gpu_layers"] = reported_fact(0, line.where)
        reading.refused = reading.refused or (1, reported_fact("it started the runner for the CPU", line.where))
    return True


@RULES("load request=", own=True)
def _request(reading: Reading, line: Line) -> bool:
    """The settings in `{Operation:commit Parallel:1 FlashAttention:true KvSize:8192 KvCacheType:q8_0 ...}`.

    Only the last of several requests, the one that commits, is what was done.
    """
    if "Operation:commit" not in line.text:
        return False
    load, where = reading.load_with("request", line), line.where
    given = dict(re.findall(r"\b([A-Z]\w{2,20}):([\w.-]*)", line.text))
    facts: FactsByName = {}
    for key, name in _REQUEST.items():
        if _RUNNER_COUNT.fullmatch(value := given.get(key, "")) and int(value):
            facts[name] = reported_fact(int(value), where)
    if (flash := given.get("FlashAttention", "").lower()) in ("true", "false", "enabled", "disabled"):
        facts["flash_attention"] = reported_fact(flash in ("true", "enabled"), where)
    if "KvCacheType" in given:
        kind = given["KvCacheType"]
        fact = reported_fact(kind, where) if kind else estimated_fact("f16", f"{where}: no KvCacheType")
        facts["kv_type_k"] = facts["kv_type_v"] = fact
    layers = given.get("GPULayers", "")
    if layers.isdecimal() or "GPULayers:[]" in line.text:
        facts["gpu_layers"] = reported_fact(int(layers or 0), where)
    if given.get("UseMmap") in ("true", "false"):
        facts["load_mode"] = reported_fact("mmap" if given["UseMmap"] == "true" else "none", where)
    load.facts |= facts | _per_slot(facts, where)
    return True


@RULES(" layers")
def _offloaded_layers(reading: Reading, line: Line) -> bool:
    """`offloaded 20/33 layers to GPU`, and `31/33 layers` in prose about offloading."""
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
    load.facts["gpu_layers"], load.facts["layers"] = reported_fact(on_gpu, line.where), reported_fact(whole, line.where)
    return True


@RULES("offloading output layer")
def _output_layer(reading: Reading, line: Line) -> bool:
    if found := re.search(r"offloading output layer to (CPU|GPU)", line.text):
        reading.load.facts["output_on_gpu"] = reported_fact(found[1] == "GPU", line.where)
    return bool(found)


@RULES('msg="model weights"', 'msg="kv cache"', 'msg="compute graph"', own=True)
def _buffer(reading: Reading, line: Line) -> bool:
    """Weights, cache or scratch memory on one device; the field that names the device has changed over time."""
    kind = _KINDS.get(line.fields.get("msg", ""))
    device = next((line.fields[n] for n in ("device", "buffer_type", "buffer", "backend") if n in line.fields), "")
    size = parse_size_bytes(line.fields.get("size", ""))
    if kind is None or not device or size is None:
        return False
    if len(reading.load.buffers) < _MOST_BUFFERS:
        buffer = Buffer(device=device[:80], kind=kind, bytes=size, on_gpu=is_gpu_name(device))
        reading.load.buffers[kind, device] = (buffer, line.where)
    return True


@RULES('msg="total memory"')
def _total(reading: Reading, line: Line) -> bool:
    reading.load.facts |= (found := line.sizes(size_bytes="size"))
    return bool(found)


@RULES("started in ", own=True)
def _load_done(reading: Reading, line: Line) -> bool:
    found = _STARTED.search(line.text)
    if not found:
        return False
    load = reading.load
    load.kinds.add("started")
    load.where, load.at = load.where or line.where, load.at or line.at
    load.seconds = reported_fact(float(found[1]), line.where)
    load.facts["state"] = reported_fact("loaded", line.where)
    load.facts.pop("load_error", None)
    load.facts.pop("allocation_failure", None)
    load.done = True
    return True


@RULES(
    "error loading llama server", 'msg="Load failed"', "NewLlamaServer failed", "model is too large for system memory"
)
def _load_failed(reading: Reading, line: Line) -> bool:
    load, message = reading.load, line.message()
    if load.done:
        return False
    if message.endswith(_KILLED):
        message = f"{message}, as the kernel does when memory runs out"
    load.failed = True
    if "context canceled" in line.text:  # the client gave up, which says nothing of the load
        return True
    load.facts["state"] = reported_fact("failed", line.where)
    load.facts["load_error"] = reported_fact(message, line.where)
    if _NO_MEMORY.search(message):
        failure = AllocationFailure(device="", what="unknown", message=message)
        load.facts["allocation_failure"] = reported_fact(failure, line.where)
    return True


@RULES("failed to load model metadata")
def _unreadable_file(reading: Reading, line: Line) -> bool:
    """The file is damaged or not there: nothing is started for it."""
    reading.load_with("metadata", line).model["path"] = reported_fact(line.fields.get("model", "")[:400], line.where)
    return _load_failed(reading, line)


@RULES("flash attention")
def _flash_attention(reading: Reading, line: Line) -> bool:
    on = "enabling flash attention" in line.text
    if on or "flash attention enabled but not supported" in line.text:
        reading.load_with("flash attention", line).facts["flash_attention"] = reported_fact(on, line.where)
        return True
    return False


@RULES(
    "quantized kv cache requested but flash attention disabled",
    "must be enabled to use a quantized OLLAMA_KV_CACHE_TYPE",
)
def _plain_cache(reading: Reading, line: Line) -> bool:
    """A quantised cache was asked for and is not had: without flash attention it silently stays f16."""
    facts = reading.load_with("plain cache", line).facts
    facts["kv_type_k"] = facts["kv_type_v"] = reported_fact("f16", line.where)
    return True


@RULES("requested context size too large for model")
def _cut_context(reading: Reading, line: Line) -> bool:
    """More was asked for than the model was trained with: Ollama takes that instead, and no client is told."""
    asked, trained = line.fields.get("num_ctx", ""), line.fields.get("n_ctx_train", "")
    if not (asked.isdecimal() and trained.isdecimal()):
        return False
    reading.context_cut = Contradiction(
        about="context_length",
        statements=(
            Statement(says=f"a context of {asked[:12]} tokens was requested", source=line.where),
            Statement(says=f"the model was trained with {trained[:12]}", source=line.where),
        ),
        meaning=f"Ollama caps it at {trained[:12]} tokens: longer prompts are truncated without notice",
    )
    return True


@RULES("load failed; reducing automatic context", "load failed; evicting all other models")
def _retry(reading: Reading, line: Line) -> bool:
    reading.close_load()
    return bool(line.fields)


def command_facts(command: str, where: str, *, is_server: bool) -> FactsByName:
    """The settings of a command that runs a model; `is_server` says that it starts llama-server.

    Since 0.30 it does, and is told only what a person set; before, it was Ollama's own runner, told everything that
    Ollama had decided, and from 0.11 on often nothing at all: then the line `load request=` tells it.
    """
    words = command.split()
    given = {flag.name: flag.value for flag in find_flags(words)}
    counts = {name: int(value) for name, value in given.items() if _RUNNER_COUNT.fullmatch(value)}
    facts: FactsByName = {name: reported_fact(counts[flag], where) for flag, name in _COUNTS.items() if flag in counts}
    if given.get("flash_attention") in (*ON, *OFF):
        facts["flash_attention"] = reported_fact(given["flash_attention"] in ON, where)
    if kind := given.get("kv_type_k") or _value(words, "--kv-cache-type"):
        facts["kv_type_k"] = reported_fact(kind, where)
        facts["kv_type_v"] = reported_fact(given.get("kv_type_v") or kind, where)
    for name, text in (
        ("split_mode", given.get("split_mode")),
        ("load_mode", _value(words, "--load-mode") or ("none" if "--no-mmap" in words else None)),
        ("speculative", _value(words, "--spec-type") or None),
    ):
        if text is not None:
            facts[name] = reported_fact(text, where)
    shares = given.get("tensor_split", "").split(",")
    if all(re.fullmatch(r"\d{1,6}(?:\.\d{1,6})?", share) for share in shares):
        facts["tensor_split"] = reported_fact([float(share) for share in shares], where)
    if is_server:  # gets a number of layers only where a person set one; the context it always gets
        own = (("gpu_layers", "gpu_layers_set"), ("context", "context_set"))
        facts |= {name: reported_fact(counts[flag], where) for flag, name in own if flag in counts}
    elif "context" in given:  # its own runner: what is not there is off, unless the command names no setting at all
        if "gpu_layers" in counts or "gpu_layers" not in given:
            facts["gpu_layers"] = reported_fact(counts.get("gpu_layers", 0), where)
        facts.setdefault("flash_attention", reported_fact(value=False, source=f"{where}: no --flash-attn"))
        for name in ("kv_type_k", "kv_type_v"):
            facts.setdefault(name, estimated_fact("f16", f"{where}: no --kv-cache-type"))
    return facts | _per_slot(facts, where)


def _per_slot(facts: FactsByName, where: str) -> FactsByName:
    """The context is given for all requests together."""
    context, slots = facts.get("context_length"), facts.get("slots")
    if context is None or slots is None or not slots.value:
        return {}
    return {"context_per_slot": reported_fact(context.value // slots.value, where)}


def _value(words: list[str], flag: str) -> str:
    at = words.index(flag) + 1 if flag in words else len(words)
    return words[at].strip('"') if at < len(words) else ""
