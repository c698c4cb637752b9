import pytest

from unslow.facts.values import Unknown
from unslow.look.logs.dialect import Text
from unslow.look.logs.xpu_smi import parse_gpus, parse_text

MHZ, MIB = 10**6, 1024**2

# Intel's documentation of xpu-smi, and what users of an Arc A770 and a B580 pasted
DISCOVERY = """\
+-----------+--------------------------------------------------------------------------------------+
| Device ID | Device Information                                                                   |
+-----------+--------------------------------------------------------------------------------------+
| 0         | Device Name: Intel(R) Arc(TM) A770 Graphics                                          |
|           | Vendor Name: Intel(R) Corporation                                                    |
|           | SOC UUID: 00000000-0000-0003-0000-000856a08086                                       |
|           | PCI BDF Address: 0000:03:00.0                                                        |
|           | DRM Device: /dev/dri/card0                                                           |
|           | Function Type: physical                                                              |
+-----------+--------------------------------------------------------------------------------------+
"""
DETAIL = """\
| Device ID | Device Information                                                                   |
| 0         | Device Type: GPU                                                                     |
|           | Device Name: Intel(R) Arc(TM) B580 Graphics                                          |
|           | Serial Number: unknown                                                               |
|           | Core Clock Rate: 2850 MHz                                                            |
|           | Memory Physical Size: 12216.00 MiB                                                   |
|           | PCI BDF Address: 0000:06:00.0                                                        |
"""
STATS = """\
+-----------------------------+--------------------------------------------------------------------+
| Device ID                   | 0                                                                  |
+-----------------------------+--------------------------------------------------------------------+
| GPU Utilization (%)         | 17                                                                 |
| Compute Engine Util (%)     | 0; Engine 0: 0                                                     |
+-----------------------------+--------------------------------------------------------------------+
| GPU Power (W)               | 125                                                                |
| GPU Frequency (MHz)         | 2000                                                               |
| GPU Core Temperature (C)    | N/A                                                                |
| GPU Memory Temperature (C)  |                                                                    |
| GPU Memory Used (MiB)       | 24                                                                 |
+-----------------------------+--------------------------------------------------------------------+
"""
DUMP = """\
Timestamp, DeviceId, GPU Utilization (%), GPU Power (W), GPU Frequency (MHz)
06:14:46.000,    0, 0.00, 14.61,    0
06:14:47.000,    0, 99.50, 140.59,    2400
"""


def test_xpu_smi_discovery_and_stats_are_merged():
    (gpu,) = parse_gpus(DISCOVERY + STATS)
    assert (gpu.name.need(), gpu.bus_id.need(), gpu.vendor.need()) == (
        "Intel(R) Arc(TM) A770 Graphics",
        "0000:03:00.0",
        "Intel",
    )
    assert (gpu.busy.need(), gpu.power_w.need(), gpu.clock_hz.need()) == (0.17, 125, 2000 * MHZ)
    assert gpu.vram_used_bytes.need() == 24 * MIB
    assert isinstance(gpu.temperature_c, Unknown)
    assert isinstance(gpu.memory_temperature_c, Unknown)


def test_xpu_smi_device_detail_is_parsed():
    (gpu,) = parse_gpus(DETAIL)
    assert (gpu.vram_total_bytes.need(), gpu.clock_max_hz.need()) == (12216 * MIB, 2850 * MHZ)


def test_the_last_row_of_an_xpu_smi_dump_is_parsed():
    (gpu,) = parse_gpus(DUMP)
    assert (gpu.busy.need(), gpu.power_w.need(), gpu.clock_hz.need()) == (0.995, 140.59, 2400 * MHZ)
    assert gpu.busy.source == "xpu-smi:3"


def test_xpu_smi_output_is_found_amid_prose():
    lines = ["slow with SYCL", *DISCOVERY.splitlines(), "", "and", *DUMP.splitlines(), "thanks"]
    seen = parse_text(Text(lines, "p", 1))
    (gpu,) = seen.machine.gpus.need()
    assert (gpu.name.need(), gpu.power_w.need()) == ("Intel(R) Arc(TM) A770 Graphics", 140.59)


@pytest.mark.parametrize(
    "text", ["", "| 0 |", "| Device ID | 0 |", "Timestamp, DeviceId, \n,,\n", "|" * 10**5, "| a | b |\n" * 100]
)
def test_garbage_and_truncated_xpu_smi_output_gives_no_gpus(text: str):
    assert parse_gpus(text) == ()
