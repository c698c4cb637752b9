import os
from pathlib import Path

import pytest
from doubles import FakeSystem
from trees import tree

from unslow.facts.machine import Machine
from unslow.facts.values import NOT_LOOKED, Absence, Origin, Unknown
from unslow.look.probes import read_machine
from unslow.look.probes.amdgpu_sysfs import (
    parse_properties,
    parse_steps,
    read,
    read_gpus_without_driver,
    read_kfd_access,
)
from unslow.look.system import FinishedCommand, LookError
from unslow.look.system.live import LiveSystem
from unslow.look.system.recorded import RecordedSystem

MACHINES = Path(__file__).parents[2] / "machines"
BUILT = MACHINES / "built_rx_7900_xtx"
MHZ, GIB, MIB, KIB = 10**6, 1024**3, 1024**2, 1024
APU = "/sys/class/drm/card1"
# a Strix Halo: no power cap, no memory clock, a northbridge, and most of its memory in GTT
STRIX = {
    f"{APU}/device/vendor": "0x1002\n",
    f"{APU}/device/device": "0x1586\n",
    f"{APU}/device/revision": "0xc1\n",
    f"{APU}/device/uevent": "DRIVER=amdgpu\nPCI_CLASS=30000\nPCI_ID=1002:1586\nPCI_SLOT_NAME=0000:c2:00.0\n",
    f"{APU}/device/mem_info_vram_total": "536870912\n",
    f"{APU}/device/mem_info_vram_used": "368111616\n",
    f"{APU}/device/mem_info_gtt_total": "133143986176\n",
    f"{APU}/device/mem_info_gtt_used": "67645734912\n",
    f"{APU}/device/gpu_busy_percent": "97\n",
    f"{APU}/device/pp_dpm_sclk": "0: 600Mhz \n1: 2900Mhz *\n",
    f"{APU}/device/current_link_speed": "16.0 GT/s PCIe\n",
    f"{APU}/device/hwmon/hwmon6/name": "amdgpu\n",
    f"{APU}/device/hwmon/hwmon6/in1_label": "vddnb\n",
    f"{APU}/device/hwmon/hwmon6/in1_input": "819\n",
    f"{APU}/device/hwmon/hwmon6/temp1_label": "edge\n",
    f"{APU}/device/hwmon/hwmon6/temp1_input": "61000\n",
    f"{APU}/device/hwmon/hwmon6/power1_average": "88046000\n",
    "/sys/class/kfd/kfd/topology/nodes/1/gpu_id": "43175\n",
    "/sys/class/kfd/kfd/topology/nodes/1/properties": "gfx_target_version 110501\nlocation_id 49664\ndomain 0\n",
}
ACCESS = {"access /dev/kfd": {"exists": True, "allowed": True}, "drm clients": []}


def test_a_recorded_amd_gpu_gives_all_facts():
    machine, outcomes = read_machine(RecordedSystem(BUILT))
    (gpu,) = machine.gpus.need()
    assert [outcome.error for outcome in outcomes if outcome.name == "amdgpu_sysfs"] == [""]
    assert (gpu.index, gpu.vendor.need(), gpu.name.need()) == (0, "AMD", "AMD Radeon RX 7900 XTX")
    assert (gpu.kind.need(), gpu.driver.need(), gpu.bus_id.need()) == ("discrete", "amdgpu", "0000:03:00.0")
    assert gpu.architecture.need() == "gfx1100"
    assert (gpu.vram_total_bytes.need(), gpu.vram_used_bytes.need()) == (25753026560, 23622320128)
    assert gpu.vram_free_bytes.need() == 25753026560 - 23622320128
    assert (gpu.gtt_total_bytes.need(), gpu.gtt_used_bytes.need()) == (33482813440, 4831838208)
    assert (gpu.busy.need(), gpu.memory_busy.need()) == (0.98, 0.41)
    assert (gpu.clock_hz.need(), gpu.clock_max_hz.need()) == (2482 * MHZ, 2482 * MHZ)
    assert (gpu.memory_clock_hz.need(), gpu.memory_clock_max_hz.need()) == (1249 * MHZ, 1249 * MHZ)
    assert (gpu.temperature_c.need(), gpu.memory_temperature_c.need()) == (58, 74)
    assert (gpu.temperature_slowdown_c.need(), gpu.temperature_shutdown_c.need()) == (100, 105)
    assert (gpu.temperature_margin_c.need(), gpu.temperature_margin_c.origin) == (31, Origin.ESTIMATED)
    assert (gpu.power_w.need(), gpu.power_limit_w.need(), gpu.power_limit_default_w.need()) == (301, 339, 339)
    assert gpu.performance_state.need() == "auto"


