"""Lines of a starting llama.cpp: build, devices, threads, the model, and the machine as it saw it."""

import re
from collections import Counter
from functools import partial
from typing import Any, Literal

import msgspec

from unslow.facts.machine import Cpu, Gpu, Machine, Memory
from unslow.facts.runtime import SeenDevice
from unslow.facts.values import GIB, MIB, NOT_LOOKED, Fact, Known, estimated_fact, reported_fact
from unslow.look.logs.dialect import Rules
from unslow.look.logs.llama_cpp.state import Reading, keep

RULES = Rules[Reading]()
_BACKEND_NAMES = {"MTL": "Metal", "HIP": "ROCm", "AMX": "CPU"}
_MAKERS = {"CUDA": "NVIDIA", "ROCm": "AMD", "Metal": "Apple", "SYCL": "Intel", "MUSA": "Moore Threads"}

# the line `system_info`
_SECTION = re.compile(r"(?:^|[|\"=\s])\s*([A-Za-z]\w{1,15}) : (?=[A-Z])")
_SWITCH = re.compile(r"\b([A-Z][A-Z0-9_]{1,23}) = (\d{1,4})\b")
_ARCHITECTURES = re.compile(r"\bARCHS = ([\w,;-]{1,400})")
_NO_INSTRUCTIONS = frozenset(
    ["LLAMAFILE", "OPENMP", "REPACK", "BLAS", "CUDA", "VULKAN", "SYCL", "METAL", "KLEIDIAI", "ACCELERATE"]
)

# the model
_COUNTS = {
    "n_layer": "layers",
    "n_head": "heads",
    "n_head_kv": "kv_heads",
    "n_embd": "width",
    "n_embd_head_k": "key_length",
    "n_embd_head_v": "value_length",
    "n_vocab": "vocabulary",
    "n_ctx_train": "context_trained",
    "n_expert": "experts",
    "n_expert_used": "experts_used",
    "n_ff_exp": "expert_width",
}
_KEYS = {
    "block_count": "layers",
    "attention.head_count": "heads",
    "attention.head_count_kv": "kv_heads",
    "embedding_length": "width",
    "context_length": "context_trained",
    "expert_count": "experts",
    "expert_used_count": "experts_used",
}
_TEXTS = {"arch": "architecture", "general.name": "name"}
_SCALES = {"K": 1e3, "M": 1e6, "B": 1e9, "T": 1e12, "KiB": 1024, "MiB": MIB, "GiB": GIB}
_WHOLE = re.compile(r"[0-9]{1,15}")
_NUMBERED = re.compile(r"^\d{1,3} \((.{1,60})\)$")  # in 2023: `ftype = 15 (mostly Q4_K - Medium)`
_IRREGULAR = {"Q2_K - Medium": "Q2_K", "IQ3_S mix - 3.66 bpw": "IQ3_M", "MXFP4 MoE": "MXFP4_MOE"}
_PREFIX = r"\b(?:print_info|llm_load_print_meta|llama_model_load_internal):\s+"
_NUMBER = r"(\d{1,15}(?:\.\d{1,6})?)"


@RULES("build", r"\bbuild(?:_info)?\s*[:=]?\s+b?(\d{1,12})(?:-| \()(\w+)", own=False)
def _build(reading: Reading, found: re.Match[str], where: str) -> None:
    reading.start_process()
    reading.process["version"] = reported_fact(f"b{found[1]}-{found[2]}", where)


RULES.note("log_level", "verbosity = ", r"verbosity = (\d{1,9})\b", int, into="process", own=False)


@RULES("device_info:", "device_info:")
def _device_list(reading: Reading, _found: re.Match[str], where: str) -> None:
    reading.devices_listed = where


@RULES(" MiB free)", r"- ([\w\[\].:]{1,60})\s*: (.{1,200}) \((\d{1,12}) MiB, (\d{1,12}) MiB free\)")
def _listed_device(reading: Reading, found: re.Match[str], where: str) -> None:
    name, description, total, free = found.groups()
    description, size = description.strip(), _mib(total, where)
    see_device(reading, name, where, description=description, total_bytes=size, free_bytes=_mib(free, where))
    if name == "CPU":
        reading.memory["total_bytes"] = reported_fact(int(total) * MIB, where)
        if description != "CPU":
            reading.cpu["model"] = reported_fact(description, where)


