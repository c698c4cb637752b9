"""The series of GPU exporters: dcgm-exporter's and AMD's, by the names and labels of their own sources.

Names: https://github.com/NVIDIA/dcgm-exporter (etc/default-counters.csv; the throttling, limits and largest clocks are
there and commented out, as many clusters switch them on) and https://github.com/ROCm/device-metrics-exporter.
"""

import uuid
from collections.abc import Mapping

from lab.fleet.lines import Line, counter, gauge
from lab.fleet.machines import Gpu

_DRIVER = "580.159.04"
"""Of the recorded H200."""
_UP_S = 400_000.0
"""Since the driver was loaded."""


def gpu_lines(gpu: Gpu, host: str, pod: Mapping[str, str] | None = None, *, more: bool = True) -> list[Line]:
    """The series of one GPU; with `more`, those that an exporter gives only where they were switched on."""
    amd = gpu.card.driver_name.startswith("AMD")
    labels = (_amd_labels if amd else _labels)(gpu, host) | dict(pod or {})
    return _amd(gpu, labels) if amd else [*_usual(gpu, labels), *(_more(gpu, labels) if more else ())]


def _labels(gpu: Gpu, host: str) -> dict[str, str]:
    return {
        "gpu": str(gpu.place),
        "UUID": f"GPU-{uuid.uuid5(uuid.NAMESPACE_DNS, f'{gpu.place}.{host}')}",
        "pci_bus_id": f"00000000:{16 + gpu.place:02X}:00.0",
        "device": f"nvidia{gpu.place}",
        "modelName": gpu.card.driver_name,
        "Hostname": host,
        "DCGM_FI_DRIVER_VERSION": _DRIVER,
    }


def _usual(gpu: Gpu, labels: Mapping[str, str]) -> list[Line]:
    """Those of the default list that move or that somebody could need."""
    watts = gpu.default_limit_w * gpu.limit_share * gpu.power_share
    used = gpu.memory_mib * gpu.memory_used_share
    return [
        gauge("DCGM_FI_DEV_SM_CLOCK", labels, gpu.clock_max_mhz * gpu.clock_share),
        gauge("DCGM_FI_DEV_MEM_CLOCK", labels, gpu.card.memory_clock_mhz),
        gauge("DCGM_FI_DEV_GPU_TEMP", labels, gpu.temperature_c, 0.02),
        gauge("DCGM_FI_DEV_MEMORY_TEMP", labels, gpu.memory_temperature_c, 0.02),
        gauge("DCGM_FI_DEV_POWER_USAGE", labels, watts, 0.04),
        counter("DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", labels, 1000 * watts, _UP_S),
        counter("DCGM_FI_DEV_PCIE_REPLAY_COUNTER", labels, 0.0, _UP_S),
        gauge("DCGM_FI_DEV_GPU_UTIL", labels, 100 * gpu.busy, 0.02),
        gauge("DCGM_FI_DEV_MEM_COPY_UTIL", labels, 100 * gpu.memory_busy, 0.05),
        gauge("DCGM_FI_DEV_XID_ERRORS", labels, 0.0),
        gauge("DCGM_FI_DEV_FB_USED", labels, round(used)),
        gauge("DCGM_FI_DEV_FB_FREE", labels, round(gpu.memory_mib - used)),
    ]


def _more(gpu: Gpu, labels: Mapping[str, str]) -> list[Line]:
    return [
        counter("DCGM_FI_DEV_POWER_VIOLATION", labels, 1e9 * gpu.power_held, _UP_S / 100),
        counter("DCGM_FI_DEV_THERMAL_VIOLATION", labels, 1e9 * gpu.thermal, _UP_S / 100),
        gauge("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", labels, gpu.reasons),
        gauge("DCGM_FI_DEV_POWER_MGMT_LIMIT", labels, gpu.default_limit_w * gpu.limit_share),
        gauge("DCGM_FI_DEV_POWER_MGMT_LIMIT_DEF", labels, gpu.default_limit_w),
        gauge("DCGM_FI_DEV_MAX_SM_CLOCK", labels, gpu.clock_max_mhz),
    ]


def _amd_labels(gpu: Gpu, host: str) -> dict[str, str]:
    return {
        "gpu_id": str(gpu.place),
        "card_model": gpu.card.driver_name,
        "card_vendor": "Advanced Micro Devices Inc",
        "driver_version": "6.14.14",
        "hostname": host,
        "serial_number": f"{uuid.uuid5(uuid.NAMESPACE_DNS, f'{gpu.place}.{host}').int % 10**12:012d}",
    }


def _amd(gpu: Gpu, labels: Mapping[str, str]) -> list[Line]:
    used = gpu.memory_mib * gpu.memory_used_share
    clocks = {"GPU_CLOCK_TYPE_SYSTEM": gpu.clock_max_mhz * gpu.clock_share, "GPU_CLOCK_TYPE_MEMORY": 1300.0}
    return [
        gauge("gpu_total_vram", labels, gpu.memory_mib),
        gauge("gpu_used_vram", labels, round(used)),
        gauge("gpu_free_vram", labels, round(gpu.memory_mib - used)),
        gauge("gpu_gfx_activity", labels, 100 * gpu.busy, 0.02),
        gauge("gpu_umc_activity", labels, 100 * gpu.memory_busy, 0.05),
        gauge("gpu_junction_temperature", labels, gpu.temperature_c, 0.02),
        gauge("gpu_memory_temperature", labels, gpu.memory_temperature_c, 0.02),
        gauge("gpu_power_usage", labels, gpu.default_limit_w * gpu.limit_share * gpu.power_share, 0.04),
        *(gauge("gpu_clock", {**labels, "clock_index": "0", "clock_type": kind}, mhz) for kind, mhz in clocks.items()),
    ]
