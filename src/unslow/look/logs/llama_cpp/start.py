"""Lines of a starting llama.cpp: build, verbosity, devices, backends, threads, and a GPU that was refused."""

import re
from typing import Any

import msgspec

from unslow.facts.runtime import SeenDevice
from unslow.facts.units import MIB
from unslow.facts.values import NOT_LOOKED, Fact, Known, reported
from unslow.look.logs.llama_cpp.loads import keep
from unslow.look.logs.llama_cpp.state import Reading, Rule

_HOST_BUFFERS = ("CPU", "BLAS", "AMX")
_BACKEND_NAMES = {"MTL": "Metal", "HIP": "ROCm", "AMX": "CPU"}
_MOST_MESSAGE = 300


def is_gpu_name(name: str) -> bool:
    """Whether a buffer or device of this name lies on a GPU: everything that is not plainly host memory."""
    return not (name in _HOST_BUFFERS or name.startswith("CPU_") or name.endswith("_Host"))


def backend_of(name: str) -> str:
    """The backend that owns a device or buffer name: CUDA of `CUDA0`, `CUDA_Host` and `CUDA0_Split`."""
    stem = re.split(r"[\d_\[]", name, maxsplit=1)[0]
    return _BACKEND_NAMES.get(stem, stem)


def see_backend(reading: Reading, name: str, where: str) -> None:
    """Remember that a backend is there, and the first line that says so."""
    backend = backend_of(name)
    if backend and backend not in reading.backends:
        keep(reading.backends, backend, where)


def see_device(reading: Reading, name: str, where: str, **facts: Any) -> None:
    """Add to what is known of a device. The host's own memory is no device here."""
    see_backend(reading, name, where)
    if not is_gpu_name(name):
        return
    old = _forget_alias(reading, name)
    known = {key: value for key, value in facts.items() if value not in ("", NOT_LOOKED)}
    keep(reading.devices, name, (msgspec.structs.replace(old, name=name, **known), where))


def _forget_alias(reading: Reading, name: str) -> SeenDevice:
    """What was known of a device; Apple's only GPU goes by several names."""
    alias = name
    if backend_of(name) == "Metal":
        alias = next((each for each in reading.devices if backend_of(each) == "Metal"), name)
    return reading.devices.pop(alias)[0] if alias in reading.devices else SeenDevice(name=name)


def _mib(text: str | None, where: str) -> Fact[int]:
    return reported(int(text) * MIB, where) if text else NOT_LOOKED


def _build(reading: Reading, found: re.Match[str], where: str) -> None:
    reading.start_process()
    reading.process["version"] = reported(f"b{found[1]}-{found[2]}", where)


def _verbosity(reading: Reading, found: re.Match[str], where: str) -> None:
    reading.process["log_level"] = reported(int(found[1]), where)


def _device_list(reading: Reading, _found: re.Match[str], where: str) -> None:
    reading.devices_listed = where


def _listed_device(reading: Reading, found: re.Match[str], where: str) -> None:
    name, description, total, free = found.groups()
    see_device(
        reading,
        name,
        where,
        description=description.strip(),
        total_bytes=_mib(total, where),
        free_bytes=_mib(free, where),
    )
    if name == "CPU":
        reading.memory["total_bytes"] = reported(int(total) * MIB, where)
        if description.strip() != "CPU":
            reading.cpu["model"] = reported(description.strip(), where)


def _used_device(reading: Reading, found: re.Match[str], where: str) -> None:
    see_device(reading, found[1], where, description=found[2].strip(), free_bytes=_mib(found[3], where))


def _init_header(reading: Reading, found: re.Match[str], where: str) -> None:
    reading.start_process()
    reading.init_kind = found[2]
    if found[1] == "0":  # else they follow, or a line that was typed off holds them out of sight
        reading.devices_listed = where
    see_backend(reading, found[2], where)


def _init_device(reading: Reading, found: re.Match[str], where: str) -> None:
    see_device(
        reading,
        f"{reading.init_kind}{found[1]}",
        where,
        description=found[2].strip(),
        compute_capability=reported(found[3], where),
        total_bytes=_mib(found[4], where),
    )


def _vulkan_device(reading: Reading, found: re.Match[str], where: str) -> None:
    integrated: Fact[bool] = reported(found[3] == "1", where) if found[3] else NOT_LOOKED
    see_device(reading, f"Vulkan{found[1]}", where, description=found[2].strip(), integrated=integrated)


def _sycl_device(reading: Reading, found: re.Match[str], where: str) -> None:
    see_device(reading, f"SYCL{found[1]}", where, description=found[2].strip(), total_bytes=_mib(found[3], where))


def _metal_device(reading: Reading, found: re.Match[str], where: str) -> None:
    description = found[1].strip()
    see_device(reading, "Metal", where, description=description)
    if description.startswith("Apple "):
        reading.cpu["model"] = reported(description, where)


