"""NVIDIA GPUs through NVML. Each question is a reading of its own: one that is slow or refused costs only itself."""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from math import nan
from typing import Any

from unslow.facts.values import KB, MHZ, Absence
from unslow.look.logs.gpu_facts import reason_names
from unslow.look.probes.nvml import MOST_GPUS, Nvml
from unslow.look.processes import families
from unslow.look.sampler.readings import REASON_BITS, SELDOM_S, Device, Rate, Reading
from unslow.look.system import Live, LookError

MOST_PERCENT = 100
_NOTHING_NEW = (0, 6)
"""NVML_SUCCESS with no sample to hand out, and NVML_ERROR_NOT_FOUND: no process worked since the last look."""

DRIVER = True
SLOW_S = 2.0
"""Between two looks at the link, which changes with the power state, and at traffic that takes 20 ms to measure."""
# nvmlValueType_t of nvml.h: which member of the union a field's value is in.
_MEMBERS = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")

Ask = Callable[[Nvml, Any], float]


def open_nvml(live: Live, pids: Collection[int], closing: ExitStack) -> list[Reading]:
    """The readings of every GPU; LookError where NVML cannot be used, or lists none."""
    return list(readings_of(live.library("pynvml"), closing, families(live, pids)))


def readings_of(nvml: Nvml, closing: ExitStack, own: Collection[int] = ()) -> Iterator[Reading]:
    """The readings of every GPU that this NVML lists; one that does not answer does not hide the others.

    `own` are the runtime's processes, without which its share cannot be separated.
    """
    try:
        nvml.nvmlInit()
    except Exception as error:
        raise LookError(f"{type(error).__name__}: {error}", Absence.NOT_FOUND) from error
    closing.callback(nvml.nvmlShutdown)
    for index in range(min(nvml.nvmlDeviceGetCount(), MOST_GPUS)):
        try:
            gpu = nvml.nvmlDeviceGetHandleByIndex(index)
            name = nvml.nvmlDeviceGetName(gpu)
        except Exception as error:  # noqa: BLE001 (a GPU that fell off the bus)
            yield Reading(f"gpu{index}", (), partial(_fail, str(error)), Device(index, ""))
            continue
        name = name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name)
        device = Device(index, name, reason_names)
        yield device.reading("utilisation", partial(_utilisation, nvml, gpu), columns=("busy", "memory_busy"))
        for column, ask, every_s in QUESTIONS:
            yield device.reading(column, partial(_ask, ask, nvml, gpu), every_s)
        yield _traffic(nvml, gpu, device)
        if own:
            read = OthersBusy(nvml, gpu, own).read
            yield device.reading("work of other processes", read, SELDOM_S, ("others_busy",))


def _fail(why: str, _now: float) -> Sequence[float]:
    raise LookError(why)


def _ask(ask: Ask, nvml: Nvml, gpu: Any, _now: float) -> Sequence[float]:
    return (ask(nvml, gpu),)


def _utilisation(nvml: Nvml, gpu: Any, _now: float) -> Sequence[float]:
    rates = nvml.nvmlDeviceGetUtilizationRates(gpu)
    return rates.gpu / 100, rates.memory / 100


class OthersBusy:
    """The share of the time in which kernels of others ran, since the last look.

    In a container the driver may count processes by other numbers than /proc does. Then the runtime itself looks like
    another process, so nothing is reported before one of its own numbers was seen at work.
    """

    def __init__(self, nvml: Nvml, gpu: Any, own: Collection[int]) -> None:
        self._nvml, self._gpu, self._own = nvml, gpu, frozenset(own)
        self._since_us, self._knows_own = 0, False

    def read(self, _now: float) -> Sequence[float]:
        """One share; NaN at the first look, which shows the past, and while nothing ran."""
        is_first = not self._since_us
        try:
            samples = list(self._nvml.nvmlDeviceGetProcessUtilization(self._gpu, self._since_us))
        except Exception as error:
            if getattr(error, "value", None) not in _NOTHING_NEW:
                raise
            samples = []
        # What each process used since the last look; a process may be sampled more than once
        seen: dict[int, list[int]] = {}
        for sample in samples:
            self._since_us = max(self._since_us, sample.timeStamp)
            if sample.smUtil <= MOST_PERCENT:  # drivers hand out a row of noise now and then
                seen.setdefault(sample.pid, []).append(sample.smUtil)
        busy = {pid: sum(used) / len(used) for pid, used in seen.items()}
        self._knows_own = self._knows_own or any(pid in self._own for pid in busy)
        if is_first or not busy or not self._knows_own:
            return (nan,)
        others = sum(percent for pid, percent in busy.items() if pid not in self._own)
        return (min(1.0, others / MOST_PERCENT),)