def test_the_pcie_link_is_that_of_the_slot():
    (gpu,) = read(RecordedSystem(BUILT)).gpus.need()
    assert (gpu.pcie_generation.need(), gpu.pcie_width.need()) == (3, 4)
    assert (gpu.pcie_generation_max.need(), gpu.pcie_width_max.need()) == (4, 16)
    assert gpu.pcie_width.source.startswith("/sys/devices/pci0000:00/0000:00:01.1/0000:01:00.0/")


def test_each_drm_client_of_a_process_is_counted_once():
    (gpu,) = read(RecordedSystem(BUILT)).gpus.need()
    server, desktop = gpu.processes.need()
    assert (server.pid, server.name.need()) == (4242, "llama-server")
    assert (server.vram_bytes.need(), server.gtt_bytes.need()) == (22 * GIB - 544428 * KIB, 4718592 * KIB)
    assert (desktop.name.need(), desktop.vram_bytes.need(), desktop.gtt_bytes.need()) == (
        "gnome-shell",
        544428 * KIB,
        22528 * KIB,
    )


def test_missing_kfd_permission_is_a_fact():
    assert read(RecordedSystem(BUILT)).system.kfd_access.need() is False


def test_an_amd_apu_is_integrated_and_uses_gtt():
    machine = read(tree(STRIX, asks=ACCESS, commands={}))
    (gpu,) = machine.gpus.need()
    assert (gpu.kind.need(), gpu.architecture.need()) == ("integrated", "gfx1151")
    lent = gpu.gtt_total_bytes.need()
    assert gpu.gtt_used_bytes.need() == 67645734912
    assert gpu.vram_total_bytes.need() == 512 * MIB + lent, "it has no memory but what it may take of the machine's"
    assert gpu.vram_free_bytes.need() < lent - gpu.gtt_used_bytes.need() + 512 * MIB
    assert (gpu.power_w.need(), gpu.busy.need(), gpu.clock_hz.need()) == (88.046, 0.97, 2900 * MHZ)
    for fact in (gpu.power_limit_w, gpu.memory_clock_hz, gpu.memory_busy, gpu.name):
        assert isinstance(fact, Unknown)
        assert fact.absence is Absence.NOT_FOUND
    assert gpu.pcie_width == NOT_LOOKED, "a part of the processor has no slot"
    assert machine.system.kfd_access.need() is True


def test_the_gpu_name_falls_back_to_lspci():
    line = (
        "03:00.0 VGA compatible controller: Advanced Micro Devices, Inc. [AMD/ATI] "
        "Navi 31 [Radeon RX 7900 XT/7900 XTX/7900 GRE/7900M] (rev c8)\n"
    )
    system = tree(STRIX, asks=ACCESS, commands={"lspci -s 0000:c2:00.0": FinishedCommand(0, line, "")})
    (gpu,) = read(system).gpus.need()
    assert gpu.name.need() == "Radeon RX 7900 XT/7900 XTX/7900 GRE/7900M"


@pytest.mark.parametrize("missing", sorted(path for path in STRIX if not path.endswith(("vendor", "uevent"))))
def test_any_amdgpu_file_may_be_missing_denied_or_garbage(missing: str):
    for files in (
        {path: text for path, text in STRIX.items() if path != missing},
        STRIX | {missing: LookError(f"{missing}: permission denied")},
        STRIX | {missing: "\x00garbage -1 99999999999999999999999\n"},
    ):
        (gpu,) = read(tree(files, asks=ACCESS)).gpus.need()
        assert gpu.bus_id.need() == "0000:c2:00.0"


