from pathlib import Path

import pytest

from unslow.facts.values import NOT_LOOKED, reported_fact
from unslow.look.logs.nvidia_smi_rows import GPU_SOURCE, parse_rows, summarise_series

MACHINES = Path(__file__).parents[2] / "machines"
MIB = 1024**2
HEADER = "timestamp, index, utilization.gpu [%], memory.used [MiB], clocks_event_reasons.active, clocks.sm [MHz]\n"


def rows_of(machine: str) -> list[dict[str, str]]:
    return parse_rows((MACHINES / machine / "nvidia_smi_query.csv").read_text())


@pytest.mark.parametrize(
    ("machine", "samples", "busy", "used_mib", "power_w", "temperature_c"),
    [
        ("h200_llama_server_healthy_full_gpu", 8, 0.56625, 21625, 424.34, 45),
        ("h200_llama_server_gpu_layers_set_too_low", 47, 0.0480851, 4127, 142.37, 38),
        ("h200_llama_server_spill_other_process_holds_vram", 73, 0.0316438, 142095, 139.21, 37),
        ("h200_llama_server_kv_cache_allocation_fails", 4, 0.1, 143057, 130.18, 37),
    ],
)
def test_recorded_nvidia_smi_series_are_summarised(
    machine: str, samples: int, busy: float, used_mib: int, power_w: float, temperature_c: float
):
    (gpu,) = summarise_series(rows_of(machine))
    assert gpu.samples == samples
    assert gpu.busy.need() == pytest.approx(busy, rel=1e-5)
    assert gpu.vram_used_max_bytes == reported_fact(used_mib * MIB, GPU_SOURCE)
    assert gpu.power_max_w == reported_fact(power_w, GPU_SOURCE)
    assert gpu.temperature_max_c == reported_fact(temperature_c, GPU_SOURCE)
    assert gpu.clock_hz == reported_fact(1980e6, GPU_SOURCE)
    assert gpu.event_reasons == reported_fact([], GPU_SOURCE)
    assert (gpu.pcie_generation_max_seen.need(), gpu.pcie_width_max_seen.need()) == (5, 16)


def test_throttle_reasons_are_joined_over_busy_rows_only():
    text = HEADER + (
        "2026/01/01 00:00:00.000, 0, 90 %, 100 MiB, 0x8, 900 MHz\n"  # before the model was there
        "2026/01/01 00:00:01.000, 0, 0 %, 9000 MiB, 0x1, 300 MHz\n"
        "2026/01/01 00:00:02.000, 0, 90 %, 9000 MiB, 0x4, 900 MHz\n"
        "2026/01/01 00:00:03.000, 0, 95 %, 9000 MiB, 0x1024, 1200 MHz\n"
    )
    (gpu,) = summarise_series(parse_rows(text))
    assert gpu.event_reasons.need() == ["sw_power_cap", "sw_thermal_slowdown", "unknown_bit_0x1000"]
    assert gpu.clock_hz == reported_fact(800e6, GPU_SOURCE)
    assert gpu.power_max_w == NOT_LOOKED


def test_series_of_two_gpus_are_kept_separate():
    text = HEADER + "".join(
        f"2026/01/01 00:00:0{second}.000, {gpu}, {50 * gpu} %, {1000 * (gpu + 1)} MiB, 0x0, 900 MHz\n"
        for second in range(3)
        for gpu in (0, 1)
    )
    assert [(g.index, g.samples, g.busy.need()) for g in summarise_series(parse_rows(text))] == [(0, 3, 0), (1, 3, 0.5)]


def test_without_a_memory_column_all_rows_count_as_busy():
    (gpu,) = summarise_series(parse_rows("timestamp, utilization.gpu [%]\nx, 50 %\ny, [N/A]\n"))
    assert (gpu.samples, gpu.busy) == (2, reported_fact(0.5, GPU_SOURCE))
    assert gpu.event_reasons == NOT_LOOKED
    assert summarise_series([]) == ()
