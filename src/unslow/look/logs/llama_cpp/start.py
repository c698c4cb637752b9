"""Lines of a starting llama.cpp: build, verbosity, devices, backends, threads, and a GPU that was refused."""

import re

from unslow.facts.runtime import SeenDevice
from unslow.facts.units import MIB
from unslow.facts.values import NOT_LOOKED, Fact, Known, reported
from unslow.look.logs.llama_cpp.state import Reading, Rule, keep

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


def see_device(
    reading: Reading, name: str, where: str, description: str = "", total: str | None = None, free: str | None = None
) -> None:
    """Add to what is known of a device; sizes are in MiB. The host's own memory is no device here."""
    see_backend(reading, name, where)
    if not is_gpu_name(name):
        return
    old = reading.devices.get(name, (SeenDevice(name=name), ""))[0]
    seen = SeenDevice(
        name=name,
        description=description.strip() or old.description,
        total_bytes=_mib(total, where, old.total_bytes),
        free_bytes=_mib(free, where, old.free_bytes),
    )
    keep(reading.devices, name, (seen, where))


def _mib(text: str | None, where: str, otherwise: Fact[int] = NOT_LOOKED) -> Fact[int]:
    return reported(int(text) * MIB, where) if text else otherwise


def _build(reading: Reading, found: re.Match[str], where: str) -> None:
    reading.start_process()
    reading.process["version"] = reported(f"b{found[1]}-{found[2]}", where)


def _verbosity(reading: Reading, found: re.Match[str], where: str) -> None:
    reading.process["log_level"] = reported(int(found[1]), where)


def _device_list(reading: Reading, _found: re.Match[str], where: str) -> None:
    reading.devices_listed = where


def _listed_device(reading: Reading, found: re.Match[str], where: str) -> None:
    see_device(reading, found[1], where, found[2], found[3], found[4])


def _used_device(reading: Reading, found: re.Match[str], where: str) -> None:
    see_device(reading, found[1], where, found[2], free=found[3])


def _init_header(reading: Reading, found: re.Match[str], where: str) -> None:
    reading.start_process()
    reading.init_kind, reading.devices_listed = found[2], where
    see_backend(reading, found[2], where)


def _init_device(reading: Reading, found: re.Match[str], where: str) -> None:
    see_device(reading, f"{reading.init_kind}{found[1]}", where, found[2], found[3])


def _vulkan_device(reading: Reading, found: re.Match[str], where: str) -> None:
    see_device(reading, f"Vulkan{found[1]}", where, found[2])


def _loaded_backend(reading: Reading, found: re.Match[str], where: str) -> None:
    reading.start_process()
    see_backend(reading, found[1], where)


def _system_info(reading: Reading, found: re.Match[str], where: str) -> None:
    reading.process["threads"] = reported(int(found[1]), where)
    if found[2]:
        reading.process["threads_batch"] = reported(int(found[2]), where)
    for section in re.findall(r"\|\s*(\w+) : ", found[3]):
        see_backend(reading, section, where)


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


RULES = (
    Rule("build", re.compile(r"\bbuild(?:_info)?\s*[:=]?\s+b?(\d{1,12})(?:-| \()(\w+)"), _build),
    Rule("verbosity = ", re.compile(r"verbosity = (\d{1,9})\b"), _verbosity),
    Rule("device_info:", re.compile("device_info:"), _device_list),
    Rule(" MiB free)", re.compile(r"- ([\w\[\].:]+)\s*: (.+) \((\d{1,12}) MiB, (\d{1,12}) MiB free\)"), _listed_device),
    Rule(
        "using device ",
        re.compile(r"using device (\S+)\s+\((.+?)\)(?:\s+\([^()]*\))?\s+-\s+(\d{1,12})\s+MiB free"),
        _used_device,
    ),
    Rule("ggml_cuda_init: found", re.compile(r"found (\d{1,12}) (CUDA|ROCm|MUSA) devices"), _init_header),
    Rule(
        ", compute capability ",
        re.compile(r"Device (\d{1,12}): (.+?), compute capability [\d.]+(?:.*?VRAM: (\d{1,12}) MiB)?"),
        _init_device,
    ),
    Rule(", gfx", re.compile(r"Device (\d{1,12}): (.+?), gfx\w+(?:.*?VRAM: (\d{1,12}) MiB)?"), _init_device),
    Rule("ggml_vulkan: ", re.compile(r"ggml_vulkan: (\d{1,12}) = (.+?) \|"), _vulkan_device),
    Rule("load_backend: loaded ", re.compile(r"load_backend: loaded (\w+) backend"), _loaded_backend),
    Rule(
        "system_info: ",
        re.compile(r"n_threads = (\d{1,12})(?: \(n_threads_batch = (\d{1,12})\))?(?: / \d+)?(.*)"),
        _system_info,
    ),
    Rule("threadpool init", re.compile(r"threadpool init, n_threads = (\d{1,12})"), _threadpool),
    Rule("failed to initialize ", re.compile(r"ggml_cuda_init: failed to initialize \w+.*"), _refused),
    Rule("gpu-layers option will", re.compile(r"[^:]*gpu-layers option will be ignored"), _refused),
    Rule("No devices found", re.compile(r"ggml_vulkan: No devices found.*"), _refused),
    Rule("driver version is insufficient", re.compile(r"[^:]*driver version is insufficient.*"), _refused),
    Rule("load_backend: failed", re.compile(r"load_backend: failed .*(?:cuda|hip|vulkan|sycl|musa).*"), _refused),
)
