"""NVIDIA GPUs: through NVML, else through nvidia-smi, else as the PCI bus shows them."""

import re
from collections.abc import Callable
from contextlib import suppress
from operator import methodcaller
from typing import Any

import msgspec

from unslow.facts.machine import Gpu, Machine
from unslow.facts.values import (
    KB,
    MHZ,
    NOT_LOOKED,
    Absence,
    Fact,
    Known,
    Unknown,
    failed_fact,
    not_found,
    not_supported,
    reported_fact,
)
from unslow.look.logs import nvidia_smi_rows
from unslow.look.logs.gpu_facts import gpu_of, gpu_process, gpu_without_facts, reason_names
from unslow.look.logs.nvidia_smi import Q_SOURCE as SMI
from unslow.look.logs.nvidia_smi import parse_nvidia_smi_q
from unslow.look.logs.nvidia_smi_rows import parse_compute_apps
from unslow.look.system import LookError, System, look_if_there, read_text, try_fact, try_look

SOURCE = "nvml"
_NOT_AVAILABLE = 2**64 - 1  # NVML_VALUE_NOT_AVAILABLE as an unsigned 64-bit number
_MOST_PID = 2**32
_PSTATE_UNKNOWN = 32  # NVML_PSTATE_UNKNOWN
_NO_SUCH_LINK = "NVMLError_NotSupported"
_NO_SUCH_QUESTION = ("NVMLError_NotSupported", "NVMLError_FunctionNotFound", "AttributeError")

_SAME = (
    "memory_bus_bits", "temperature_c", "memory_temperature_c", "temperature_slowdown_c", "temperature_shutdown_c",
    "temperature_margin_c", "event_reason_bits", "pcie_generation", "pcie_generation_max", "pcie_width",
    "pcie_width_max",
)  # fmt: skip
"""Facts that are answers as they are, under their own names."""

PCI_DEVICES = "/sys/bus/pci/devices"
MODULE_VERSION = "/proc/driver/nvidia/version"
_VENDOR = "0x10de"
_DISPLAY = "0x03"  # PCI base class 03: VGA and 3D controllers
_MOST_DEVICES = 4096
_VERSION = re.compile(r"\b(\d{3,4}\.\d{1,4}(?:\.\d{1,4})?)\b")

Nvml = Any  # The module pynvml, or a stand-in for it

# Bounds for a library that answers nonsense; a DGX has 16 GPUs, and a list of a thousand processes helps no reader.
MOST_GPUS = 64
MOST_PROCESSES = 1024

QUERY = ("nvidia-smi", "-q")
QUERY_PROCESSES = ("nvidia-smi", "--query-compute-apps=pid,process_name,used_gpu_memory", "--format=csv")


def read(system: System) -> Machine:
    """All NVIDIA GPUs of the machine."""
    why = "NVML lists no GPU"
    try:
        if gpus := parse_nvml(system.ask("nvml", _ask_nvml)):
            return Machine(gpus=reported_fact(tuple(_with_names(system, gpu) for gpu in gpus), SOURCE))
    except LookError as no_nvml:
        why = no_nvml.why
    try:
        return Machine(gpus=reported_fact(read_nvidia_smi(system), SMI))
    except LookError:
        return Machine(gpus=try_fact(read_gpus_without_driver, system, why))


def _ask_nvml() -> Any:
    try:
        import pynvml  # noqa: PLC0415 (only a machine that is really asked needs it)
    except ImportError as error:
        raise LookError("nvidia-ml-py is not installed", Absence.NOT_FOUND) from error
    return query_nvml(pynvml)


def read_nvidia_smi(system: System) -> tuple[Gpu, ...]:
    """The GPUs as `nvidia-smi -q` prints them; LookError where it lists none."""
    done = system.run(QUERY)
    gpus = parse_nvidia_smi_q(done.stdout)
    if not gpus:
        raise LookError(f"nvidia-smi: {(done.stdout.strip() or done.stderr.strip())[:200]}")
    if len(gpus) == 1 and not isinstance(gpus[0].processes, Known):
        # The second command does not say on which GPU the processes are
        listed = try_look(None, system.run, QUERY_PROCESSES)
        processes = parse_compute_apps(listed.stdout) if listed else None
        if isinstance(processes, Known):
            gpus = (msgspec.structs.replace(gpus[0], processes=processes),)
    return tuple(_with_names(system, gpu) for gpu in gpus)


