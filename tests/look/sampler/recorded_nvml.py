# ruff: noqa: N802, N815 (the names are NVML's own)
"""A stand-in for NVML that answers what an H200 answered: rows of `nvidia-smi --query-gpu`, one after the other."""

import csv
from pathlib import Path
from types import SimpleNamespace
from typing import Any

Row = dict[str, str]


class NVMLError(Exception):
    def __init__(self, number: int = 3) -> None:
        super().__init__({3: "Not Supported", 15: "GPU is lost"}.get(number, "Unknown Error"))


def rows_of(folder: Path) -> list[Row]:
    return list(csv.DictReader((folder / "nvidia_smi_query.csv").read_text().splitlines()))


class RecordedNvml:
    """`row` is what it answers now; a name in `errors` is refused with that number."""

    NVML_CLOCK_SM, NVML_CLOCK_MEM, NVML_TEMPERATURE_GPU = 1, 2, 0
    NVML_PCIE_UTIL_TX_BYTES, NVML_PCIE_UTIL_RX_BYTES = 0, 1
    NVML_FI_DEV_MEMORY_TEMP, NVML_FI_DEV_POWER_INSTANT = 82, 186
    NVML_FI_DEV_PCIE_COUNT_TX_BYTES, NVML_FI_DEV_PCIE_COUNT_RX_BYTES = 197, 198
    nvmlMemory_v2 = 2
    NVMLError = NVMLError

    def __init__(self, row: Row, gpus: int = 1) -> None:
        self.row, self.gpus = row, gpus
        self.errors: dict[str, int] = {}
        self.fields: dict[int, tuple[int, int]] = {82: (41, 1), 186: (0, 1), 197: (0, 3), 198: (0, 3)}
        self.calls: list[str] = []
        self.shut = 0

    def _number(self, what: str, column: str) -> float:
        self.calls.append(what)
        if what in self.errors:
            raise NVMLError(self.errors[what])
        text = self.row[column].strip()
        return int(text, 16) if text.startswith("0x") else float(text)

    def nvmlInit(self) -> None:
        if "init" in self.errors:
            raise NVMLError(self.errors["init"])

    def nvmlShutdown(self) -> None:
        self.shut += 1

    def nvmlDeviceGetCount(self) -> int:
        return self.gpus

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        if f"handle {index}" in self.errors:
            raise NVMLError(self.errors[f"handle {index}"])
        return index

    def nvmlDeviceGetName(self, gpu: int) -> bytes:
        return b"NVIDIA H200"

    def nvmlDeviceGetUtilizationRates(self, gpu: int) -> Any:
        gpu_percent = self._number("utilisation", "utilization.gpu")
        return SimpleNamespace(gpu=gpu_percent, memory=self._number("utilisation", "utilization.memory"))

    def nvmlDeviceGetClockInfo(self, gpu: int, kind: int) -> float:
        return self._number("clock", "clocks.sm" if kind == self.NVML_CLOCK_SM else "clocks.mem")

    def nvmlDeviceGetPowerUsage(self, gpu: int) -> float:
        return self._number("power", "power.draw") * 1000

    def nvmlDeviceGetCurrentClocksEventReasons(self, gpu: int) -> int:
        return int(self._number("reasons", "clocks_event_reasons.active"))

    def nvmlDeviceGetMemoryInfo(self, gpu: int, version: int = 1) -> Any:
        return SimpleNamespace(used=self._number("memory", "memory.used") * 1024**2)

    def nvmlDeviceGetTemperature(self, gpu: int, sensor: int) -> float:
        return self._number("temperature", "temperature.gpu")

    def nvmlDeviceGetCurrPcieLinkGeneration(self, gpu: int) -> float:
        return self._number("generation", "pcie.link.gen.current")

    def nvmlDeviceGetCurrPcieLinkWidth(self, gpu: int) -> float:
        return self._number("width", "pcie.link.width.current")

    def nvmlDeviceGetPcieThroughput(self, gpu: int, kind: int) -> int:
        self.calls.append("throughput")
        return 2169 if kind == self.NVML_PCIE_UTIL_TX_BYTES else 460

    def nvmlDeviceGetFieldValues(self, gpu: int, fields: list[int]) -> list[Any]:
        return [self._field(number) for number in fields]

    def _field(self, number: int) -> Any:
        if number == self.NVML_FI_DEV_POWER_INSTANT:
            self.fields[number] = (round(self._number("instant power", "power.draw") * 1000), 1)
        value, kind = self.fields.get(number, (0, 1))
        members = dict.fromkeys(("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal"), value)
        return SimpleNamespace(
            nvmlReturn=0 if number in self.fields else 3, valueType=kind, value=SimpleNamespace(**members)
        )