def _metal_limit(reading: Reading, found: re.Match[str], where: str) -> None:
    reading.memory["wired_limit_bytes"] = reported(round(float(found[1]) * 1e6), where)


def _loaded_backend(reading: Reading, found: re.Match[str], where: str) -> None:
    reading.start_process()
    see_backend(reading, found[1], where)


def _threadpool(reading: Reading, found: re.Match[str], where: str) -> None:
    reading.process.setdefault("threads", reported(int(found[1]), where))


def _refused(reading: Reading, found: re.Match[str], where: str) -> None:
    """The driver's own words, once seen, tell more than the later remark that layers are ignored."""
    reading.start_process()
    message: Known[str] = reported(found[0].strip()[:_MOST_MESSAGE], where)
    if "ignored" in found[0]:
        reading.process.setdefault("gpu_refused", message)
    else:
        reading.process["gpu_refused"] = message


_KINDS = ("CUDA", "ROCm", "MUSA")
_GPU_LIBRARIES = "cuda|hip|vulkan|sycl|musa|metal"
RULES = (
    Rule("build", re.compile(r"\bbuild(?:_info)?\s*[:=]?\s+b?(\d{1,12})(?:-| \()(\w+)"), _build, weak=True),
    Rule("verbosity = ", re.compile(r"verbosity = (\d{1,9})\b"), _verbosity, weak=True),
    Rule("device_info:", re.compile("device_info:"), _device_list),
    Rule(
        " MiB free)",
        re.compile(r"- ([\w\[\].:]{1,60})\s*: (.{1,200}) \((\d{1,12}) MiB, (\d{1,12}) MiB free\)"),
        _listed_device,
    ),
    Rule(
        "using device ",
        re.compile(r"using device (\S+)\s+\((.{1,200}?)\)(?:\s+\([^()]{0,100}\))?\s+-\s+(\d{1,12})\s+MiB free"),
        _used_device,
    ),
    *(Rule(f" {kind} devices", re.compile(rf"found (\d{{1,12}}) ({kind}) devices"), _init_header) for kind in _KINDS),
    Rule(
        ", compute capability ",
        re.compile(
            r"Device (\d{1,3}): (.{1,200}?), compute capability (\d{1,3}\.\d{1,2})(?:.{0,200}?VRAM: (\d{1,12}) MiB)?"
        ),
        _init_device,
    ),
    Rule(
        ", gfx",
        re.compile(r"Device (\d{1,3}): (.{1,200}?), (gfx\w{3,8})(?:.{0,200}?VRAM: (\d{1,12}) MiB)?"),
        _init_device,
    ),
    Rule(
        "ggml_vulkan: ",
        re.compile(r"ggml_vulkan: (\d{1,3}) = ([^|]{1,200}?)(?: \([^()|]*\))? \|(?: uma: (\d))?"),
        _vulkan_device,
    ),
    Rule(
        "level_zero:gpu:",
        re.compile(r"\|\s*(\d{1,3})\|\s*\[\w{0,20}level_zero:gpu:\d+\]\|\s*([^|]{1,100})\|.{0,200}\|\s*(\d{1,9})M\|"),
        _sycl_device,
    ),
    Rule("ggml_metal", re.compile(r"(?:found|picking default) device: (.{1,80})"), _metal_device),
    Rule("GPU name:", re.compile(r"ggml_metal\w{0,40}: GPU name:\s+(.{1,80})"), _metal_device),
    Rule(
        "MaxWorkingSetSize",
        re.compile(r"recommendedMaxWorkingSetSize[\s:=]{0,8}(?:is |reported |of )?(\d{1,9}(?:\.\d{1,3})?) MB"),
        _metal_limit,
    ),
    Rule("load_backend: loaded ", re.compile(r"load_backend: loaded (\w+) backend"), _loaded_backend),
    Rule("threadpool init", re.compile(r"threadpool init, n_threads = (\d{1,12})"), _threadpool),
    Rule("failed to initialize ", re.compile(r"ggml_\w{1,60}: (?:error: )?failed to initialize .*"), _refused),
    Rule("gpu-layers option will", re.compile(r"[^:]{0,300}gpu-layers option will be ignored"), _refused),
    Rule("No devices found", re.compile(r"ggml_vulkan: No devices found.*"), _refused),
    Rule("driver version is insufficient", re.compile(r"[^:]{0,300}driver version is insufficient.*"), _refused),
    Rule("load_backend: failed", re.compile(rf"load_backend: failed .{{0,400}}(?:{_GPU_LIBRARIES}).*"), _refused),
    Rule("load_best: failed", re.compile(rf"load_best: failed .{{0,400}}(?:{_GPU_LIBRARIES}).*"), _refused),
)
