"""The questions to NVML. Each is asked by itself, so that one that fails costs only its own fact."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from unslow.facts.values import Absence
from unslow.look.system import LookError

Nvml = Any
"""The module pynvml, or a stand-in for it."""

# Bounds for a library that answers nonsense; a DGX has 16 GPUs, and nobody reads a list of a thousand processes.
MOST_GPUS = 64
MOST_PROCESSES = 1024


def query_nvml(nvml: Nvml) -> dict[str, Any]:
    """All answers of NVML as JSON, {"error": ...} where there is none; LookError where NVML can't be used at all."""
    _start(nvml)
    try:
        count = min(nvml.nvmlDeviceGetCount(), MOST_GPUS)
        gpus = [_gpu(nvml, index) for index in range(count)]
        names = {str(pid): _answer(_process_name, nvml, pid) for pid in _pids(gpus)}
        return {"driver": _answer(_driver, nvml), "gpus": gpus, "process_names": names}
    except Exception as error:
        raise LookError(_words(error)) from error
    finally:
        with suppress(Exception):
            nvml.nvmlShutdown()


def _start(nvml: Nvml) -> None:
    try:
        nvml.nvmlInit()
    except Exception as error:
        absent = type(error).__name__ in ("NVMLError_LibraryNotFound", "NVMLError_DriverNotLoaded")
        raise LookError(_words(error), Absence.NOT_FOUND if absent else Absence.FAILED) from error


def _gpu(nvml: Nvml, index: int) -> dict[str, Any]:
    try:
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
    except Exception as error:  # noqa: BLE001 (a GPU that fell off the bus must not hide the others)
        return {"error": _words(error)}
    return {name: _answer(ask, nvml, handle) for name, ask in QUESTIONS.items()}


def _answer(ask: Callable[..., Any], *about: Any) -> Any:
    try:
        return _plain(ask(*about))
    except Exception as error:  # noqa: BLE001 (old drivers, lost GPUs, missing functions: all cost one fact)
        return {"error": _words(error)}


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"