def _see_described(name: str, reading: Reading, found: re.Match[str], where: str) -> None:
    """A line about one device: what it says stands in groups named as the facts, of which its name is made too."""
    said = found.groupdict()
    facts: dict[str, Any] = {size: _mib(said[size], where) for size in ("total_bytes", "free_bytes") if size in said}
    if "compute_capability" in said:
        facts["compute_capability"] = reported_fact(said["compute_capability"], where)
    if said.get("integrated"):
        facts["integrated"] = reported_fact(said["integrated"] == "1", where)
    name = name.format(kind=reading.init_kind, **said)
    see_device(reading, name, where, description=said["description"].strip(), **facts)


RULES(
    "using device ",
    r"using device (?P<name>\S+)\s+\((?P<description>.{1,200}?)\)(?:\s+\([^()]{0,100}\))?\s+-"
    r"\s+(?P<free_bytes>\d{1,12})\s+MiB free",
)(partial(_see_described, "{name}"))


@RULES((" CUDA devices", " ROCm devices", " MUSA devices"), r"found (\d{1,12}) (CUDA|ROCm|MUSA) devices")
def _init_header(reading: Reading, found: re.Match[str], where: str) -> None:
    reading.start_process()
    reading.init_kind = found[2]
    if found[1] == "0":  # else they follow, or a line that was typed off holds them out of sight
        reading.devices_listed = where
    see_backend(reading, found[2], where)


_VULKAN = (
    r"ggml_vulkan: (?P<number>\d{1,3}) = (?P<description>[^|]{1,200}?)(?: \([^()|]*\))? \|"
    r"(?: uma: (?P<integrated>\d))?"
)
_SYCL = (
    r"\|\s*(?P<number>\d{1,3})\|\s*\[\w{0,20}level_zero:gpu:\d+\]\|\s*(?P<description>[^|]{1,100})\|"
    r".{0,200}\|\s*(?P<total_bytes>\d{1,9})M\|"
)
_CARD = r"Device (?P<number>\d{1,3}): (?P<description>.{1,200}?), "
_CARD_MEMORY = r"(?:.{0,200}?VRAM: (?P<total_bytes>\d{1,12}) MiB)?"
_CAPABILITY = r"compute capability (?P<compute_capability>\d{1,3}\.\d{1,2})"
for _name, _needle, _pattern in (
    ("{kind}{number}", ", compute capability ", _CARD + _CAPABILITY + _CARD_MEMORY),
    ("{kind}{number}", ", gfx", _CARD + r"(?P<compute_capability>gfx\w{3,8})" + _CARD_MEMORY),
    ("Vulkan{number}", "ggml_vulkan: ", _VULKAN),
    ("SYCL{number}", "level_zero:gpu:", _SYCL),
):
    RULES(_needle, _pattern)(partial(_see_described, _name))


@RULES("GPU name:", r"ggml_metal\w{0,40}: GPU name:\s+(.{1,80})")
@RULES("ggml_metal", r"(?:found|picking default) device: (.{1,80})")
def _metal_device(reading: Reading, found: re.Match[str], where: str) -> None:
    description = found[1].strip()
    see_device(reading, "Metal", where, description=description)
    if description.startswith("Apple "):
        reading.cpu["model"] = reported_fact(description, where)


RULES.note(
    "wired_limit_bytes",
    "MaxWorkingSetSize",
    r"recommendedMaxWorkingSetSize[\s:=]{0,8}(?:is |reported |of )?(\d{1,9}(?:\.\d{1,3})?) MB",
    lambda megabytes: round(float(megabytes) * 1e6),
    into="memory",
)


@RULES("load_backend: loaded ", r"load_backend: loaded (\w+) backend")
def _loaded_backend(reading: Reading, found: re.Match[str], where: str) -> None:
    reading.start_process()
    see_backend(reading, found[1], where)


RULES.note("threads", "threadpool init", r"threadpool init, n_threads = (\d{1,12})", int, into="process", first=True)


@RULES(
    ("load_backend: failed", "load_best: failed"),
    r"load_(?:backend|best): failed .{0,400}(?:cuda|hip|vulkan|sycl|musa|metal).*",
)
@RULES("driver version is insufficient", r"[^:]{0,300}driver version is insufficient.*")
@RULES("No devices found", r"ggml_vulkan: No devices found.*")
@RULES("gpu-layers option will", r"[^:]{0,300}gpu-layers option will be ignored")
@RULES("failed to initialize ", r"ggml_\w{1,60}: (?:error: )?failed to initialize .*")
def _backend_error(reading: Reading, found: re.Match[str], where: str) -> None:
    """The driver's own words, once seen, tell more than the later remark that layers are ignored."""
    reading.start_process()
    message: Known[str] = reported_fact(found[0].strip()[:300], where)
    if "ignored" in found[0]:
        reading.process.setdefault("gpu_refused", message)
    else:
        reading.process["gpu_refused"] = message


