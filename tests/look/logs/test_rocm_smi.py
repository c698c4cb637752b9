import pytest

from unslow.facts.machine import Gpu
from unslow.facts.values import NOT_LOOKED, Absence, Unknown
from unslow.look.logs.dialect import Text
from unslow.look.logs.rocm_smi import parse_gpus, parse_text

MHZ = 10**6

# ROCm 3: ROCm/ROC-smi issue 90; ROCm 5: ggml-org/llama.cpp issue 3991; ROCm 6 and 7: ollama/ollama issue 17251
OLD = """\
========================ROCm System Management Interface========================
================================================================================
GPU  Temp   AvgPwr  SCLK    MCLK    Fan    Perf  PwrCap  VRAM%  GPU%
1    25.0c  10.0W   852Mhz  167Mhz  14.9%  auto  170.0W  N/A    0%
================================================================================
==============================End of ROCm SMI Log ==============================
"""
ROCM_5 = """\
========================= ROCm System Management Interface =========================
=================================== Concise Info ===================================
ERROR: GPU[2]   : sclk clock is unsupported
====================================================================================
GPU[2]          : get_power_cap, Not supported on the given system
GPU  Temp (DieEdge)  AvgPwr   SCLK     MCLK     Fan  Perf  PwrCap       VRAM%  GPU%
0    33.0c           24.0W    295Mhz   96Mhz    0%   auto  339.0W         0%   10%
1    31.0c           81.0W    1514Mhz  96Mhz    0%   auto  339.0W         0%   56%
2    37.0c           55.141W  None     1800Mhz  0%   auto  Unsupported    9%   0%
====================================================================================
=============================== End of ROCm SMI Log ================================
"""
ROCM_7 = """\
============================================ ROCm System Management Interface ==========================================
====================================================== Concise Info ====================================================
Device  Node  IDs              Temp    Power     Partitions          SCLK     MCLK     Fan     Perf  PwrCap  VRAM%  GPU%
              (DID,     GUID)  (Edge)  (Socket)  (Mem, Compute, ID)
========================================================================================================================
0       3     0x66a1,   52718  32.0°C  28.0W     N/A, N/A, 0         1700Mhz  1000Mhz  29.41%  high  190.0W  45%    0%
1       4     0x66a1,   4670   28.0°C  26.0W     N/A, N/A, 0         1800Mhz  1000Mhz  29.41%  high  225.0W  99%    3%
========================================================================================================================
"""
# `rocm-smi -a`, parts of ROCm/ROCm issue 4965
ALL = """\
=========================================== ID ===========================================
GPU[0]\t\t: Device Name: \t\tAMD Radeon RX 580 Series
GPU[0]\t\t: Device ID: \t\t0x67df
GPU[0]\t\t: GUID: \t\t38156
GPU[0]\t\t: Temperature (Sensor edge) (C): 64.0
GPU[0]\t\t: mclk clock level: 0: (300Mhz)
GPU[0]\t\t: sclk clock level: 3: (1158Mhz)
GPU[0]\t\t: pcie clock level: 1 (8.0GT/s x16)
GPU[0]\t\t: Performance Level: auto
GPU[0]\t\t: Max Graphics Package Power (W): 180.0
GPU[0]\t\t: Current Socket Graphics Package Power (W): 18.029
GPU[0]\t\t:
GPU[0]\t\t: Supported mclk frequencies on GPU0
GPU[0]\t\t: 0: 300Mhz *
GPU[0]\t\t: 1: 1000Mhz
GPU[0]\t\t: 2: 2000Mhz
GPU[0]\t\t:
GPU[0]\t\t: Supported sclk frequencies on GPU0
GPU[0]\t\t: 0: 300Mhz
GPU[0]\t\t: 3: 1158Mhz *
GPU[0]\t\t: 7: 1411Mhz
GPU[0]\t\t: Supported PCIe frequencies on GPU0
GPU[0]\t\t: 0: 2.5GT/s x8
GPU[0]\t\t: GPU use (%): 0
GPU[0]\t\t: GPU Memory Allocated (VRAM%): 35
GPU[0]\t\t: GPU Memory Read/Write Activity (%): 2
GPU[0]\t\t: VRAM Total Memory (B): 8589934592
GPU[0]\t\t: VRAM Total Used Memory (B): 3006477107
GPU[0]\t\t: GTT Total Memory (B): 16710000640
GPU[0]\t\t: GTT Total Used Memory (B): 22528000
GPU[0]\t\t: Serial Number: N/A
PID      PROCESS NAME    GPU(s)  VRAM USED     SDMA USED       CU OCCUPANCY
1969631  llama-server    1       50692304896   2760503915888   0
==========================================================================================
GPU[0]\t\t: PCI Bus: 0000:01:00.0
GPU[0]\t\t: Card Series: \t\tAMD Radeon RX 580 Series
GPU[0]\t\t: Card Model: \t\t0x67df
GPU[0]\t\t: GFX Version: \t\tgfx803
"""
# `--csv` and `--json`: marimo-team/marimo issue 9237, henrygd/beszel's tests
CSV = """\
device,GPU use (%),VRAM Total Memory (B),VRAM Total Used Memory (B),Card Series,Card Model,Card Vendor,GFX Version
card0,0,21458059264,27856896,Radeon RX 7900 XT,0x744c,Advanced Micro Devices Inc. [AMD/ATI],gfx1100
"""
JSON = """\
{
  "card0": {
    "GUID": "34756",
    "Temperature (Sensor edge) (C)": "47.0",
    "Current Socket Graphics Package Power (W)": "9.215",
    "GPU use (%)": "0",
    "VRAM Total Memory (B)": "536870912",
    "VRAM Total Used Memory (B)": "482263040",
    "sclk clock speed:": "(1500Mhz)",
    "Card Series": "Rembrandt [Radeon 680M]"
  },
  "system": {"Driver version": "6.7.0"}
}
"""