def _with_names(system: System, gpu: Gpu) -> Gpu:
    if not isinstance(gpu.processes, Known):
        return gpu
    named = []
    for process in gpu.processes.value:
        path = f"/proc/{process.pid}/comm"
        name = None if isinstance(process.name, Known) else try_look(None, read_text, system, path)
        fact = process.name if name is None else reported_fact(name.strip(), path)
        named.append(msgspec.structs.replace(process, name=fact))
    return msgspec.structs.replace(gpu, processes=msgspec.structs.replace(gpu.processes, value=named))


def read_gpus_without_driver(system: System, why_no_driver: str) -> Fact[tuple[Gpu, ...]]:
    """The GPUs on the bus with the reason why they cannot be asked; an empty list only where there is surely none."""
    text, version = look_if_there(None, read_text, system, MODULE_VERSION), ""
    if text is not None:  # else no module is loaded
        match = _VERSION.search(text)
        version = match[1] if match else "of unknown version"
    silent = failed_fact(f"driver {version} is loaded, but {why_no_driver}", "run `nvidia-smi`")
    addresses = []
    for address in look_if_there([], system.list_dir, PCI_DEVICES)[:_MOST_DEVICES]:
        vendor = try_look("", read_text, system, f"{PCI_DEVICES}/{address}/vendor").strip().lower()
        kind = try_look("", read_text, system, f"{PCI_DEVICES}/{address}/class") if vendor == _VENDOR else ""
        if kind.strip().lower().startswith(_DISPLAY):
            addresses.append(address)
    if not addresses and version:
        return silent
    gpus = []
    for index, address in enumerate(addresses):
        known = {"vendor": reported_fact("NVIDIA", PCI_DEVICES), "bus_id": reported_fact(address, PCI_DEVICES)}
        if version:
            gpus.append(gpu_without_facts(index, silent, **known, driver=reported_fact(version, MODULE_VERSION)))
            continue
        holder = try_look("", system.read_link, f"{PCI_DEVICES}/{address}/driver").rpartition("/")[2]
        why = f"driver not loaded: {holder} holds the device" if holder else "driver not loaded"
        gpus.append(gpu_without_facts(index, not_found(why, "install NVIDIA's driver and restart"), **known))
    return reported_fact(tuple(gpus), PCI_DEVICES)


def parse_nvml(raw: Any) -> tuple[Gpu, ...]:
    """The GPUs of `query_nvml`; what is missing or strange there is Unknown here."""
    if not isinstance(raw, dict) or not isinstance(raw.get("gpus"), list):
        return ()
    driver, gpus = _fact(raw.get("driver"), str), []
    for index, answers in enumerate(raw["gpus"]):
        if isinstance(answers, dict) and "error" in answers:
            vendor = reported_fact("NVIDIA", SOURCE)
            gpus.append(gpu_without_facts(index, _unknown(answers["error"]), vendor=vendor, driver=driver))
        elif isinstance(answers, dict):
            facts = {name: _fact(answers.get(question), convert) for name, (question, convert) in _FACTS.items()}
            # A card that does not support the first link has none, while an old driver cannot say
            links = answers.get("nvlinks_active")
            refused = isinstance(links, dict) and str(links.get("error", "")).startswith(_NO_SUCH_LINK)
            nvlinks = reported_fact(0, f"{SOURCE}: NVLink is not supported") if refused else _fact(links)
            others = {"driver": driver, "nvlinks_active": nvlinks, "processes": _processes(answers, raw)}
            gpus.append(gpu_of(index, "NVIDIA", SOURCE, {**facts, **others}))
    return tuple(gpus)


def _fact(answer: Any, convert: Callable[[Any], Any] = lambda answer: answer) -> Fact[Any]:
    if answer is None:
        return NOT_LOOKED
    if isinstance(answer, dict) and "error" in answer:
        return _unknown(answer["error"])
    try:
        value = convert(answer)
    except (ArithmeticError, LookupError, TypeError, ValueError):
        return failed_fact(f"{SOURCE} answered {str(answer)[:40]}")
    return value if isinstance(value, Known | Unknown) else reported_fact(value, SOURCE)


