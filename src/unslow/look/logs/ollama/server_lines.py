"""Lines of the server: its settings, its devices, why it does not use a GPU, requests, complaints."""

import re
from functools import partial
from typing import Any

import msgspec

from unslow.facts.runtime import SeenDevice
from unslow.facts.values import MIB, reported_fact
from unslow.look.logs.ollama.state import DURATION, KEPT_DEVICES, Line, Reading, Rules, parse_seconds, seconds_of_day
from unslow.look.processes import KEPT_VARIABLES

RULES = Rules()
FOR_EVER = -1.0
_LISTENING = re.compile(r"Listening on (\S{1,80}) \(version ([\w.+-]{1,40})\)")
_VARIABLE = re.compile(r"\b([A-Z][A-Z0-9_]{2,40}):(\[[^\]]*\]|\S*)")
_LEFT_OUT = re.compile(r"KEY|TOKEN|SECRET|PASSW|ORIGINS|REMOTES")  # secrets, and lists of hosts
_COUNT = re.compile(r"\d{1,12}")
_COUNTED_VARIABLES = {
    "OLLAMA_NUM_PARALLEL": "slots",
    "OLLAMA_MAX_LOADED_MODELS": "max_loaded_models",
    "OLLAMA_CONTEXT_LENGTH": "context_default",
}
_MOST_SECONDS = 1e8  # Go's longest duration stands for "for ever"

# why it does not use a GPU
_REASONS = (
    "permission problems block access",
    "permissions not set up properly",
    "kfd driver not loaded",
    "NVIDIA driver too old",
    "nvidia driver too old",
    "old CUDA driver detected",
    "AMD driver is too old",
    "no rocblas support for gfx",
    "amdgpu is not supported",
    "amdgpu too old",
    "CUDA GPU is too old",
    "compute capability not in compiled architectures",
    "no compatible rocm library found",
    "unable to verify rocm library",
    "failed to lookup supported GFX types",
    "unsupported Radeon iGPU",
    "appears to be an iGPU",
    "dropping integrated GPU",
    "error looking up nvidia GPU memory",
    "cuda driver library init failure",
    "error initializing cuda driver library",
    "cudart init failure",
    "CPU does not have AVX",
    "CPU does not have vector extensions",
    "GPU discovery watchdog timed out",
)
_OUTCOMES = (
    "no compatible GPUs were discovered",
    "no compatible amdgpu devices detected",
    "all detected amdgpus are skipped",
    "AMD ROCm reports no devices found",
    "failure during GPU discovery",
    "failure during llama-server GPU discovery",
    "falling back to CPU",
)
_ONLY_CPU = re.compile(r"Dynamic LLM libraries \[(?:cpu\w{0,8}[ ,]{0,2}){1,4}\]")
_NO_OPENING = re.compile(r"/dev/kfd\b.{0,40}permission denied|permission denied.{0,40}/dev/kfd", re.IGNORECASE)
_NO_TARGET = re.compile(r"\bgfx[0-9a-f]{3,5}\b.{0,60}\bnot supported\b|not supported.{0,60}\bgfx[0-9a-f]{3,5}\b")

# requests and complaints
_ACCESS = re.compile(rf'\| +(\d{{3}}) +\| +({DURATION}) +\|[^|]{{0,80}}\| +(?:POST) +"(/[^"\s]{{1,80}})"')
_ANSWERS = ("/api/generate", "/api/chat", "/v1/chat/completions", "/v1/completions", "/v1/messages", "/v1/responses")
_WRITTEN = re.compile(r"\[GIN\] (\d{4}/\d\d/\d\d) - (\d\d:\d\d:\d\d)")
_TOTAL = re.compile(r"print_timing: .{0,60}\btotal time = +(\d{1,9}\.\d\d) ms")
_NO_PROMPT_S = 0.01
"""Ollama 0.33 answers a request without a prompt (`ollama stop`, or a preload of what is loaded) in 0.3 to 0.7 ms; one
with a prompt waits for a step of the model, behind another HTTP server."""
_OTHER_MATTERS = ("model_show_cache", "model_recommendations", "model_list_cache", "cloud_proxy")
_REMARKABLE = (
    "evicting",
    "disabling mmap",
    "disabling multimodal projector",
    "truncating input",
    "VRAM usage didn't recover",
    "user overrode visible devices",
)


@RULES("server config env=", '"server config" env=', own=True)
def _config(reading: Reading, line: Line) -> bool:
    """A server starts, in an environment that is not that of a shell; devices and refusals are found anew."""
    reading.started = True
    if reading.devices_listed or reading.load.kinds:  # what was loaded is gone
        reading.close_load()
        reading.process, reading.devices, reading.devices_listed, reading.refused = {}, {}, "", None
    given = {name: value.rstrip('"]') for name, value in _VARIABLE.findall(line.text)}
    named = {n: v for n, v in given.items() if n.startswith(KEPT_VARIABLES) and not _LEFT_OUT.search(n)}
    # these are listed even where not set
    kept = {name: value for name, value in named.items() if value not in ("", "0", "false")}
    reading.process["environment"] = reported_fact(kept, line.where)
    reading.process.update(variable_facts(kept, line.where))
    return True


