from contextlib import ExitStack
from math import isnan
from pathlib import Path
from types import SimpleNamespace

import pytest
from recorded_nvml import RecordedNvml, rows_of
from sampled_machine import LiveFake

from unslow.look.sampler.readings import Reader
from unslow.look.sampler.sources import nvml as source
from unslow.look.sampler.sources import open_sources
from unslow.look.system import LookError

MACHINES = Path(__file__).parents[2] / "machines"
BUSY = {row["timestamp"]: row for row in rows_of(MACHINES / "h200_llama_server_healthy_70b")}
ROW = max(BUSY.values(), key=lambda row: float(row["power.draw"]))


def reader_of(nvml: RecordedNvml, live: LiveFake) -> Reader:
    readings = list(source.readings_of(nvml, ExitStack()))
    return Reader("gpu0", readings, live.clock, live.clock, 0.1, 0.01)


def read(reader: Reader, live: LiveFake, rounds: int = 1, first: int = 0) -> dict[str, float]:
    seen: dict[str, float] = {}
    for number in range(first, first + rounds):
        reader.round(number)
        values = zip(reader.columns, reader.take(), strict=True)
        seen |= {name: value for name, value in values if not isnan(value)}
        live.sleep(0.1)
    return seen


def test_every_figure_of_a_busy_h200_is_sampled():
    nvml, live = RecordedNvml(ROW), LiveFake()
    reader = reader_of(nvml, live)
    read(reader, live)
    nvml.fields |= {197: (30_000_000, 3), 198: (5_000_000, 3)}
    seen = read(reader, live, first=1) | read(reader, live, 30, 2)
    assert reader.unread == {}
    assert seen["gpu0_clock_hz"] == float(ROW["clocks.sm"]) * 1e6
    assert seen["gpu0_power_w"] == pytest.approx(float(ROW["power.draw"]), abs=0.01)
    assert seen["gpu0_busy"] == float(ROW["utilization.gpu"]) / 100
    assert seen["gpu0_vram_used_bytes"] == float(ROW["memory.used"]) * 1024**2
    assert seen["gpu0_reason_bits"] == int(ROW["clocks_event_reasons.active"], 16)
    assert (seen["gpu0_pcie_generation"], seen["gpu0_pcie_width"]) == (5, 16)
    assert (seen["gpu0_temperature_c"], seen["gpu0_memory_temperature_c"]) == (float(ROW["temperature.gpu"]), 41)
    assert {"gpu0_pcie_transmit_bytes_per_s", "gpu0_pcie_receive_bytes_per_s", "gpu0_memory_clock_hz"} <= set(seen)
    assert "throughput" not in nvml.calls


def test_pcie_traffic_is_counter_growth_with_wraparound():
    nvml, live = RecordedNvml(ROW), LiveFake()
    nvml.fields |= {197: (2**32 - 1_000_000, 1), 198: (0, 3)}
    reader = reader_of(nvml, live)
    read(reader, live)
    nvml.fields |= {197: (2_000_000, 1), 198: (500_000, 3)}
    seen = read(reader, live, first=1)
    assert seen["gpu0_pcie_transmit_bytes_per_s"] == pytest.approx(30e6, rel=1e-6)
    assert seen["gpu0_pcie_receive_bytes_per_s"] == pytest.approx(5e6, rel=1e-6)


def test_an_old_driver_gives_pcie_throughput_and_average_power():
    nvml, live = RecordedNvml(ROW), LiveFake()
    nvml.errors["instant power"] = 3
    del nvml.fields[197], nvml.fields[82]
    reader = reader_of(nvml, live)
    seen = read(reader, live, 19)
    assert seen["gpu0_pcie_transmit_bytes_per_s"] == 2_169_000
    assert nvml.calls.count("throughput") == 2  # each way, once in two seconds
    assert seen["gpu0_power_w"] == pytest.approx(float(ROW["power.draw"]))
    assert reader.unread == {"gpu0 memory_temperature_c": "Not Supported"}


def test_a_gpu_lost_while_sampled_is_named_and_asked_rarely():
    nvml, live = RecordedNvml(ROW), LiveFake()
    reader = reader_of(nvml, live)
    read(reader, live, 5)
    nvml.errors = dict.fromkeys(("utilisation", "clock", "power", "instant power", "reasons", "memory", "temperature",
                                 "generation", "width"), 15)  # fmt: skip
    nvml.calls.clear()
    assert not {"gpu0_clock_hz", "gpu0_busy", "gpu0_power_w"} & set(read(reader, live, 500, 5))
    assert reader.unread["gpu0 utilisation"] == "GPU is lost"
    assert len(nvml.calls) < 150


def test_a_gpu_lost_from_the_start_does_not_hide_the_others():
    nvml = RecordedNvml(ROW, gpus=2)
    nvml.errors["handle 0"] = 15
    readings, unread = open_sources(LiveFake(libraries={"pynvml": nvml}), [], ExitStack())
    assert "nvml" not in unread
    assert {reading.device.number for reading in readings if reading.device} == {0, 1}
    lost = next(reading for reading in readings if reading.name == "gpu0")
    with pytest.raises(LookError, match="GPU is lost"):
        lost.read(0.0)


def test_nvml_is_shut_down_and_a_failed_init_is_a_look_error():
    nvml = RecordedNvml(ROW)
    with ExitStack() as closing:
        list(source.readings_of(nvml, closing))
    assert nvml.shut == 1
    nvml.errors["init"] = 3
    with pytest.raises(LookError, match="Not Supported"):
        list(source.readings_of(nvml, ExitStack()))


def test_gpus_of_all_drivers_get_distinct_numbers():
    amd = "/sys/class/drm/card0/device"
    live = LiveFake(
        libraries={"pynvml": RecordedNvml(ROW, gpus=2)},
        folders={"/sys/class/drm": ["card0"]},
        files={f"{amd}/vendor": "0x1002\n", f"{amd}/gpu_busy_percent": "97\n"},
    )
    readings, _unread = open_sources(live, [], ExitStack())
    names = {f"{reading.device.prefix}{column}" for reading in readings if reading.device for column in reading.columns}
    assert {"gpu0_busy", "gpu1_busy", "gpu2_busy"} <= names
    assert not [name for name in names if name.startswith("gpu3")]


class CountingNvml(RecordedNvml):
    """A driver that counts the work of each process: ours has number 7, a stranger 8."""

    def nvmlDeviceGetProcessUtilization(self, gpu: int, since_us: int) -> list[SimpleNamespace]:  # noqa: N802
        when = since_us + 1_000_000
        return [SimpleNamespace(pid=pid, timeStamp=when, smUtil=percent) for pid, percent in ((7, 58), (8, 41))]


def test_other_processes_gpu_share_needs_known_own_pids():
    live = LiveFake()
    columns = [c for r in source.readings_of(CountingNvml(ROW), ExitStack()) for c in r.columns]
    assert "others_busy" not in columns
    reader = Reader(
        "gpu0", list(source.readings_of(CountingNvml(ROW), ExitStack(), [7])), live.clock, live.clock, 0.1, 0.01
    )
    assert read(reader, live, 10)["gpu0_others_busy"] == 0.41


def test_an_nvml_without_process_utilization_loses_only_that_figure():
    live = LiveFake()
    reader = Reader(
        "gpu0", list(source.readings_of(RecordedNvml(ROW), ExitStack(), [7])), live.clock, live.clock, 0.1, 0.01
    )
    seen = read(reader, live, 10)
    assert "gpu0_others_busy" not in seen
    assert seen["gpu0_busy"] == float(ROW["utilization.gpu"]) / 100