def test_a_missing_kfd_device_is_unknown_with_a_docker_hint():
    machine = read(tree(STRIX, asks=ACCESS | {"access /dev/kfd": {"exists": False, "allowed": False}}))
    assert isinstance(machine.system.kfd_access, Unknown)
    assert "--device=/dev/kfd" in machine.system.kfd_access.how_to_get


NVIDIA_ONLY = {
    "/sys/class/drm/card0/device/vendor": "0x10de\n",
    "/proc/bus/pci/devices": "0100\t10de2684\t10\t0\t0\tnvidia\n0101\t10de22ba\t11\t0\t0\tsnd_hda_intel\n",
}


@pytest.mark.parametrize("files", [{}, NVIDIA_ONLY, {"/sys/class/drm/version": "drm 1.1.0\n"}])
def test_a_machine_without_amd_gpus_gives_no_facts(files: dict[str, str]):
    assert read(tree(files)) == Machine()


def test_a_recording_without_amdgpu_files_gives_no_facts():
    assert read(RecordedSystem(MACHINES / "h200_live_healthy")) == Machine()


def test_an_amd_card_without_amdgpu_driver_is_listed_with_the_reason(wording):
    bus = "/sys/bus/pci/devices"
    files = {
        "/proc/bus/pci/devices": "0000\t10221480\t0\t0\t\n0300\t1002744c\t10\t0\tvfio-pci\n0301\t1002ab30\t11\t0\t\n",
        f"{bus}/0000:03:00.0/class": "0x030000\n",
        f"{bus}/0000:03:00.1/class": "0x040300\n",
    }
    (gpu,) = read(tree(files, asks=ACCESS)).gpus.need()
    assert (gpu.vendor.need(), gpu.bus_id.need()) == ("AMD", "0000:03:00.0")
    wording(gpu.vram_total_bytes.why)


@pytest.mark.parametrize(
    ("version", "name"),
    [(80003, "gfx803"), (90010, "gfx90a"), (90402, "gfx942"), (100300, "gfx1030"), (110000, "gfx1100"),
     (110501, "gfx1151"), (120001, "gfx1201")],
)  # fmt: skip
def test_gfx_target_versions_map_to_architecture_names(version: int, name: str):
    assert parse_properties(f"gfx_target_version {version}\n") == ("0000:00:00.0", name)


def test_a_cpu_only_kfd_node_is_skipped():
    assert parse_properties("cpu_cores_count 16\nsimd_count 0\ngfx_target_version 0\n") is None
    assert parse_properties("gfx_target_version 110000\nlocation_id 34304\ndomain 0\n") == ("0000:86:00.0", "gfx1100")


def test_clock_steps_with_a_sleep_state_are_parsed():
    now, most = parse_steps("S: 19Mhz *\n0: 500Mhz \n1: 2482Mhz \n", "f")
    assert (now.need(), most.need()) == (19 * MHZ, 2482 * MHZ)


def test_garbage_in_pci_devices_is_skipped():
    garbage = "x\n0300\t1002744c\n" + "\t" * 10**5
    assert read_gpus_without_driver(FakeSystem(files={"/proc/bus/pci/devices": garbage})) == ()


def test_kfd_access_is_checked_without_opening_the_device():
    allowed = Path("/dev/kfd").exists() and os.access("/dev/kfd", os.R_OK | os.W_OK)
    assert read_kfd_access(LiveSystem()).value_or(False) is allowed


def test_the_gpu_name_decides_integrated_when_sensors_are_missing():
    bare = {path: text for path, text in STRIX.items() if "/hwmon/" not in path}
    line = "c2:00.0 Display controller: Advanced Micro Devices, Inc. [AMD/ATI] Strix Halo [Radeon 8060S Graphics]\n"
    (gpu,) = read(tree(bare, asks=ACCESS, commands={"lspci -s 0000:c2:00.0": FinishedCommand(0, line, "")})).gpus.need()
    assert gpu.kind.need() == "integrated"
    assert gpu.vram_total_bytes.need() > gpu.gtt_total_bytes.need()
