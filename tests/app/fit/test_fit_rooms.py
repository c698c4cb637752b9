import pytest
from doubles import FakeSystem

from unslow.app.fit.rooms import find_rooms, here
from unslow.facts.errors import UserError
from unslow.facts.machine import Gpu, Machine, Memory
from unslow.facts.values import measured, reported

GIB = 2**30


def test_devices_by_name_count_and_size() -> None:
    rooms, host = find_rooms(FakeSystem(), ("RTX 4090", "2x H100 PCIe", "24GB"), None)
    assert [r.name for r in rooms] == ["RTX 4090", "H100 PCIe", "H100 PCIe", "24GB"]
    assert rooms[0].capacity_bytes == 24 * GIB
    assert rooms[3].capacity_bytes == 24 * 10**9
    assert all(0.97 * r.capacity_bytes < r.usable_bytes < r.capacity_bytes for r in rooms)
    assert host is None


def test_the_host_alone() -> None:
    rooms, host = find_rooms(FakeSystem(), ("cpu",), 64 * GIB)
    assert rooms == []
    assert host is not None
    assert host.usable_bytes == 64 * GIB


def test_an_unknown_device_has_near_names() -> None:
    with pytest.raises(UserError, match="no device"):
        find_rooms(FakeSystem(), ("RTX 4091",), None)


def test_this_machine_counts_what_others_hold() -> None:
    gpu = Gpu(
        index=0,
        name=reported("NVIDIA GeForce RTX 3090", "nvml"),
        vram_total_bytes=reported(24 * GIB, "nvml"),
        vram_reserved_bytes=reported(GIB // 4, "nvml"),
        vram_free_bytes=measured(20 * GIB, "nvml"),
    )
    memory = Memory(total_bytes=reported(64 * GIB, "meminfo"), available_bytes=reported(50 * GIB, "meminfo"))
    rooms, host = here(Machine(gpus=reported((gpu,), "nvml"), memory=memory))
    assert rooms[0].name == "RTX 3090"
    assert rooms[0].others_bytes == 24 * GIB - GIB // 4 - 20 * GIB
    assert rooms[0].usable_bytes == 20 * GIB
    assert host is not None
    assert host.usable_bytes == 50 * GIB