@RULES('"total_threads":', r'"n_threads":(\d{1,9})(?:,"n_threads_batch":(\d{1,9}))?,"total_threads":(\d{1,9})')
@RULES("system_info: ", r"n_threads = (\d{1,9})(?: \(n_threads_batch = (\d{1,9})\))?(?: / (\d{1,9}))?")
def _threads(reading: Reading, found: re.Match[str], where: str) -> None:
    threads, batch, logical = found.groups()
    reading.process["threads"] = reported_fact(int(threads), where)
    if batch:
        reading.process["threads_batch"] = reported_fact(int(batch), where)
    if logical:
        reading.cpu["logical_cpus"] = reported_fact(int(logical), where)


# Programs that pass the line on may rename or cut it: every build has at least one of these
@RULES(" : ARCHS = ", r"^(?!.*LLAMAFILE = )(?!.* AVX = ).*\bARCHS = .*")
@RULES(" NEON = ", r"^(?!.*LLAMAFILE = )(?!.* AVX = ).*\bNEON = [01] .*")
@RULES(" AVX = ", r"^(?!.*LLAMAFILE = ).*\bAVX = [01] .*")
@RULES("LLAMAFILE = ", r"^.*\bLLAMAFILE = .*")
def _features(reading: Reading, found: re.Match[str], where: str) -> None:
    # sections such as `CUDA : ARCHS = 890 | ...` and `CPU : SSE3 = 1 | ...` came late in 2024; before, it was one row
    line = found[0]
    sections = list(_SECTION.finditer(line))
    for section in sections:
        see_backend(reading, section[1], where)
    if architectures := _ARCHITECTURES.search(line):
        reading.process["build_architectures"] = reported_fact(re.split("[,;]", architectures[1]), where)
    cpu = next((section for section in sections if section[1] == "CPU"), None)
    if cpu or not sections:
        switches = _SWITCH.findall(line[cpu.end() if cpu else 0 :])
        features = [name for name, value in switches if value != "0" and name not in _NO_INSTRUCTIONS]
        reading.process["build_features"] = reported_fact(features, where)
        named = dict(switches)
        if "REPACK" in named:  # whose builds name OpenMP before it
            reading.process["openmp"] = reported_fact("OPENMP" in named, where)


@RULES("- kv ", r"- kv\s+\d{1,4}:\s+([\w.-]{1,100}) \w{1,16}\s+= (.{1,400})")
def _key(reading: Reading, found: re.Match[str], where: str) -> None:
    """A line of the file's own keys; the lines of `print_info` that follow say the same with more care."""
    _, _, name = found[1].partition(".")
    value, facts = found[2].strip(), reading.load.current.model
    if name in _KEYS and _WHOLE.fullmatch(value):
        facts.setdefault(_KEYS[name], reported_fact(int(value), where))
    elif found[1] in ("general.name", "general.architecture") and value:
        facts.setdefault(name, reported_fact(value, where))


@RULES(
    ("print_info: ", "llm_load_print_meta: ", "llama_model_load_internal: "),
    _PREFIX + r"([\w.]+|file type|model ftype)\s+= (.+)",
)
def _model_line(reading: Reading, found: re.Match[str], where: str) -> None:
    name, value = found[1], found[2].strip()
    facts = reading.load.current.model
    if name in _COUNTS and _WHOLE.fullmatch(value):
        facts[_COUNTS[name]] = reported_fact(int(value), where)
    elif name in _TEXTS and value:
        facts[_TEXTS[name]] = reported_fact(value, where)
    elif name == "no_alloc":
        reading.load.current.dry = value == "1"
    elif name in ("file type", "model ftype", "ftype"):
        facts["quant"] = reported_fact(parse_file_type(_NUMBERED.sub(r"\1", value)), where)