def _plain(value: Any) -> Any:
    """The answer as JSON; pynvml hands out bytes and tuples, depending on its version."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return list(value) if isinstance(value, tuple) else value


def _first_answer(*calls: Callable[[], Any]) -> Any:
    """The answer of the first call that has one: new drivers and old ones spell the same question in two ways."""
    for call in calls[:-1]:
        with suppress(Exception):
            return call()
    return calls[-1]()


def _driver(nvml: Nvml) -> Any:
    return nvml.nvmlSystemGetDriverVersion()


def _process_name(nvml: Nvml, pid: int) -> Any:
    return nvml.nvmlSystemGetProcessName(pid)


def _memory(nvml: Nvml, gpu: Any) -> dict[str, int]:
    """Version 2 tells memory that the driver keeps apart from memory in use; version 1 adds them up."""

    def version_2() -> dict[str, int]:
        info = nvml.nvmlDeviceGetMemoryInfo(gpu, version=nvml.nvmlMemory_v2)
        return {"total": info.total, "reserved": info.reserved, "free": info.free, "used": info.used}

    def version_1() -> dict[str, int]:
        info = nvml.nvmlDeviceGetMemoryInfo(gpu)
        return {"total": info.total, "free": info.free, "used": info.used}

    return dict(_first_answer(version_2, version_1))


def _utilisation(nvml: Nvml, gpu: Any) -> dict[str, int]:
    rates = nvml.nvmlDeviceGetUtilizationRates(gpu)
    return {"gpu": rates.gpu, "memory": rates.memory}


def _temperature(nvml: Nvml, gpu: Any) -> Any:
    sensor = nvml.NVML_TEMPERATURE_GPU
    return _first_answer(
        lambda: nvml.nvmlDeviceGetTemperatureV(gpu, sensor), lambda: nvml.nvmlDeviceGetTemperature(gpu, sensor)
    )


def _memory_temperature(nvml: Nvml, gpu: Any) -> Any:
    field = nvml.nvmlDeviceGetFieldValues(gpu, [nvml.NVML_FI_DEV_MEMORY_TEMP])[0]
    if field.nvmlReturn != 0:
        raise nvml.NVMLError(field.nvmlReturn)
    return field.value.uiVal


def _power_limit(nvml: Nvml, gpu: Any) -> Any:
    """The limit in force, which can be lower than the one that was set."""
    return _first_answer(
        lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(gpu), lambda: nvml.nvmlDeviceGetPowerManagementLimit(gpu)
    )


def _event_reasons(nvml: Nvml, gpu: Any) -> Any:
    return _first_answer(
        lambda: nvml.nvmlDeviceGetCurrentClocksEventReasons(gpu),
        lambda: nvml.nvmlDeviceGetCurrentClocksThrottleReasons(gpu),
    )


def _active_nvlinks(nvml: Nvml, gpu: Any) -> int:
    """Links that are up; NVML has no count of links, it refuses the first number that does not exist."""
    active = int(nvml.nvmlDeviceGetNvLinkState(gpu, 0) == 1)
    with suppress(Exception):
        for link in range(1, nvml.NVML_NVLINK_MAX_LINKS):
            active += nvml.nvmlDeviceGetNvLinkState(gpu, link) == 1
    return active


def _processes(answer: list[Any]) -> list[dict[str, Any]]:
    return [{"pid": p.pid, "used_bytes": p.usedGpuMemory} for p in answer[:MOST_PROCESSES]]


def _pids(gpus: list[dict[str, Any]]) -> list[int]:
    lists = (gpu.get(kind) for gpu in gpus for kind in ("compute_processes", "graphics_processes"))
    return sorted({process["pid"] for found in lists if isinstance(found, list) for process in found})


QUESTIONS: dict[str, Callable[[Nvml, Any], Any]] = {
    "name": lambda nvml, gpu: nvml.nvmlDeviceGetName(gpu),
    "bus_id": lambda nvml, gpu: nvml.nvmlDeviceGetPciInfo(gpu).busId,
    "compute_capability": lambda nvml, gpu: nvml.nvmlDeviceGetCudaComputeCapability(gpu),
    "memory_bytes": _memory,
    "memory_bus_bits": lambda nvml, gpu: nvml.nvmlDeviceGetMemoryBusWidth(gpu),
    "utilisation_percent": _utilisation,
    "sm_clock_mhz": lambda nvml, gpu: nvml.nvmlDeviceGetClockInfo(gpu, nvml.NVML_CLOCK_SM),
    "sm_clock_max_mhz": lambda nvml, gpu: nvml.nvmlDeviceGetMaxClockInfo(gpu, nvml.NVML_CLOCK_SM),
    "memory_clock_mhz": lambda nvml, gpu: nvml.nvmlDeviceGetClockInfo(gpu, nvml.NVML_CLOCK_MEM),
    "memory_clock_max_mhz": lambda nvml, gpu: nvml.nvmlDeviceGetMaxClockInfo(gpu, nvml.NVML_CLOCK_MEM),
    "performance_state": lambda nvml, gpu: nvml.nvmlDeviceGetPerformanceState(gpu),
    "temperature_c": _temperature,
    "memory_temperature_c": _memory_temperature,
    "temperature_slowdown_c": lambda nvml, gpu: nvml.nvmlDeviceGetTemperatureThreshold(
        gpu, nvml.NVML_TEMPERATURE_THRESHOLD_SLOWDOWN
    ),
    "temperature_shutdown_c": lambda nvml, gpu: nvml.nvmlDeviceGetTemperatureThreshold(
        gpu, nvml.NVML_TEMPERATURE_THRESHOLD_SHUTDOWN
    ),
    "temperature_margin_c": lambda nvml, gpu: nvml.nvmlDeviceGetMarginTemperature(gpu),
    "power_mw": lambda nvml, gpu: nvml.nvmlDeviceGetPowerUsage(gpu),
    "power_limit_mw": _power_limit,
    "power_limit_default_mw": lambda nvml, gpu: nvml.nvmlDeviceGetPowerManagementDefaultLimit(gpu),
    "event_reason_bits": _event_reasons,
    "pcie_generation": lambda nvml, gpu: nvml.nvmlDeviceGetCurrPcieLinkGeneration(gpu),
    "pcie_generation_max": lambda nvml, gpu: nvml.nvmlDeviceGetMaxPcieLinkGeneration(gpu),
    "pcie_width": lambda nvml, gpu: nvml.nvmlDeviceGetCurrPcieLinkWidth(gpu),
    "pcie_width_max": lambda nvml, gpu: nvml.nvmlDeviceGetMaxPcieLinkWidth(gpu),
    "pcie_transmit_kb_per_s": lambda nvml, gpu: nvml.nvmlDeviceGetPcieThroughput(gpu, nvml.NVML_PCIE_UTIL_TX_BYTES),
    "pcie_receive_kb_per_s": lambda nvml, gpu: nvml.nvmlDeviceGetPcieThroughput(gpu, nvml.NVML_PCIE_UTIL_RX_BYTES),
    "nvlinks_active": _active_nvlinks,
    "ecc_mode": lambda nvml, gpu: nvml.nvmlDeviceGetEccMode(gpu),
    "mig_mode": lambda nvml, gpu: nvml.nvmlDeviceGetMigMode(gpu),
    "compute_processes": lambda nvml, gpu: _processes(nvml.nvmlDeviceGetComputeRunningProcesses(gpu)),
    "graphics_processes": lambda nvml, gpu: _processes(nvml.nvmlDeviceGetGraphicsRunningProcesses(gpu)),
}