def text_of(text: str, first: int = 1) -> Text:
    return Text(text.splitlines(), "paste.txt", first)


def test_rocm_smi_3_table_is_parsed():
    (gpu,) = parse_gpus(OLD)
    assert (gpu.index, gpu.vendor.need(), gpu.temperature_c.need(), gpu.power_w.need()) == (1, "AMD", 25, 10)
    assert (gpu.clock_hz.need(), gpu.memory_clock_hz.need()) == (852 * MHZ, 167 * MHZ)
    assert (gpu.power_limit_w.need(), gpu.busy.need(), gpu.performance_state.need()) == (170, 0, "auto")
    assert gpu.power_w.source == "rocm-smi:4"


def test_rocm_smi_5_table_with_error_lines_is_parsed():
    gpus = parse_gpus(ROCM_5)
    assert [gpu.index for gpu in gpus] == [0, 1, 2]
    assert (gpus[1].power_w.need(), gpus[1].busy.need(), gpus[1].clock_hz.need()) == (81, 0.56, 1514 * MHZ)
    for fact in (gpus[2].clock_hz, gpus[2].power_limit_w):
        assert isinstance(fact, Unknown)
        assert fact.absence is Absence.NOT_SUPPORTED


def test_rocm_smi_7_vram_percentage_without_total_is_unknown():
    first, second = parse_gpus(ROCM_7)
    assert (first.temperature_c.need(), first.power_limit_w.need(), first.busy.need()) == (32, 190, 0)
    assert (second.clock_hz.need(), second.busy.need()) == (1800 * MHZ, 0.03)
    assert isinstance(second.vram_used_bytes, Unknown)
    assert "--showmeminfo" in second.vram_used_bytes.how_to_get