def _unknown(error: Any) -> Unknown:
    """Why NVML did not answer; "this GPU or driver cannot say" is kept apart from a failure."""
    kind, _, words = str(error)[:200].partition(": ")
    if kind in _NO_SUCH_QUESTION:
        return not_supported(f"{SOURCE}: {words or kind}")
    hint = "ask as root" if kind == "NVMLError_NoPermission" else ""
    return failed_fact(f"{SOURCE}: {words or kind}", hint)


def _processes(answers: dict[str, Any], raw: dict[str, Any]) -> Fact[Any]:
    """Compute and graphics processes as one list; without the compute ones there is none to trust."""
    compute, graphics = answers.get("compute_processes"), answers.get("graphics_processes")
    if not isinstance(compute, list):
        return _fact(compute)
    used: dict[int, int | None] = {}
    for entry in [*compute, *(graphics if isinstance(graphics, list) else [])]:
        if isinstance(entry, dict) and isinstance(pid := entry.get("pid"), int) and 0 <= pid < _MOST_PID:
            sizes = (used.get(pid), entry.get("used_bytes"))
            used[pid] = max((s for s in sizes if isinstance(s, int) and s != _NOT_AVAILABLE), default=None)
    names = raw.get("process_names")
    processes = []
    for pid, size in sorted(used.items()):
        name = _fact(names.get(str(pid)), str) if isinstance(names, dict) else NOT_LOOKED
        unknown_size = not_supported("this driver model (WDDM) does not report memory per process")
        processes.append(gpu_process(pid, name, unknown_size if size is None else reported_fact(size, SOURCE)))
    return reported_fact(processes, SOURCE)


_FACTS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    **{name: (name, lambda answer: answer) for name in _SAME},
    "name": ("name", str),
    "bus_id": ("bus_id", lambda text: nvidia_smi_rows.parse_bus_id(text, SOURCE)),
    "compute_capability": ("compute_capability", lambda pair: f"{pair[0]:d}.{pair[1]:d}"),
    "vram_total_bytes": ("memory_bytes", lambda memory: memory["total"]),
    "vram_used_bytes": ("memory_bytes", lambda memory: memory["used"]),
    "vram_free_bytes": ("memory_bytes", lambda memory: memory["free"]),
    "vram_reserved_bytes": (
        "memory_bytes",
        lambda memory: (
            memory["reserved"] if "reserved" in memory else not_supported("this driver counts it as memory in use")
        ),
    ),
    "busy": ("utilisation_percent", lambda rates: rates["gpu"] / 100),
    "memory_busy": ("utilisation_percent", lambda rates: rates["memory"] / 100),
    "clock_hz": ("sm_clock_mhz", lambda mhz: mhz * MHZ),
    "clock_max_hz": ("sm_clock_max_mhz", lambda mhz: mhz * MHZ),
    "memory_clock_hz": ("memory_clock_mhz", lambda mhz: mhz * MHZ),
    "memory_clock_max_hz": ("memory_clock_max_mhz", lambda mhz: mhz * MHZ),
    "performance_state": (
        "performance_state",
        lambda number: f"P{number:d}" if number != _PSTATE_UNKNOWN else not_found("the driver does not report it"),
    ),
    "power_w": ("power_mw", lambda milliwatts: milliwatts / 1000),
    "power_limit_w": ("power_limit_mw", lambda milliwatts: milliwatts / 1000),
    "power_limit_default_w": ("power_limit_default_mw", lambda milliwatts: milliwatts / 1000),
    "event_reasons": ("event_reason_bits", reason_names),
    "pcie_transmit_bytes_per_s": ("pcie_transmit_kb_per_s", lambda kilobytes: kilobytes * KB),
    "pcie_receive_bytes_per_s": ("pcie_receive_kb_per_s", lambda kilobytes: kilobytes * KB),
    "ecc": ("ecc_mode", lambda modes: modes[0] == 1),
    "mig": ("mig_mode", lambda modes: modes[0] == 1),
}