@RULES("model params", _PREFIX + rf"model params\s+= {_NUMBER} ([KMBT])\b")
@RULES(("file size ", "model size "), _PREFIX + rf"(?:file|model) size\s+= {_NUMBER} ([KMG]iB)")
def _amount(reading: Reading, found: re.Match[str], where: str) -> None:
    """Printed with two digits, so an estimate."""
    amount = float(found[1]) * _SCALES[found[2]]
    name, bound = ("weights_bytes", 2**60) if found[2].endswith("iB") else ("parameters", 2**53)
    if amount < bound:
        reading.load.current.model[name] = estimated_fact(round(amount), where)


def see_device(reading: Reading, name: str, where: str, **facts: Any) -> None:
    """Add to what is known of a device. Host memory is not a device here."""
    see_backend(reading, name, where)
    if not is_gpu_name(name):
        return
    # What was known of a device; Apple's only GPU goes by several names
    alias = name
    if backend_of(name) == "Metal":
        alias = next((each for each in reading.devices if backend_of(each) == "Metal"), name)
    old = reading.devices.pop(alias)[0] if alias in reading.devices else SeenDevice(name=name)
    known = {key: value for key, value in facts.items() if value not in ("", NOT_LOOKED)}
    keep(reading.devices, name, (msgspec.structs.replace(old, name=name, **known), where))


def see_backend(reading: Reading, name: str, where: str) -> None:
    """Remember that a backend is there, and the first line that says so."""
    backend = backend_of(name)
    if backend and backend not in reading.backends:
        keep(reading.backends, backend, where)


def backend_of(name: str) -> str:
    """The backend that owns a device or buffer name: CUDA of `CUDA0`, `CUDA_Host` and `CUDA0_Split`."""
    stem = re.split(r"[\d_\[]", name, maxsplit=1)[0]
    return _BACKEND_NAMES.get(stem, stem)


def is_gpu_name(name: str) -> bool:
    """Whether a buffer or device of this name lies on a GPU: everything that is not plainly host memory."""
    return not (name in ("CPU", "BLAS", "AMX") or name.startswith("CPU_") or name.endswith("_Host"))


def _mib(text: str | None, where: str) -> Fact[int]:
    return reported_fact(int(text) * MIB, where) if text else NOT_LOOKED


def parse_file_type(text: str) -> str:
    """The short name of a quant as llama.cpp describes it: `Q4_K - Medium` is Q4_K_M, `IQ4_NL - 4.5 bpw` is IQ4_NL."""
    text = text.replace("(guessed)", "").strip().removeprefix("all ").removeprefix("mostly ").strip()
    if text in _IRREGULAR:
        return _IRREGULAR[text]
    name, _, rest = text.partition(" - ")
    letter = {"Small": "S", "Medium": "M", "Large": "L"}.get(rest, "")
    return f"{name}_{letter}" if letter else name


def machine_of(reading: Reading) -> Machine:
    """What the lines tell of the hardware."""
    # Every GPU once: a build with two backends lists the same ones under both
    most: dict[str, Counter[str]] = {}
    for device, _ in reading.devices.values():
        most.setdefault(device.description, Counter())[backend_of(device.name)] += 1
    gpus: list[Gpu] = []
    for device, where in reading.devices.values():
        backend = backend_of(device.name)
        if backend != most[device.description].most_common(1)[0][0]:
            continue
        gpus.append(gpu_of_device(len(gpus), device, _MAKERS.get(backend, ""), where))
    known: Fact[tuple[Gpu, ...]] = NOT_LOOKED
    if gpus:
        known = reported_fact(tuple(gpus), next(where for _, where in reading.devices.values()))
    return Machine(cpu=Cpu(**reading.cpu), memory=Memory(**reading.memory), gpus=known)


def gpu_of_device(index: int, device: SeenDevice, vendor: str, where: str) -> Gpu:
    """The GPU that a device is; what AMD has for a compute capability is the name of an architecture."""
    capability, integrated = device.compute_capability, device.integrated
    amd = str(capability.value_or("")).startswith("gfx")
    kind: Fact[Literal["integrated", "discrete"]] = NOT_LOOKED
    if isinstance(integrated, Known):
        kind = reported_fact("integrated" if integrated.value else "discrete", integrated.source)
    return Gpu(
        index=index,
        vendor=reported_fact(vendor, where) if vendor else NOT_LOOKED,
        kind=kind,
        name=reported_fact(device.description, where) if device.description else NOT_LOOKED,
        vram_total_bytes=device.total_bytes,
        compute_capability=NOT_LOOKED if amd else capability,
        architecture=capability if amd else NOT_LOOKED,
    )
