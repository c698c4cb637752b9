"""A real GPU under dcgm-exporter's names, read through NVML at every scrape: where that exporter can't be had."""

import contextlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from lab.fleet.lines import Line, gauge

_MIB = 1 << 20


def gpu_lines_now(host: str) -> list[Line]:
    """The series of every GPU at this moment."""
    import pynvml  # noqa: PLC0415 (only where there is a GPU)

    return [line for place in range(pynvml.nvmlDeviceGetCount()) for line in _lines(pynvml, place, host)]


def _lines(nvml: Any, place: int, host: str) -> list[Line]:
    card = nvml.nvmlDeviceGetHandleByIndex(place)
    memory, use = nvml.nvmlDeviceGetMemoryInfo(card), nvml.nvmlDeviceGetUtilizationRates(card)
    labels = {
        "gpu": str(place),
        "UUID": f"GPU-{place}",  # not its own: it goes into recordings
        "device": f"nvidia{place}",
        "modelName": nvml.nvmlDeviceGetName(card),
        "Hostname": host,
        "DCGM_FI_DRIVER_VERSION": nvml.nvmlSystemGetDriverVersion(),
    }
    values = {
        "DCGM_FI_DEV_SM_CLOCK": nvml.nvmlDeviceGetClockInfo(card, nvml.NVML_CLOCK_SM),
        "DCGM_FI_DEV_MAX_SM_CLOCK": nvml.nvmlDeviceGetMaxClockInfo(card, nvml.NVML_CLOCK_SM),
        "DCGM_FI_DEV_MEM_CLOCK": nvml.nvmlDeviceGetClockInfo(card, nvml.NVML_CLOCK_MEM),
        "DCGM_FI_DEV_GPU_TEMP": nvml.nvmlDeviceGetTemperature(card, nvml.NVML_TEMPERATURE_GPU),
        "DCGM_FI_DEV_POWER_USAGE": nvml.nvmlDeviceGetPowerUsage(card) / 1000,
        "DCGM_FI_DEV_POWER_MGMT_LIMIT": nvml.nvmlDeviceGetPowerManagementLimit(card) / 1000,
        "DCGM_FI_DEV_POWER_MGMT_LIMIT_DEF": nvml.nvmlDeviceGetPowerManagementDefaultLimit(card) / 1000,
        "DCGM_FI_DEV_CLOCKS_EVENT_REASONS": nvml.nvmlDeviceGetCurrentClocksEventReasons(card),
        "DCGM_FI_DEV_GPU_UTIL": use.gpu,
        "DCGM_FI_DEV_MEM_COPY_UTIL": use.memory,
        "DCGM_FI_DEV_FB_USED": memory.used // _MIB,
        "DCGM_FI_DEV_FB_FREE": memory.free // _MIB,
    }
    return [gauge(name, labels, float(value)) for name, value in values.items()]


@contextlib.contextmanager
def live_gpu_exporter(host: str) -> Iterator[str]:
    """Where it answers, for as long as it is needed."""
    import pynvml  # noqa: PLC0415

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            """The series at this moment."""
            body = "".join(f"{line.identity} {line.level:.10g}\n" for line in gpu_lines_now(host)).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (its name there)
            """Nothing."""

    pynvml.nvmlInit()
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
            pynvml.nvmlShutdown()