@RULES("Listening on ", own=True)
def _listening(reading: Reading, line: Line) -> bool:
    found = _LISTENING.search(line.text)
    if not found:
        return False
    reading.process["version"] = reported_fact(found[2], line.where)
    return True


@RULES("inference compute", own=True)
def _compute(reading: Reading, line: Line) -> bool:
    library = line.fields.get("library", "")
    if not library:
        return False
    reading.devices_listed = reading.devices_listed or line.where
    if library != "cpu":
        see_device(reading, line)
    elif reading.refused is None:
        reading.refused = (2, reported_fact("inference compute: library=cpu", line.where))
    return True


@RULES("vram-based default context")
def _default_context(reading: Reading, line: Line) -> bool:
    number = line.fields.get("default_num_ctx", "")
    if _COUNT.fullmatch(number):
        reading.process["context_default"] = reported_fact(int(number), line.where)
    return True


@RULES('msg="system memory"')
def _system_memory(reading: Reading, line: Line) -> bool:
    reading.memory |= line.sizes(total_bytes="total", available_bytes="free")
    return True


@RULES("efficiency=")
def _cores(reading: Reading, line: Line) -> bool:
    """Windows only: `package=0 cores=16 efficiency=8 threads=24`."""
    numbers = {name: line.fields.get(name, "") for name in ("cores", "efficiency", "threads")}
    if not all(_COUNT.fullmatch(text) for text in numbers.values()):
        return False
    cores, efficiency, threads = (int(text) for text in numbers.values())
    if line.fields.get("package", "0") == "0":  # one of several sockets says nothing of the others
        reading.cpu["physical_cores"] = reported_fact(cores, line.where)
        reading.cpu["logical_cpus"] = reported_fact(threads, line.where)
        if efficiency:
            reading.cpu["efficiency_cores"] = reported_fact(efficiency, line.where)
    return True


@RULES("msg=system ")
def _features(reading: Reading, line: Line) -> bool:
    """What the runner was built for: `CPU.0.AVX2=1 CUDA.0.ARCHS=860,890`, earlier `info="CPU : AVX2 = 1 | ..."`."""
    built = set(re.findall(r"\bCPU\.\d+\.(\w{2,20})=1\b", line.text))
    for section in re.findall(r"\bCPU : ([^:\"]{1,1000})", line.fields.get("info", "")):
        built |= set(re.findall(r"\b(\w{2,20}) = 1\b", section))
    if built:
        reading.process["build_features"] = reported_fact(sorted(built), line.where)
    archs = re.search(r"\bARCHS ?= ?([\d,]{2,200})", line.text)
    if archs:
        reading.process["build_architectures"] = reported_fact(archs[1].strip(",").split(","), line.where)
    threads = line.fields.get("threads", "")
    if _COUNT.fullmatch(threads):
        reading.load.facts["threads"] = reported_fact(int(threads), line.where)
    return bool(built or archs)


@RULES("num_key_values=")
def _model(reading: Reading, line: Line) -> bool:
    """`architecture=gemma3 file_type=Q4_K_M num_tensors=1247`, as Ollama's own engine prints it."""
    for field, name in (("architecture", "architecture"), ("file_type", "quant")):
        if value := line.fields.get(field, ""):
            reading.load.model[name] = reported_fact(value[:40], line.where)
    return "architecture" in line.fields


@RULES(*_REASONS)
def _refuse(reading: Reading, line: Line, rank: int = 0) -> bool:
    """The reason beats the outcome, and the first of several reasons is kept."""
    if reading.refused is None or rank < reading.refused[0]:
        reading.refused = (rank, reported_fact(line.message(), line.where))
    return True


RULES(*_OUTCOMES)(partial(_refuse, rank=1))


@RULES("/dev/kfd")
def _device_file(reading: Reading, line: Line) -> bool:
    """The file through which ROCm reaches the GPU may not be opened."""
    if not _NO_OPENING.search(line.text):
        return False
    reading.system["kfd_access"] = reported_fact(value=False, source=line.where)
    return _refuse(reading, line)


# A GPU that is not supported, or a list of its libraries with none for a GPU: a build or a package without
RULES("Dynamic LLM libraries", "not supported")(
    lambda reading, line: bool(_ONLY_CPU.search(line.text) or _NO_TARGET.search(line.text)) and _refuse(reading, line)
)


