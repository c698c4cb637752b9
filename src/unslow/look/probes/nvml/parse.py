"""NVML's answers as facts."""

from collections.abc import Callable, Iterator
from typing import Any

from unslow.facts.machine import Gpu, GpuProcess
from unslow.facts.units import KB, MHZ
from unslow.facts.values import NOT_LOOKED, Fact, Unknown, failed, not_found, not_supported, reported
from unslow.look.logs import nvidia_values
from unslow.look.logs.nvidia_gpu import gpu_process, gpu_without_facts, nvidia_gpu
from unslow.look.logs.nvidia_reasons import reason_names

SOURCE = "nvml"
_NOT_AVAILABLE = 2**64 - 1  # NVML_VALUE_NOT_AVAILABLE as an unsigned 64-bit number
_MOST_PID = 2**32
_PSTATE_UNKNOWN = 32  # NVML_PSTATE_UNKNOWN
_NO_SUCH_LINK = "NVMLError_NotSupported"
_NO_SUCH_QUESTION = ("NVMLError_NotSupported", "NVMLError_FunctionNotFound", "AttributeError")


def parse_nvml(raw: Any) -> tuple[Gpu, ...]:
    """The GPUs of `query_nvml`; what is missing or strange there is Unknown here."""
    answers = raw.get("gpus") if isinstance(raw, dict) else None
    gpus = answers if isinstance(answers, list) else []
    return tuple(_gpu(index, gpu, raw) for index, gpu in enumerate(gpus) if isinstance(gpu, dict))


def _gpu(index: int, answers: dict[str, Any], raw: dict[str, Any]) -> Gpu:
    driver = _fact(raw.get("driver"), str)
    vendor = reported("NVIDIA", SOURCE)
    if "error" in answers:
        return gpu_without_facts(index, _unknown(answers["error"]), vendor=vendor, driver=driver)
    facts = {name: _fact(answers.get(question), convert) for name, (question, convert) in _FACTS.items()}
    others = {"driver": driver, "nvlinks_active": _nvlinks(answers), "processes": _processes(answers, raw)}
    return nvidia_gpu(index, SOURCE, {**facts, **others})


def _fact(answer: Any, convert: Callable[[Any], Any]) -> Fact[Any]:
    if answer is None:
        return NOT_LOOKED
    if isinstance(answer, dict) and "error" in answer:
        return _unknown(answer["error"])
    try:
        value = convert(answer)
    except (ArithmeticError, LookupError, TypeError, ValueError):
        return failed(f"{SOURCE} answered {str(answer)[:40]}")
    return value if isinstance(value, Unknown) else reported(value, SOURCE)


def _unknown(error: Any) -> Unknown:
    """Why NVML did not answer; "this GPU or driver can't say" is kept apart from a failure."""
    kind, _, words = str(error)[:200].partition(": ")
    if kind in _NO_SUCH_QUESTION:
        return not_supported(f"{SOURCE}: {words or kind}")
    hint = "ask as root" if kind == "NVMLError_NoPermission" else ""
    return failed(f"{SOURCE}: {words or kind}", hint)


def _nvlinks(answers: dict[str, Any]) -> Fact[Any]:
    """Links that are up; a card that does not support the first one has none, while an old driver can't say."""
    answer = answers.get("nvlinks_active")
    refused = str(answer.get("error", "")) if isinstance(answer, dict) else ""
    if refused.startswith(_NO_SUCH_LINK):
        return reported(0, f"{SOURCE}: NVLink is not supported")
    return _fact(answer, _as_it_is)


def _reserved(memory: dict[str, int]) -> Any:
    return memory["reserved"] if "reserved" in memory else not_supported("this driver counts it as memory in use")


def _performance_state(number: int) -> Any:
    return not_found("the driver does not know it") if number == _PSTATE_UNKNOWN else f"P{number:d}"


def _bus_id(text: str) -> Any:
    fact = nvidia_values.bus_id(text, SOURCE)
    return fact if isinstance(fact, Unknown) else fact.value


def _scaled(scale: float) -> Callable[[Any], Any]:
    return lambda number: number * scale


def _as_it_is(answer: Any) -> Any:
    return answer