def test_rocm_smi_all_information_is_parsed():
    (gpu,) = parse_gpus(ALL)
    assert (gpu.name.need(), gpu.architecture.need(), gpu.bus_id.need()) == (
        "AMD Radeon RX 580 Series",
        "gfx803",
        "0000:01:00.0",
    )
    assert (gpu.vram_total_bytes.need(), gpu.vram_used_bytes.need()) == (8589934592, 3006477107)
    assert gpu.vram_free_bytes.need() == 8589934592 - 3006477107
    assert (gpu.gtt_total_bytes.need(), gpu.gtt_used_bytes.need()) == (16710000640, 22528000)
    assert (gpu.clock_hz.need(), gpu.clock_max_hz.need()) == (1158 * MHZ, 1411 * MHZ)
    assert (gpu.memory_clock_hz.need(), gpu.memory_clock_max_hz.need()) == (300 * MHZ, 2000 * MHZ)
    assert (gpu.pcie_generation.need(), gpu.pcie_width.need()) == (3, 16)
    assert (gpu.power_w.need(), gpu.power_limit_w.need(), gpu.temperature_c.need()) == (18.029, 180, 64)
    assert (gpu.busy.need(), gpu.memory_busy.need(), gpu.performance_state.need()) == (0, 0.02, "auto")
    (process,) = gpu.processes.need()
    assert (process.pid, process.name.need(), process.vram_bytes.need()) == (1969631, "llama-server", 50692304896)
    assert gpu.gtt_used_bytes.source == "rocm-smi:30"


def test_rocm_smi_csv_is_parsed():
    (gpu,) = parse_gpus(CSV)
    assert (gpu.name.need(), gpu.architecture.need()) == ("Radeon RX 7900 XT", "gfx1100")
    assert (gpu.vram_total_bytes.need(), gpu.vram_used_bytes.need(), gpu.busy.need()) == (21458059264, 27856896, 0)


def test_rocm_smi_json_is_parsed():
    (gpu,) = parse_gpus(JSON)
    assert (gpu.name.need(), gpu.driver.need(), gpu.power_w.need()) == ("Rembrandt [Radeon 680M]", "6.7.0", 9.215)
    assert (gpu.vram_total_bytes.need(), gpu.clock_hz.need()) == (536870912, 1500 * MHZ)


@pytest.mark.parametrize("text", [OLD, ROCM_5, ROCM_7, ALL, CSV, JSON])
def test_rocm_smi_output_is_found_amid_prose(text: str):
    words = "My model is slow, see below.\n\n$ rocm-smi\n"
    seen = parse_text(text_of(words + text + "\nWhat can I do?\n"))
    alone = parse_gpus(text, "paste.txt", 4)
    assert _values(seen.machine.gpus.need()) == _values(alone)
    assert seen.lines
    assert all(first >= 3 for first, _ in seen.spans)


def _values(gpus: tuple[Gpu, ...]) -> list[dict[str, object]]:
    return [
        {n: getattr(g, n).value_or(None) for n in g.__struct_fields__ if n not in ("index", "processes")} for g in gpus
    ]


def test_a_pasted_rocm_smi_fact_names_its_line():
    seen = parse_text(text_of("one\ntwo\n" + OLD, first=100))
    assert seen.machine.gpus.need()[0].power_w.source == "paste.txt:105"


@pytest.mark.parametrize("text", [OLD, ROCM_5, ROCM_7, ALL])
def test_coloured_and_quoted_rocm_smi_output_parses_alike(text: str):
    quoted = "\r\n".join(f"\x1b[32m> {line}\x1b[0m" for line in text.splitlines())
    assert _values(parse_gpus(quoted)) == _values(parse_gpus(text))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "GPU[0]",
        "GPU[0] : ",
        "GPU[999999]: GPU use (%): 5",
        "{" * 10**5,
        '{"card0": {"GPU use (%)": {"a": ["b"]}}}',
        '{"card0": ' + "[" * 10**5,
        "device,a (b)\ncard0",
        "\x00\xff",
        "GPU  Temp   AvgPwr  SCLK    MCLK    Fan    Perf  PwrCap  VRAM%  GPU%\n" + "0 " * 10**5,
        "No AMD GPUs specified",
    ],
)
def test_garbage_and_truncated_rocm_smi_output_gives_no_vram(text: str):
    for gpu in parse_gpus(text):
        assert gpu.vram_total_bytes == NOT_LOOKED


@pytest.mark.parametrize("value", ["-5", "500", "99999999999999999999", "nan", "1e999"])
def test_an_out_of_range_gpu_use_is_unknown(value: str):
    for gpu in parse_gpus(f"GPU[0]\t\t: GPU use (%): {value}\n"):
        assert isinstance(gpu.busy, Unknown)