def _traffic(nvml: Nvml, gpu: Any, device: Device) -> Reading:
    """What crosses the link: by counters, which cost nothing; on older drivers by a measurement of 20 ms each way."""
    columns = ("pcie_transmit_bytes_per_s", "pcie_receive_bytes_per_s")
    rates = Rate(), Rate()

    def by_counters(now: float) -> Sequence[float]:
        fields = nvml.NVML_FI_DEV_PCIE_COUNT_TX_BYTES, nvml.NVML_FI_DEV_PCIE_COUNT_RX_BYTES
        counts = field_values(nvml, gpu, fields)
        for rate, (_, kind) in zip(rates, counts, strict=True):  # drivers that count in 32 bits start over every 4 GiB
            rate.wraps_at = 2.0**32 if _MEMBERS[kind] == "uiVal" else 0.0
        return [rate(count, now) for rate, (count, _) in zip(rates, counts, strict=True)]

    try:
        by_counters(0.0)
    except Exception:  # noqa: BLE001 (refused, or unknown to this version of the library)
        kinds = ("NVML_PCIE_UTIL_TX_BYTES", "NVML_PCIE_UTIL_RX_BYTES")
        return device.reading(
            "PCIe traffic, measured",
            lambda _now: [nvml.nvmlDeviceGetPcieThroughput(gpu, getattr(nvml, kind)) * KB for kind in kinds],
            SLOW_S,
            columns,
        )
    return device.reading("PCIe traffic, counted", by_counters, columns=columns)


def _vram_used(nvml: Nvml, gpu: Any) -> float:
    """Without what the driver keeps for itself, where the driver tells the two apart."""
    version = getattr(nvml, "nvmlMemory_v2", None)
    info = nvml.nvmlDeviceGetMemoryInfo(gpu, version=version) if version else nvml.nvmlDeviceGetMemoryInfo(gpu)
    return float(info.used)


def _power(nvml: Nvml, gpu: Any) -> float:
    """Of the moment, which costs least; older drivers have only the mean of the last second."""
    try:
        return field_values(nvml, gpu, [nvml.NVML_FI_DEV_POWER_INSTANT])[0][0] / 1000
    except Exception:  # noqa: BLE001 (refused, or unknown to this version of the library)
        return float(nvml.nvmlDeviceGetPowerUsage(gpu)) / 1000


def field_values(nvml: Nvml, gpu: Any, fields: Sequence[int]) -> list[tuple[float, int]]:
    """Several of the driver's numbered values, each with its type, in one call; its error where one is refused."""
    answers = nvml.nvmlDeviceGetFieldValues(gpu, list(fields))
    for answer in answers:
        if answer.nvmlReturn != 0:
            raise nvml.NVMLError(answer.nvmlReturn)
    return [(getattr(answer.value, _MEMBERS[answer.valueType]), answer.valueType) for answer in answers]


QUESTIONS: tuple[tuple[str, Ask, float], ...] = (
    ("clock_hz", lambda nvml, gpu: nvml.nvmlDeviceGetClockInfo(gpu, nvml.NVML_CLOCK_SM) * MHZ, 0.0),
    ("power_w", _power, 0.0),
    (
        REASON_BITS,  # newer drivers call them event reasons, older ones throttle reasons
        lambda nvml, gpu: (
            getattr(nvml, "nvmlDeviceGetCurrentClocksEventReasons", None)
            or nvml.nvmlDeviceGetCurrentClocksThrottleReasons
        )(gpu),
        0.0,
    ),
    ("vram_used_bytes", _vram_used, 0.0),
    ("memory_clock_hz", lambda nvml, gpu: nvml.nvmlDeviceGetClockInfo(gpu, nvml.NVML_CLOCK_MEM) * MHZ, SELDOM_S),
    ("temperature_c", lambda nvml, gpu: nvml.nvmlDeviceGetTemperature(gpu, nvml.NVML_TEMPERATURE_GPU), SELDOM_S),
    ("memory_temperature_c", lambda nvml, gpu: field_values(nvml, gpu, [nvml.NVML_FI_DEV_MEMORY_TEMP])[0][0], SELDOM_S),
    ("pcie_generation", lambda nvml, gpu: nvml.nvmlDeviceGetCurrPcieLinkGeneration(gpu), SLOW_S),
    ("pcie_width", lambda nvml, gpu: nvml.nvmlDeviceGetCurrPcieLinkWidth(gpu), SLOW_S),
)
"""Column, question, and seconds between two looks; 0 asks every round."""
