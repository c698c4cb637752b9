"""What each call of NVML costs here, what each reading costs when it is paced, and some seconds of telemetry.

python lab/sampler_on_gpu.py [--seconds 5] [--hz 10] [--pid PID] [--series FILE.csv]

Run it once on an idle GPU and once while tokens are generated: some calls are slower then.
"""

import argparse
import os
import statistics
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any

from unslow.facts.run import PhaseTelemetry, Span, Stat
from unslow.look.sampler import Sampler
from unslow.look.sampler.readings import Reading
from unslow.look.sampler.sources import all_sources, open_sources
from unslow.look.sampler.sources.nvml import field_values
from unslow.look.system.live import LiveSystem

REPEATS = 30
REST_S = 0.02
"""Between two calls: in a row they find everything in the caches, which a sampler never does."""


FIELDS = ("POWER_INSTANT", "POWER_AVERAGE", "MEMORY_TEMP", "PCIE_COUNT_TX_BYTES", "PCIE_COUNT_RX_BYTES", "ENERGY")


def main() -> None:
    """Everything, as three tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--hz", type=float, default=10.0)
    parser.add_argument("--pid", type=int, default=os.getpid(), help="of the runtime; this program's own without")
    parser.add_argument("--series", help="also write the rows, .csv or .arrow")
    options = parser.parse_args()
    live = LiveSystem()
    nvml_calls(live)
    every_reading(live, options.pid)
    telemetry(live, options)


def timed(call: Callable[[], Any]) -> tuple[float, float, Any]:
    """The median and the longest time of a call, and its last answer."""
    times, answer = [], None
    for _ in range(REPEATS):
        time.sleep(REST_S)
        start = time.perf_counter()
        try:
            answer = call()
        except Exception as error:  # noqa: BLE001 (which ones are refused is a result)
            answer = f"{type(error).__name__}: {error}"
        times.append(time.perf_counter() - start)
    return statistics.median(times), max(times), answer


def show(name: str, call: Callable[[], Any]) -> None:
    """One line."""
    middle, longest, answer = timed(call)
    print(f"  {name:<42} {middle * 1e6:>9.1f} {longest * 1e6:>9.1f}   {str(answer)[:70]}")


def nvml_calls(live: LiveSystem) -> None:
    """The first GPU, call by call; also those that the sampler avoids."""
    print(f"NVML, microseconds: median, longest of {REPEATS}, {REST_S * 1e3:g} ms apart")
    try:
        nvml = live.library("pynvml")
        start = time.perf_counter()
        nvml.nvmlInit()
        gpu = nvml.nvmlDeviceGetHandleByIndex(0)
    except Exception as error:  # noqa: BLE001 (a machine without a GPU)
        print(f"  none: {error}\n")
        return
    print(f"  {'nvmlInit and handle, once':<42} {(time.perf_counter() - start) * 1e6:>9.1f}")
    print(f"  driver {nvml.nvmlSystemGetDriverVersion()}, {nvml.nvmlDeviceGetName(gpu)}")
    for name, call in direct_calls(nvml, gpu).items():
        show(name, call)
    for name in FIELDS:
        show(f"field {name} (value, type)", partial(field_values, nvml, gpu, [getattr(nvml, f"NVML_FI_DEV_{name}", 0)]))
    counted_against_measured(nvml, gpu)
    nvml.nvmlShutdown()
    print()


def direct_calls(nvml: Any, gpu: Any) -> dict[str, Callable[[], Any]]:
    """The questions of the sampler and their older or slower ways."""
    memory = getattr(nvml, "nvmlMemory_v2", None)
    return {
        "utilisation": lambda: str(nvml.nvmlDeviceGetUtilizationRates(gpu)),
        "SM clock": lambda: nvml.nvmlDeviceGetClockInfo(gpu, nvml.NVML_CLOCK_SM),
        "memory clock": lambda: nvml.nvmlDeviceGetClockInfo(gpu, nvml.NVML_CLOCK_MEM),
        "power usage": lambda: nvml.nvmlDeviceGetPowerUsage(gpu),
        "temperature": lambda: nvml.nvmlDeviceGetTemperature(gpu, nvml.NVML_TEMPERATURE_GPU),
        "event reasons": lambda: nvml.nvmlDeviceGetCurrentClocksEventReasons(gpu),
        "memory, version 2": lambda: nvml.nvmlDeviceGetMemoryInfo(gpu, version=memory).used,
        "memory, version 1": lambda: nvml.nvmlDeviceGetMemoryInfo(gpu).used,
        "link generation": lambda: nvml.nvmlDeviceGetCurrPcieLinkGeneration(gpu),
        "link width": lambda: nvml.nvmlDeviceGetCurrPcieLinkWidth(gpu),
        "traffic, measured over 20 ms": lambda: nvml.nvmlDeviceGetPcieThroughput(gpu, nvml.NVML_PCIE_UTIL_RX_BYTES),
    }


def counted_against_measured(nvml: Any, gpu: Any) -> None:
    """Whether the counters count bytes: their growth over a second beside the driver's own figure."""
    fields = [nvml.NVML_FI_DEV_PCIE_COUNT_TX_BYTES, nvml.NVML_FI_DEV_PCIE_COUNT_RX_BYTES]
    try:
        before, start = field_values(nvml, gpu, fields), time.perf_counter()
        measured = []
        while time.perf_counter() < start + 1:
            measured.append([nvml.nvmlDeviceGetPcieThroughput(gpu, kind) for kind in (0, 1)])
        after, seconds = field_values(nvml, gpu, fields), time.perf_counter() - start
    except Exception as error:  # noqa: BLE001 (older drivers)
        print(f"  counters: {error}")
        return
    for place, name in enumerate(("transmitted", "received")):
        counted = (after[place][0] - before[place][0]) / seconds
        said = statistics.mean(row[place] for row in measured) * 1000
        print(f"  {name}: counters {counted / 1e6:.3f} MB/s, driver {said / 1e6:.3f} MB/s")


