from pathlib import Path

import pytest

from unslow.facts.machine import Gpu
from unslow.facts.values import NOT_LOOKED, Absence, Known, Unknown, estimated_fact, reported_fact
from unslow.look.logs.nvidia_smi import Q_SOURCE, parse_nvidia_smi_q

MACHINES = Path(__file__).parents[2] / "machines"
RECORDED = [MACHINES / "h200_llama_server_healthy_full_gpu" / "nvidia_smi_q.txt"]
TEXT = RECORDED[0].read_text()
MIB = 1024**2

# The words of drivers before 530, with a display, two kinds of processes and a reason that nobody knows yet.
OLD = """
==============NVSMI LOG==============

Driver Version                            : 470.82.01

Attached GPUs                             : 2
GPU 00000000:18:00.0
    Product Name                          : NVIDIA GeForce RTX 3090
    MIG Mode
        Current                           : N/A
        Pending                           : N/A
    PCI
        GPU Link Info
            PCIe Generation
                Max                       : 3
                Current                   : 1
            Link Width
                Max                       : 16x
                Current                   : 8x
        Tx Throughput                     : 1000 KB/s
    Performance State                     : P2
    Clocks Throttle Reasons
        Idle                              : Not Active
        Applications Clocks Setting       : Not Active
        SW Power Cap                      : Active
        HW Slowdown                       : Active
            HW Thermal Slowdown           : Active
            HW Power Brake Slowdown       : N/A
        Sync Boost                        : Not Active
        SW Thermal Slowdown               : Not Active
        Moon Phase                        : Active
    FB Memory Usage
        Total                             : 24265 MiB
        Used                              : 1256 MiB
        Free                              : 23009 MiB
    Utilization
        Gpu                               : 47 %
        Memory                            : 6 %
    Ecc Mode
        Current                           : N/A
    Temperature
        GPU Current Temp                  : 44 C
        GPU Shutdown Temp                 : 98 C
        GPU Slowdown Temp                 : 95 C
    Power Readings
        Power Draw                        : 156.40 W
        Power Limit                       : 350.00 W
        Default Power Limit               : 350.00 W
        Enforced Power Limit              : 300.00 W
    Clocks
        Graphics                          : 1480 MHz
        SM                                : 1480 MHz
        Memory                            : 9501 MHz
    Processes
        GPU instance ID                   : N/A
        Compute instance ID               : N/A
        Process ID                        : 1628
            Type                          : G
            Name                          : /usr/lib/xorg/Xorg
            Used GPU Memory               : 35 MiB
        GPU instance ID                   : N/A
        Compute instance ID               : N/A
        Process ID                        : 2936
            Type                          : C+G
            Name                          : C:\\Windows\\explorer.exe
            Used GPU Memory               : Not available in WDDM driver model

GPU 00000000:3B:00.0
    Product Name                          : Tesla K80
    Performance State                     : [Unknown Error]
    Processes                             : N/A
"""


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.parent.name)
def test_nvidia_smi_q_of_a_recorded_h200_is_parsed(path: Path):
    (gpu,) = parse_nvidia_smi_q(path.read_text())
    known = {n: f.value for n in gpu.__struct_fields__ if isinstance(f := getattr(gpu, n), Known)}
    assert known == {
        "vendor": "NVIDIA",
        "name": "NVIDIA H200",
        "driver": "580.159.04",
        "bus_id": "0000:00:06.0",
        "vram_total_bytes": 143771 * MIB,
        "vram_used_bytes": 0,
        "vram_free_bytes": 143156 * MIB,
        "vram_reserved_bytes": 616 * MIB,
        "busy": 0,
        "memory_busy": 0,
        "clock_hz": 465e6,
        "clock_max_hz": 1980e6,
        "memory_clock_hz": 3201e6,
        "memory_clock_max_hz": 3201e6,
        "performance_state": "P0",
        "temperature_c": 34,
        "memory_temperature_c": 35,
        "temperature_slowdown_c": 89,
        "temperature_shutdown_c": 95,
        "temperature_margin_c": 53,
        "power_w": 103.11,
        "power_limit_w": 700,
        "power_limit_default_w": 700,
        "event_reasons": ["gpu_idle"],
        "event_reason_bits": 1,
        "pcie_generation": 5,
        "pcie_generation_max": 5,
        "pcie_width": 16,
        "pcie_width_max": 16,
        "pcie_transmit_bytes_per_s": 1_120_000,
        "pcie_receive_bytes_per_s": 562_000,
        "ecc": True,
        "mig": False,
        "processes": [],
    }
    assert gpu.temperature_slowdown_c == estimated_fact(89.0, Q_SOURCE)
    assert gpu.name == reported_fact("NVIDIA H200", "nvidia-smi -q")
    assert gpu.nvlinks_active == gpu.compute_capability == NOT_LOOKED


