import pytest
from trees import tree

from unslow.facts.machine import Machine
from unslow.facts.values import NOT_LOOKED, Absence, Origin, Unknown
from unslow.look.probes.intel_gpu_sysfs import read
from unslow.look.system import FinishedCommand, LookError

MHZ, MIB, GIB = 10**6, 1024**2, 1024**3
CARD, CHIP = "/sys/class/drm/card1", "/sys/class/drm/card0"
ARC = {
    f"{CARD}/device/vendor": "0x8086\n",
    f"{CARD}/device/uevent": "DRIVER=xe\nPCI_CLASS=30000\nPCI_ID=8086:E20B\nPCI_SLOT_NAME=0000:03:00.0\n",
    f"{CARD}/device/tile0/gt0/freq0/act_freq": "2400\n",
    f"{CARD}/device/tile0/gt0/freq0/rp0_freq": "2850\n",
    f"{CARD}/device/tile0/gt0/freq0/throttle/status": "1\n",
    f"{CARD}/device/tile0/gt0/freq0/throttle/reason_pl1": "1\n",
    f"{CARD}/device/tile0/gt0/freq0/throttle/reason_thermal": "0\n",
    f"{CARD}/device/tile0/physical_vram_size_bytes": "12884901888\n",
    f"{CARD}/device/current_link_speed": "16.0 GT/s PCIe\n",
    f"{CARD}/device/current_link_width": "8\n",
    f"{CARD}/device/max_link_speed": "16.0 GT/s PCIe\n",
    f"{CARD}/device/max_link_width": "8\n",
    f"{CARD}/device/hwmon/hwmon4/name": "xe\n",
    f"{CARD}/device/hwmon/hwmon4/energy1_input": "1000000\n",
    f"{CARD}/device/hwmon/hwmon4/power1_max": "190000000\n",
    f"{CARD}/device/hwmon/hwmon4/temp2_label": "pkg\n",
    f"{CARD}/device/hwmon/hwmon4/temp2_input": "55000\n",
    f"{CARD}/device/hwmon/hwmon4/temp3_label": "vram\n",
    f"{CARD}/device/hwmon/hwmon4/temp3_input": "62000\n",
}
UHD = {
    f"{CHIP}/device/vendor": "0x8086\n",
    f"{CHIP}/device/uevent": "DRIVER=i915\nPCI_ID=8086:4680\nPCI_SLOT_NAME=0000:00:02.0\n",
    f"{CHIP}/gt_act_freq_mhz": "350\n",
    f"{CHIP}/gt_RP0_freq_mhz": "1450\n",
    f"{CHIP}/gt/gt0/throttle_reason_status": "0\n",
    f"{CHIP}/gt/gt0/throttle_reason_thermal": "0\n",
}
# from the kernel's documentation of the xe driver
FDINFO = "drm-driver:\txe\ndrm-client-id:\t3\ndrm-pdev:\t0000:03:00.0\ndrm-resident-vram0:\t23992 KiB\n"
CLIENTS = {"drm clients": [{"pid": 77, "name": "llama-server", "fdinfo": FDINFO}]}
LSPCI = "03:00.0 VGA compatible controller: Intel Corporation Battlemage G21 [Arc B580]\n"
DISCOVERY = """\
| Device ID | Device Information                          |
| 0         | Device Name: Intel(R) Arc(TM) B580 Graphics |
|           | PCI BDF Address: 0000:03:00.0               |
|           | Memory Physical Size: 12216.00 MiB          |
"""