@RULES("total time =")
def _answered(reading: Reading, line: Line) -> bool:
    """How long llama-server took for a request, by itself."""
    found = _TOTAL.search(line.text)
    if not found or not reading.surely:  # a llama-server without Ollama writes it too
        return False
    reading.waits.answer(float(found[1]) / 1e3)
    return True


@RULES("| new prompt, ")
def _begun(reading: Reading, _line: Line) -> bool:
    """The next request is begun: what ended before it without timings was cancelled."""
    if not reading.surely:
        return False
    reading.waits.begin()
    return True


@RULES("[GIN]")
def _access(reading: Reading, line: Line) -> bool:
    """How long a whole request took, the load and the waiting before it among it."""
    reading.surely = reading.surely or line.where
    found = _ACCESS.search(line.text)
    if not found or found[1] != "200" or found[3] not in _ANSWERS:
        return False
    took = parse_seconds(found[2])
    if took is None:
        return True
    reading.requests.append(took)
    reading.requests_where = line.where
    reading.load.stopped = took < _NO_PROMPT_S
    if not reading.load.stopped:
        reading.load.requests += 1
        written = _WRITTEN.search(line.text)
        reading.load.used_until = f"{written[1]} {written[2]}" if written else ""
        reading.waits.end(took, seconds_of_day(written[2]) if written else None, loaded=reading.load.requests == 1)
    return True


@RULES("level=WARN", "level=ERROR", *_REMARKABLE)
def _complaint(reading: Reading, line: Line) -> bool:
    """What it complains of; caches of its web site's list of models do not matter."""
    if line.fields.get("source", "").startswith(_OTHER_MATTERS):
        return False
    reading.warn(line)
    return True


def see_device(reading: Reading, line: Line) -> str:
    """Add to what is known of a device; its name. Before 0.12.4 `name` was what is `description` now."""
    fields, where = line.fields, line.where
    # What follows `name=CUDA0` where the description was copied without its name and quotes
    unquoted = re.search(r"\bname=[A-Za-z]+\d+ ([^=]{3,80}?)(?:\s\w+=|$)", line.text)
    name, description = fields.get("name", ""), fields.get("description") or (unquoted[1].strip() if unquoted else "")
    if not re.fullmatch(r"[A-Za-z]+\d+", name):
        name, description = f"{fields.get('library', '')}{fields.get('id', '')}"[:80], description or name
    old = reading.devices.get(name, (SeenDevice(name=name), ""))[0]
    changes: dict[str, Any] = {
        "description": description or old.description,
        "library": fields.get("library") or old.library,
        **line.sizes(total_bytes="total", free_bytes="available"),
    }
    if fields.get("type") in ("discrete", "iGPU"):
        changes["integrated"] = reported_fact(fields["type"] == "iGPU", where)
    elif fields.get("integrated") in ("true", "false"):
        changes["integrated"] = reported_fact(fields["integrated"] == "true", where)
    if fields.get("compute"):
        changes["compute_capability"] = reported_fact(fields["compute"], where)
    if name in reading.devices or len(reading.devices) < KEPT_DEVICES:
        reading.devices[name] = (msgspec.structs.replace(old, **changes), where)
    return name


def variable_facts(variables: dict[str, str], where: str) -> dict[str, Any]:
    """What the server's variables set; zero leaves the choice to Ollama."""
    facts: dict[str, Any] = {}
    for variable, name in _COUNTED_VARIABLES.items():
        value = variables.get(variable, "")
        if _COUNT.fullmatch(value) and int(value):
            facts[name] = reported_fact(int(value), f"{where}: {variable}")
    if (alive := keep_alive_s(variables.get("OLLAMA_KEEP_ALIVE", ""))) is not None:
        facts["keep_alive_s"] = reported_fact(alive, f"{where}: OLLAMA_KEEP_ALIVE")
    margin = variables.get("LLAMA_ARG_FIT_TARGET", "")
    if _COUNT.fullmatch(margin):
        facts["fit_margin_bytes"] = reported_fact(min(int(margin), 2**40) * MIB, f"{where}: LLAMA_ARG_FIT_TARGET")
    if (fit := variables.get("LLAMA_ARG_FIT", "").lower()) in ("on", "off", "1", "0", "true", "false"):
        facts["fit"] = reported_fact(fit in ("on", "1", "true"), f"{where}: LLAMA_ARG_FIT")
    return facts


def keep_alive_s(text: str) -> float | None:
    """How long a model stays: a duration, a number of seconds, or for ever."""
    if re.fullmatch(r"-\d{1,12}(?:\.\d+)?\w{0,2}", text):
        return FOR_EVER
    value = float(text) if _COUNT.fullmatch(text) else parse_seconds(text)
    if value is None:
        return FOR_EVER if text.startswith("2562047h") else None
    return FOR_EVER if value > _MOST_SECONDS else value