_FACTS: dict[str, tuple[str, Callable[[Any], Any]]] = {
    "name": ("name", str),
    "bus_id": ("bus_id", _bus_id),
    "compute_capability": ("compute_capability", lambda pair: f"{pair[0]:d}.{pair[1]:d}"),
    "vram_total_bytes": ("memory_bytes", lambda memory: memory["total"]),
    "vram_used_bytes": ("memory_bytes", lambda memory: memory["used"]),
    "vram_free_bytes": ("memory_bytes", lambda memory: memory["free"]),
    "vram_reserved_bytes": ("memory_bytes", _reserved),
    "memory_bus_bits": ("memory_bus_bits", _as_it_is),
    "busy": ("utilisation_percent", lambda rates: rates["gpu"] / 100),
    "memory_busy": ("utilisation_percent", lambda rates: rates["memory"] / 100),
    "clock_hz": ("sm_clock_mhz", _scaled(MHZ)),
    "clock_max_hz": ("sm_clock_max_mhz", _scaled(MHZ)),
    "memory_clock_hz": ("memory_clock_mhz", _scaled(MHZ)),
    "memory_clock_max_hz": ("memory_clock_max_mhz", _scaled(MHZ)),
    "performance_state": ("performance_state", _performance_state),
    "temperature_c": ("temperature_c", _as_it_is),
    "memory_temperature_c": ("memory_temperature_c", _as_it_is),
    "temperature_slowdown_c": ("temperature_slowdown_c", _as_it_is),
    "temperature_shutdown_c": ("temperature_shutdown_c", _as_it_is),
    "temperature_margin_c": ("temperature_margin_c", _as_it_is),
    "power_w": ("power_mw", lambda milliwatts: milliwatts / 1000),
    "power_limit_w": ("power_limit_mw", lambda milliwatts: milliwatts / 1000),
    "power_limit_default_w": ("power_limit_default_mw", lambda milliwatts: milliwatts / 1000),
    "event_reasons": ("event_reason_bits", reason_names),
    "event_reason_bits": ("event_reason_bits", _as_it_is),
    "pcie_generation": ("pcie_generation", _as_it_is),
    "pcie_generation_max": ("pcie_generation_max", _as_it_is),
    "pcie_width": ("pcie_width", _as_it_is),
    "pcie_width_max": ("pcie_width_max", _as_it_is),
    "pcie_transmit_bytes_per_s": ("pcie_transmit_kb_per_s", _scaled(KB)),
    "pcie_receive_bytes_per_s": ("pcie_receive_kb_per_s", _scaled(KB)),
    "ecc": ("ecc_mode", lambda modes: modes[0] == 1),
    "mig": ("mig_mode", lambda modes: modes[0] == 1),
}


def _processes(answers: dict[str, Any], raw: dict[str, Any]) -> Fact[Any]:
    """Compute and graphics processes as one list; without the compute ones there is none to trust."""
    compute, graphics = answers.get("compute_processes"), answers.get("graphics_processes")
    if not isinstance(compute, list):
        return _fact(compute, _as_it_is)
    used: dict[int, int | None] = {}
    for pid, size in _pairs([*compute, *(graphics if isinstance(graphics, list) else [])]):
        used[pid] = max((s for s in (used.get(pid), size) if s is not None), default=None)
    names = raw.get("process_names")
    return reported([_process(pid, size, names) for pid, size in sorted(used.items())], SOURCE)


def _pairs(entries: list[Any]) -> Iterator[tuple[int, int | None]]:
    for entry in entries:
        if isinstance(entry, dict) and isinstance(pid := entry.get("pid"), int) and 0 <= pid < _MOST_PID:
            size = entry.get("used_bytes")
            yield pid, size if isinstance(size, int) and size != _NOT_AVAILABLE else None


def _process(pid: int, size: int | None, names: Any) -> GpuProcess:
    name = _fact(names.get(str(pid)), str) if isinstance(names, dict) else NOT_LOOKED
    unknown_size = not_supported("this driver model (WDDM) does not tell memory by process")
    return gpu_process(pid, name, unknown_size if size is None else reported(size, SOURCE))