def query_nvml(nvml: Nvml) -> dict[str, Any]:
    """All answers of NVML as JSON, {"error": ...} where there is none; LookError where NVML cannot be used at all."""
    try:
        nvml.nvmlInit()
    except Exception as error:
        absent = type(error).__name__ in ("NVMLError_LibraryNotFound", "NVMLError_DriverNotLoaded")
        raise LookError(_words(error), Absence.NOT_FOUND if absent else Absence.FAILED) from error
    try:
        gpus: list[dict[str, Any]] = []
        for index in range(min(nvml.nvmlDeviceGetCount(), MOST_GPUS)):
            try:
                handle = nvml.nvmlDeviceGetHandleByIndex(index)
            except Exception as error:  # noqa: BLE001 (a GPU that fell off the bus must not hide the others)
                gpus.append({"error": _words(error)})
            else:
                gpus.append({name: _answer(ask, nvml, handle) for name, ask in QUESTIONS.items()})
        lists = (gpu.get(kind) for gpu in gpus for kind in ("compute_processes", "graphics_processes"))
        pids = sorted({process["pid"] for found in lists if isinstance(found, list) for process in found})
        names = {str(pid): _answer(methodcaller("nvmlSystemGetProcessName", pid), nvml) for pid in pids}
        driver = methodcaller("nvmlSystemGetDriverVersion")
        return {"driver": _answer(driver, nvml), "gpus": gpus, "process_names": names}
    except Exception as error:
        raise LookError(_words(error)) from error
    finally:
        with suppress(Exception):
            nvml.nvmlShutdown()


def _answer(ask: Callable[..., Any], *about: Any) -> Any:
    """The answer as JSON; pynvml hands out bytes and tuples, depending on its version."""
    try:
        value = ask(*about)
    except Exception as error:  # noqa: BLE001 (old drivers, lost GPUs, missing functions: all cost one fact)
        return {"error": _words(error)}
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return list(value) if isinstance(value, tuple) else value


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _first_answer(*calls: Callable[[], Any]) -> Any:
    """The answer of the first call that has one: new drivers and old ones spell the same question in two ways."""
    for call in calls[:-1]:
        with suppress(Exception):
            return call()
    return calls[-1]()


def _members(answer: Any, *names: str) -> dict[str, int]:
    return {name: getattr(answer, name) for name in names if hasattr(answer, name)}


def _memory_temperature(nvml: Nvml, gpu: Any) -> Any:
    field = nvml.nvmlDeviceGetFieldValues(gpu, [nvml.NVML_FI_DEV_MEMORY_TEMP])[0]
    if field.nvmlReturn != 0:
        raise nvml.NVMLError(field.nvmlReturn)
    return field.value.uiVal


def _active_nvlinks(nvml: Nvml, gpu: Any) -> int:
    """Links that are up; NVML has no count of links, it refuses the first number that does not exist."""
    active = int(nvml.nvmlDeviceGetNvLinkState(gpu, 0) == 1)
    with suppress(Exception):
        for link in range(1, nvml.NVML_NVLINK_MAX_LINKS):
            active += nvml.nvmlDeviceGetNvLinkState(gpu, link) == 1
    return active


def _query_processes(answer: list[Any]) -> list[dict[str, Any]]:
    return [{"pid": p.pid, "used_bytes": p.usedGpuMemory} for p in answer[:MOST_PROCESSES]]