def test_an_intel_xe_card_gives_all_facts():
    (gpu,) = read(
        tree(ARC, asks=CLIENTS, commands={"lspci -s 0000:03:00.0": FinishedCommand(0, LSPCI, "")})
    ).gpus.need()
    assert (gpu.vendor.need(), gpu.name.need(), gpu.kind.need(), gpu.driver.need()) == (
        "Intel",
        "Arc B580",
        "discrete",
        "xe",
    )
    assert (gpu.clock_hz.need(), gpu.clock_max_hz.need()) == (2400 * MHZ, 2850 * MHZ)
    assert gpu.event_reasons.need() == ["pl1"]
    assert (gpu.vram_total_bytes.need(), gpu.vram_used_bytes.need()) == (12 * GIB, 23992 * 1024)
    assert gpu.vram_used_bytes.origin is Origin.ESTIMATED
    assert (gpu.temperature_c.need(), gpu.memory_temperature_c.need(), gpu.power_limit_w.need()) == (55, 62, 190)
    assert (gpu.pcie_generation.need(), gpu.pcie_width.need()) == (4, 8)
    (process,) = gpu.processes.need()
    assert (process.pid, process.vram_bytes.need()) == (77, 23992 * 1024)


def test_power_is_the_growth_of_the_energy_counter():
    system = tree(ARC, asks=CLIENTS)
    readings = iter(["1000000", "16000000"])
    path = f"{CARD}/device/hwmon/hwmon4/energy1_input"
    plain = system.read_bytes
    system.read_bytes = lambda asked, limit=0: next(readings).encode() if asked == path else plain(asked, limit)
    (gpu,) = read(system).gpus.need()
    assert (gpu.power_w.need(), gpu.power_w.origin) == (pytest.approx(150), Origin.MEASURED)


def test_an_integrated_intel_gpu_has_no_vram():
    (gpu,) = read(tree(UHD, asks={"drm clients": []})).gpus.need()
    assert (gpu.kind.need(), gpu.driver.need(), gpu.clock_max_hz.need()) == ("integrated", "i915", 1450 * MHZ)
    assert gpu.vram_total_bytes.absence is Absence.NOT_SUPPORTED
    assert gpu.pcie_width == NOT_LOOKED
    assert gpu.event_reasons.need() == []


def test_a_discrete_intel_gpu_comes_before_the_integrated_one():
    gpus = read(tree(ARC | UHD, asks=CLIENTS)).gpus.need()
    assert [(gpu.index, gpu.kind.need()) for gpu in gpus] == [(0, "discrete"), (1, "integrated")]


def test_vram_size_falls_back_to_xpu_smi():
    files = {path: text for path, text in ARC.items() if "physical_vram" not in path}
    system = tree(
        files, asks=CLIENTS, commands={"xpu-smi discovery -d 0000:03:00.0": FinishedCommand(0, DISCOVERY, "")}
    )
    (gpu,) = read(system).gpus.need()
    assert gpu.vram_total_bytes.need() == 12216 * MIB
    assert (gpu.name.need(), gpu.clock_hz.need()) == ("Intel(R) Arc(TM) B580 Graphics", 2400 * MHZ)
    assert gpu.vram_total_bytes.source.startswith("xpu-smi discovery:")


def test_without_xpu_smi_the_vram_size_is_unknown():
    files = {path: text for path, text in ARC.items() if "physical_vram" not in path}
    (gpu,) = read(tree(files, asks=CLIENTS)).gpus.need()
    assert isinstance(gpu.vram_total_bytes, Unknown)


@pytest.mark.parametrize("files", [{}, {"/sys/class/drm/card0/device/vendor": "0x10de\n"}])
def test_a_machine_without_intel_gpus_gives_no_facts(files: dict[str, str]):
    assert read(tree(files)) == Machine()


@pytest.mark.parametrize("missing", sorted(path for path in ARC if not path.endswith(("vendor", "uevent"))))
def test_any_intel_gpu_file_may_be_missing_denied_or_garbage(missing: str):
    for files in (
        {path: text for path, text in ARC.items() if path != missing},
        ARC | {missing: LookError("permission denied")},
        ARC | {missing: "\x00 -99999999999999999999\n"},
    ):
        (gpu,) = read(tree(files, asks={})).gpus.need()
        assert gpu.bus_id.need() == "0000:03:00.0"