def every_reading(live: LiveSystem, pid: int) -> None:
    """Every reading as the sampler does it."""
    print(f"readings, microseconds: median, longest of {REPEATS}")
    with ExitStack() as closing:
        readings, unread = open_sources(live, [pid], closing, all_sources())
        for reading in readings:
            show(f"{reading.name}{f' (every {reading.every_s:g} s)' if reading.every_s else ''}", asked(live, reading))
    for name, why in unread.items():
        print(f"  {name:<42} unread: {why}")
    print()


def asked(live: LiveSystem, reading: Reading) -> Callable[[], Any]:
    """The first values of a reading."""
    return lambda: [round(value, 3) for value in list(reading.read(live.clock()))[:4]]


def telemetry(live: LiveSystem, options: argparse.Namespace) -> None:
    """Some seconds, as if tokens were generated all the time."""
    with Sampler(live, [options.pid], options.hz) as sampler:
        start = live.clock()
        time.sleep(options.seconds)
        sampler.note(Span(phase="decode", start_s=start, end_s=live.clock()))
    seen = sampler.telemetry()
    print(f"{seen.samples} samples in {seen.seconds:.2f} s: {seen.got_hz:.2f} Hz, {seen.late} late")
    cost = seen.cost
    print(f"own cost: {cost.seconds_per_sample * 1e6:.0f} us of processor time a sample, {cost.cpus:.4f} CPUs, "
          f"slowest {cost.slowest_sample_s * 1e3:.2f} ms")  # fmt: skip
    for reader in sampler.readers():
        for paced in reader.paced:
            print(f"  {reader.name:<6} {paced.reading.name:<34} {paced.cost_s * 1e6:>9.1f} us")
    for phase in (phase for phase in seen.phases if phase.phase == "decode"):
        show_phase(phase)
    for name, why in seen.unread.items():
        print(f"  unread {name}: {why}")
    if options.series:
        sampler.write_series(options.series)


def show_phase(phase: PhaseTelemetry) -> None:
    """All figures of a phase."""
    print(f"  {'figure':<36} {'mean':>15} {'low':>15} {'high':>15} {'samples':>8}")
    for name, stat in phase.host.items():
        show_stat(name, stat)
    for gpu in phase.gpus:
        for name, stat in gpu.figures.items():
            show_stat(f"gpu{gpu.index} {name}", stat)
        print(f"  gpu{gpu.index} {gpu.name}: reasons {gpu.reasons}")


def show_stat(name: str, stat: Stat) -> None:
    """One figure."""
    print(f"  {name:<36} {stat.mean:>15.6g} {stat.low:>15.6g} {stat.high:>15.6g} {stat.samples:>8}")


if __name__ == "__main__":
    main()