def test_old_nvidia_smi_q_wording_and_two_gpus_are_parsed():
    first, second = parse_nvidia_smi_q(OLD)
    assert first.bus_id == reported_fact("0000:18:00.0", Q_SOURCE)
    assert first.event_reasons.need() == ["sw_power_cap", "hw_slowdown", "hw_thermal_slowdown", "moon_phase"]
    assert isinstance(first.event_reason_bits, Unknown)
    assert first.busy == reported_fact(0.47, Q_SOURCE)
    assert first.temperature_slowdown_c == reported_fact(95.0, Q_SOURCE)
    assert first.power_w == reported_fact(156.4, Q_SOURCE)
    assert first.power_limit_w == reported_fact(300.0, Q_SOURCE)
    assert (first.pcie_generation.need(), first.pcie_generation_max.need()) == (1, 3)
    assert (first.pcie_width.need(), first.pcie_width_max.need()) == (8, 16)
    assert isinstance(first.mig, Unknown)
    assert first.mig.absence is Absence.NOT_SUPPORTED
    assert second.index == 1
    assert second.name == reported_fact("Tesla K80", Q_SOURCE)
    assert second.driver == reported_fact("470.82.01", Q_SOURCE)
    assert isinstance(second.performance_state, Unknown)
    assert second.performance_state.absence is Absence.FAILED
    assert isinstance(second.processes, Unknown)
    assert second.processes.absence is Absence.NOT_SUPPORTED
    assert second.vram_total_bytes == NOT_LOOKED


def test_nvidia_smi_q_processes_are_parsed_with_and_without_memory():
    xorg, explorer = parse_nvidia_smi_q(OLD)[0].processes.need()
    assert (xorg.pid, xorg.name.need(), xorg.vram_bytes.need()) == (1628, "/usr/lib/xorg/Xorg", 35 * MIB)
    assert (explorer.pid, explorer.name.need()) == (2936, "C:\\Windows\\explorer.exe")
    assert explorer.vram_bytes.absence is Absence.NOT_SUPPORTED


@pytest.mark.parametrize(
    "mangled",
    [
        TEXT.replace("\n", "\r\n"),
        "\n".join(f"> {line}" for line in TEXT.splitlines()),
        "\n".join(f"2026-11-15T01:02:43Z gpu-box {line}" for line in TEXT.splitlines()),
        TEXT.replace("NVIDIA H200", "\x1b[1mNVIDIA H200\x1b[0m"),
        "some words first\n" + TEXT + "\nand some after: that\n",
    ],
    ids=["crlf", "quoted", "behind timestamps", "coloured", "surrounded"],
)
def test_a_mangled_paste_of_nvidia_smi_q_parses_alike(mangled: str):
    assert parse_nvidia_smi_q(mangled) == parse_nvidia_smi_q(TEXT)


def test_nvidia_smi_q_without_indentation_keeps_its_sections():
    flat = "\n".join(" ".join(line.split()) for line in TEXT.splitlines())
    (gpu,), (whole,) = parse_nvidia_smi_q(flat), parse_nvidia_smi_q(TEXT)
    same = {name for name in Gpu.__struct_fields__ if getattr(gpu, name) == getattr(whole, name)}
    assert set(Gpu.__struct_fields__) - same == set()


def test_memory_of_a_mig_slice_is_not_that_of_the_gpu():
    mig = """GPU 00000000:00:06.0
    MIG Mode
        Current : Enabled
    MIG Devices
        MIG Device
            Index : 0
            FB Memory Usage
                Total : 4864 MiB
                Used : 3 MiB
    FB Memory Usage
        Total : 40960 MiB
"""
    (gpu,) = parse_nvidia_smi_q(mig)
    assert gpu.mig == reported_fact(True, Q_SOURCE)
    assert gpu.vram_total_bytes == reported_fact(40960 * MIB, Q_SOURCE)
    assert gpu.vram_used_bytes == NOT_LOOKED


@pytest.mark.parametrize("end", range(0, len(TEXT), 397))
def test_a_truncated_nvidia_smi_q_still_parses(end: int):
    for gpu in parse_nvidia_smi_q(TEXT[:end]):
        assert gpu.bus_id == reported_fact("0000:00:06.0", Q_SOURCE)


@pytest.mark.parametrize("text", ["", "\x00", "GPU", "No devices were found", "GPU 0: H200", "a : b\n" * 50])
def test_text_that_is_not_nvidia_smi_q_has_no_gpus(text: str):
    assert parse_nvidia_smi_q(text) == ()


def test_impossible_nvidia_smi_q_numbers_are_unknown():
    text = TEXT.replace("143771 MiB", "-5 MiB").replace("465 MHz", "9" * 30 + " MHz").replace(": 5\n", ": 1.5\n")
    (gpu,) = parse_nvidia_smi_q(text)
    assert isinstance(gpu.vram_total_bytes, Unknown)
    assert isinstance(gpu.pcie_generation, Unknown)
    assert gpu.vram_free_bytes == reported_fact(143156 * MIB, Q_SOURCE)
