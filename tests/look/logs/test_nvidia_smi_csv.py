from pathlib import Path

import pytest

from unslow.facts.values import NOT_LOOKED, Absence, Unknown, reported_fact
from unslow.look.logs.nvidia_smi import parse_gpus
from unslow.look.logs.nvidia_smi_rows import APPS_SOURCE, GPU_SOURCE, parse_compute_apps, parse_rows

MACHINES = Path(__file__).parents[2] / "machines"
SPILL = MACHINES / "h200_llama_server_spill_other_process_holds_vram"
MIB = 1024**2


def test_the_latest_row_of_a_recorded_csv_series_is_parsed():
    (gpu,) = parse_gpus((MACHINES / "h200_llama_server_healthy_full_gpu" / "nvidia_smi_query.csv").read_text())
    assert gpu.busy == reported_fact(0.81, GPU_SOURCE)
    assert gpu.memory_busy == reported_fact(0.28, GPU_SOURCE)
    assert gpu.vram_used_bytes == reported_fact(595 * MIB, GPU_SOURCE)
    assert gpu.temperature_c == reported_fact(44.0, GPU_SOURCE)
    assert gpu.power_w == reported_fact(394.55, GPU_SOURCE)
    assert gpu.clock_hz == reported_fact(1980e6, GPU_SOURCE)
    assert gpu.memory_clock_hz == reported_fact(3201e6, GPU_SOURCE)
    assert gpu.event_reasons == reported_fact([], GPU_SOURCE)
    assert (gpu.pcie_generation.need(), gpu.pcie_width.need()) == (5, 16)
    assert gpu.name == gpu.vram_total_bytes == NOT_LOOKED


HEADER = "index, name, memory.total [MiB], power.draw [W]\n"
ROWS = "0, NVIDIA H200, 143771 MiB, 78.04 W\n1, NVIDIA A2, 15356 MiB, [N/A]\n"
COMMAND = "$ nvidia-smi --query-gpu=index,name,memory.total,power.draw --format=csv,noheader\n"


@pytest.mark.parametrize(
    "text",
    [
        HEADER + ROWS,
        (HEADER + ROWS).replace("\n", "\r\n"),
        HEADER + ROWS.replace(" MiB,", ",").replace(" W\n", "\n"),
        COMMAND + ROWS + "\nAnd, now, other, words\n",
        "".join(f"> {line}\n" for line in (HEADER + ROWS).splitlines()),
    ],
    ids=["units", "crlf", "nounits", "noheader", "quoted"],
)
def test_csv_with_and_without_units_header_or_quotes_parses_alike(text: str):
    gpus = parse_gpus(text)
    assert [(gpu.index, gpu.name.need(), gpu.vram_total_bytes.need()) for gpu in gpus] == [
        (0, "NVIDIA H200", 143771 * MIB),
        (1, "NVIDIA A2", 15356 * MIB),
    ]
    assert gpus[0].power_w == reported_fact(78.04, GPU_SOURCE)
    assert isinstance(gpus[1].power_w, Unknown)
    assert gpus[1].power_w.absence is Absence.NOT_SUPPORTED


def test_csv_gpus_without_index_are_separated_by_bus_id_or_row():
    by_id = "timestamp, pci.bus_id, memory.used [MiB]\n"
    by_id += "2026/01/01 00:00:00.1, 00000000:01:00.0, 1 MiB\n2026/01/01 00:00:00.1, 00000000:02:00.0, 2 MiB\n" * 2
    assert [(g.index, g.bus_id.need()) for g in parse_gpus(by_id)] == [(0, "0000:01:00.0"), (1, "0000:02:00.0")]
    by_row = "name, memory.used [MiB]\nNVIDIA A2, 1 MiB\nNVIDIA A2, 2 MiB\n"
    assert [(g.index, g.vram_used_bytes.need()) for g in parse_gpus(by_row)] == [(0, MIB), (1, 2 * MIB)]


def test_single_throttle_reason_columns_and_unknown_bits_are_parsed():
    single = "clocks_throttle_reasons.sw_power_cap, clocks_throttle_reasons.hw_slowdown, pstate, clocks.sm [MHz]\n"
    (gpu,) = parse_gpus(single + "Active, Not Active, P2, 1200 MHz\n")
    assert gpu.event_reasons == reported_fact(["sw_power_cap"], GPU_SOURCE)
    assert gpu.event_reason_bits == reported_fact(4, GPU_SOURCE)
    (gpu,) = parse_gpus("clocks_throttle_reasons.active\n0x0000000000000a20\n")
    assert gpu.event_reasons.need() == ["sw_thermal_slowdown", "unknown_bit_0x200", "unknown_bit_0x800"]
    assert gpu.event_reason_bits.need() == 0xA20
    (gpu,) = parse_gpus("clocks_throttle_reasons.active\n[N/A]\n")
    assert isinstance(gpu.event_reasons, Unknown)


def test_compute_apps_of_a_recorded_machine_are_parsed():
    processes = parse_compute_apps((SPILL / "nvidia_smi_compute_apps.csv").read_text())
    assert [(p.pid, p.name.need(), p.vram_bytes.need()) for p in processes.need()] == [
        (5581, "/opt/torch/.venv/bin/python3", 138120 * MIB),
        (5606, "models/lcpp/build/bin/llama-server", 3944 * MIB),
    ]
    assert processes.source == APPS_SOURCE


def test_a_process_name_with_a_comma_and_no_memory_is_parsed():
    text = "pid, process_name, used_gpu_memory [MiB]\n12, /opt/a, b/run, [N/A]\n"
    (process,) = parse_compute_apps(text).need()
    assert process.name == reported_fact("/opt/a, b/run", APPS_SOURCE)
    assert process.vram_bytes.absence is Absence.NOT_SUPPORTED


def test_impossible_pids_in_compute_apps_are_skipped():
    assert parse_compute_apps("pid, process_name\n99999999999999999999, x\n-1, y\n7, z\n").need()[0].pid == 7


def test_an_empty_compute_apps_table_differs_from_a_missing_one():
    assert parse_compute_apps("pid, process_name, used_gpu_memory [MiB]\n").need() == []
    assert isinstance(parse_compute_apps("No devices were found\n"), Unknown)


@pytest.mark.parametrize(
    "text",
    ["", "name\nfoo\n", "the file, its name\nhello, world\n", "a, b\n1, 2\n", "\x00,\x00", ",,,,\n,,,,", "index\n0\n"],
)
def test_text_that_is_not_nvidia_smi_csv_has_no_rows(text: str):
    assert parse_rows(text) == []


def test_csv_rows_that_do_not_fit_the_header_are_skipped():
    rows = parse_rows("index, memory.used [MiB]\n0, 5 MiB\n0, 5\n0\n0, 5, 6\n")
    assert [row["memory.used"] for row in rows] == ["5 MiB", "5"]


def test_csv_rows_are_bounded_at_50000():
    assert len(parse_rows("index, memory.used [MiB]\n" + "0, 5\n" * 60_000)) == 50_000