QUESTIONS: dict[str, Callable[[Nvml, Any], Any]] = {
    "name": lambda nvml, gpu: nvml.nvmlDeviceGetName(gpu),
    "bus_id": lambda nvml, gpu: nvml.nvmlDeviceGetPciInfo(gpu).busId,
    "compute_capability": lambda nvml, gpu: nvml.nvmlDeviceGetCudaComputeCapability(gpu),
    # Version 2 tells memory that the driver keeps apart from memory in use; version 1 adds them up
    "memory_bytes": lambda nvml, gpu: _members(
        _first_answer(
            lambda: nvml.nvmlDeviceGetMemoryInfo(gpu, version=nvml.nvmlMemory_v2),
            lambda: nvml.nvmlDeviceGetMemoryInfo(gpu),
        ),
        "total",
        "reserved",
        "free",
        "used",
    ),
    "memory_bus_bits": lambda nvml, gpu: nvml.nvmlDeviceGetMemoryBusWidth(gpu),
    "utilisation_percent": lambda nvml, gpu: _members(nvml.nvmlDeviceGetUtilizationRates(gpu), "gpu", "memory"),
    "sm_clock_mhz": lambda nvml, gpu: nvml.nvmlDeviceGetClockInfo(gpu, nvml.NVML_CLOCK_SM),
    "sm_clock_max_mhz": lambda nvml, gpu: nvml.nvmlDeviceGetMaxClockInfo(gpu, nvml.NVML_CLOCK_SM),
    "memory_clock_mhz": lambda nvml, gpu: nvml.nvmlDeviceGetClockInfo(gpu, nvml.NVML_CLOCK_MEM),
    "memory_clock_max_mhz": lambda nvml, gpu: nvml.nvmlDeviceGetMaxClockInfo(gpu, nvml.NVML_CLOCK_MEM),
    "performance_state": lambda nvml, gpu: nvml.nvmlDeviceGetPerformanceState(gpu),
    "temperature_c": lambda nvml, gpu: _first_answer(
        lambda: nvml.nvmlDeviceGetTemperatureV(gpu, nvml.NVML_TEMPERATURE_GPU),
        lambda: nvml.nvmlDeviceGetTemperature(gpu, nvml.NVML_TEMPERATURE_GPU),
    ),
    "memory_temperature_c": _memory_temperature,
    "temperature_slowdown_c": lambda nvml, gpu: nvml.nvmlDeviceGetTemperatureThreshold(
        gpu, nvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN
    ),
    "temperature_shutdown_c": lambda nvml, gpu: nvml.nvmlDeviceGetTemperatureThreshold(
        gpu, nvml.NVML_TEMPERATURE_THRESHOLD_SHUTDOWN
    ),
    "temperature_margin_c": lambda nvml, gpu: nvml.nvmlDeviceGetMarginTemperature(gpu),
    "power_mw": lambda nvml, gpu: nvml.nvmlDeviceGetPowerUsage(gpu),
    # The limit in force can be lower than the one that was set
    "power_limit_mw": lambda nvml, gpu: _first_answer(
        lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(gpu), lambda: nvml.nvmlDeviceGetPowerManagementLimit(gpu)
    ),
    "power_limit_default_mw": lambda nvml, gpu: nvml.nvmlDeviceGetPowerManagementDefaultLimit(gpu),
    "event_reason_bits": lambda nvml, gpu: _first_answer(
        lambda: nvml.nvmlDeviceGetCurrentClocksEventReasons(gpu),
        lambda: nvml.nvmlDeviceGetCurrentClocksThrottleReasons(gpu),
    ),
    "pcie_generation": lambda nvml, gpu: nvml.nvmlDeviceGetCurrPcieLinkGeneration(gpu),
    "pcie_generation_max": lambda nvml, gpu: nvml.nvmlDeviceGetMaxPcieLinkGeneration(gpu),
    "pcie_width": lambda nvml, gpu: nvml.nvmlDeviceGetCurrPcieLinkWidth(gpu),
    "pcie_width_max": lambda nvml, gpu: nvml.nvmlDeviceGetMaxPcieLinkWidth(gpu),
    "pcie_transmit_kb_per_s": lambda nvml, gpu: nvml.nvmlDeviceGetPcieThroughput(gpu, nvml.NVML_PCIE_UTIL_TX_BYTES),
    "pcie_receive_kb_per_s": lambda nvml, gpu: nvml.nvmlDeviceGetPcieThroughput(gpu, nvml.NVML_PCIE_UTIL_RX_BYTES),
    "nvlinks_active": _active_nvlinks,
    "ecc_mode": lambda nvml, gpu: nvml.nvmlDeviceGetEccMode(gpu),
    "mig_mode": lambda nvml, gpu: nvml.nvmlDeviceGetMigMode(gpu),
    "compute_processes": lambda nvml, gpu: _query_processes(nvml.nvmlDeviceGetComputeRunningProcesses(gpu)),
    "graphics_processes": lambda nvml, gpu: _query_processes(nvml.nvmlDeviceGetGraphicsRunningProcesses(gpu)),
}
