import pytest

from unslow.facts.values import Absence, Unknown
from unslow.look.logs.amd_smi import parse_gpus, parse_text
from unslow.look.logs.dialect import Text

MHZ, MIB, GIB = 10**6, 1024**2, 1024**3

# ROCm/ROCm issue 5853 (an MI300X in a virtual machine), with a process as AMD's documentation shows it
TABLE = """\
+------------------------------------------------------------------------------+
| AMD-SMI 26.2.0+021c61fc      amdgpu version: 6.16.6   ROCm version: 7.1.1    |
| VBIOS version: 00159017                                                      |
| Platform: Linux Guest                                                        |
|-------------------------------------+----------------------------------------|
| BDF                        GPU-Name | Mem-Uti   Temp   UEC       Power-Usage |
| GPU  HIP-ID  OAM-ID  Partition-Mode | GFX-Uti    Fan               Mem-Usage |
|=====================================+========================================|
| 0000:ff:00.0 AMD Instinct MI300X VF | 0 %      37 °C   0           141/750 W |
|   0       0       2        SPX/NPS1 | 7 %        N/A           285/196288 MB |
+-------------------------------------+----------------------------------------+
+------------------------------------------------------------------------------+
| Processes:                                                                   |
|  GPU        PID  Process Name          GTT_MEM  VRAM_MEM  MEM_USAGE     CU % |
|==============================================================================|
|    0       4711  llama-server           2.0 MB    1.5 GB     1.6 GB      0 % |
+------------------------------------------------------------------------------+
"""
# the same on a Strix Halo, of which it can tell next to nothing
BLIND = """\
| BDF                        GPU-Name | Mem-Uti   Temp   UEC       Power-Usage |
| GPU  HIP-ID  OAM-ID  Partition-Mode | GFX-Uti    Fan               Mem-Usage |
|=====================================+========================================|
| 0000:c2:00.0                 0x1586 | N/A        N/A   0             N/A/0 W |
|   0       0     N/A             N/A | N/A        N/A           1013/65536 MB |
+-------------------------------------+----------------------------------------+
|  GPU        PID  Process Name          GTT_MEM  VRAM_MEM  MEM_USAGE     CU % |
|==============================================================================|
|  No running processes found                                                  |
"""
MONITOR = """\
GPU  XCP  POWER   GPU_T   MEM_T   GFX_CLK   GFX%   MEM%   ENC%   DEC%      VRAM_USAGE
  0    0   32 W   58 °C   58 °C  1115 MHz    6 %    1 %    N/A    0 %    2.9/ 15.9 GB
  1    0    N/A     N/A     N/A       N/A    N/A    N/A    N/A    N/A    0.5/ 16.0 GB
"""
GTT = """\
GPU  XCP  POWER   GPU_T   MEM_T   GFX_CLK   GFX%   MEM%   ENC%   DEC%       GTT_USAGE
  0    0   49 W   27 °C   29 °C    43 MHz    2 %    0 %    N/A    0 %    0.0/376.7 GB
"""
# joular/powerjoular issue 67, and what `amd-smi static` adds
METRIC = """\
GPU: 0
    USAGE:
        GFX_ACTIVITY: 12 %
        UMC_ACTIVITY: 1 %
        MM_ACTIVITY: 0 %
        JPEG_ACTIVITY: [N/A, N/A, N/A, N/A, N/A, N/A, N/A, N/A, N/A, N/A, N/A, N/A, N/A,
            N/A, N/A, N/A, N/A]
    POWER:
        SOCKET_POWER: 20 W
        GFX_VOLTAGE: 780 mV
        THROTTLE_STATUS: UNTHROTTLED
        POWER_MANAGEMENT: ENABLED
    CLOCK:
        GFX_0:
            CLK: 14 MHz
            MIN_CLK: 54 MHz
            MAX_CLK: 2482 MHz
            CLK_LOCKED: N/A
        MEM_0:
            CLK: 96 MHz
            MAX_CLK: 1249 MHz
    TEMPERATURE:
        EDGE: N/A
        HOTSPOT: 37 °C
        MEM: 32 °C
    PCIE:
        WIDTH: 16
        SPEED: 16 GT/s
    MEM_USAGE:
        TOTAL_VRAM: 24560 MB
        USED_VRAM: 560 MB
        FREE_VRAM: 24000 MB
        TOTAL_GTT: 31932 MB
        USED_GTT: 47 MB
GPU: 1
    POWER:
        SOCKET_POWER: N/A
        THROTTLE_STATUS: THROTTLED
"""
STATIC = """\
GPU: 0
    ASIC:
        MARKET_NAME: AMD Radeon RX 7900 XTX
        ASIC_SERIAL: 0x1234567890ABCDEF
        TARGET_GRAPHICS_VERSION: gfx1100
    BUS:
        BDF: 0000:03:00.0
        MAX_PCIE_WIDTH: 16
        MAX_PCIE_SPEED: 16 GT/s
    VRAM:
        TYPE: GDDR6
        SIZE: 24560 MB
        BIT_WIDTH: 384
"""


def test_amd_smi_table_is_parsed():
    (gpu,) = parse_gpus(TABLE)
    assert (gpu.name.need(), gpu.bus_id.need(), gpu.driver.need()) == (
        "AMD Instinct MI300X VF",
        "0000:ff:00.0",
        "6.16.6",
    )
    assert (gpu.temperature_c.need(), gpu.power_w.need(), gpu.power_limit_w.need()) == (37, 141, 750)
    assert (gpu.vram_used_bytes.need(), gpu.vram_total_bytes.need()) == (285 * MIB, 196288 * MIB)
    assert (gpu.busy.need(), gpu.memory_busy.need()) == (0.07, 0)
    (process,) = gpu.processes.need()
    assert (process.pid, process.name.need(), process.vram_bytes.need()) == (4711, "llama-server", int(1.5 * GIB))


def test_amd_smi_values_shown_as_na_are_unknown():
    (gpu,) = parse_gpus(BLIND)
    for fact in (gpu.busy, gpu.temperature_c, gpu.power_w, gpu.power_limit_w, gpu.name):
        assert isinstance(fact, Unknown)
    assert gpu.vram_total_bytes.need() == 65536 * MIB
    assert gpu.processes.need() == []


def test_amd_smi_monitor_is_parsed():
    first, second = parse_gpus(MONITOR)
    assert (first.power_w.need(), first.temperature_c.need(), first.clock_hz.need()) == (32, 58, 1115 * MHZ)
    assert (first.busy.need(), first.memory_busy.need()) == (0.06, 0.01)
    assert (first.vram_used_bytes.need(), first.vram_total_bytes.need()) == (round(2.9 * GIB), round(15.9 * GIB))
    assert second.power_w.absence is Absence.NOT_SUPPORTED
    assert second.vram_total_bytes.need() == 16 * GIB
    assert parse_gpus(GTT)[0].gtt_total_bytes.need() == round(376.7 * GIB)


def test_amd_smi_metric_and_static_are_merged():
    gpu, throttled = parse_gpus(METRIC + STATIC)
    assert (gpu.busy.need(), gpu.power_w.need(), gpu.event_reasons.need()) == (0.12, 20, [])
    assert (gpu.clock_hz.need(), gpu.clock_max_hz.need()) == (14 * MHZ, 2482 * MHZ)
    assert (gpu.memory_clock_hz.need(), gpu.memory_clock_max_hz.need()) == (96 * MHZ, 1249 * MHZ)
    assert (gpu.temperature_c.need(), gpu.memory_temperature_c.need()) == (37, 32)
    assert (gpu.vram_total_bytes.need(), gpu.vram_free_bytes.need()) == (24560 * MIB, 24000 * MIB)
    assert (gpu.gtt_total_bytes.need(), gpu.gtt_used_bytes.need()) == (31932 * MIB, 47 * MIB)
    assert (gpu.pcie_generation.need(), gpu.pcie_width.need(), gpu.pcie_generation_max.need()) == (4, 16, 4)
    assert (gpu.name.need(), gpu.architecture.need(), gpu.memory_bus_bits.need()) == (
        "AMD Radeon RX 7900 XTX",
        "gfx1100",
        384,
    )
    assert throttled.event_reasons.need() == ["throttled"]
    assert isinstance(throttled.power_w, Unknown)


@pytest.mark.parametrize("text", [TABLE, BLIND, MONITOR, METRIC, STATIC])
def test_amd_smi_output_is_found_amid_prose(text: str):
    lines = ["It is slow.", "", *text.splitlines(), "", "Any idea?"]
    seen = parse_text(Text(lines, "issue.md"))
    assert [gpu.index for gpu in seen.machine.gpus.need()] == [gpu.index for gpu in parse_gpus(text)]
    assert seen.spans[0][0] >= 2
    assert seen.spans[-1][1] <= len(lines) - 1


@pytest.mark.parametrize(
    "text", ["", "GPU: 0", "| | |\n" * 1000, "GPU  XCP  POWER\n", "GPU: 0\n" + " " * 4000 + "A:", "|" * 10**5]
)
def test_garbage_and_truncated_amd_smi_output_gives_no_gpus(text: str):
    assert parse_gpus(text) == ()
    assert parse_text(Text(text.splitlines(), "x")).lines == 0
