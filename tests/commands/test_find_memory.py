import pytest
from doubles import FakeSystem

from unslow.commands._hardware import find_memory
from unslow.facts.errors import UserError
from unslow.facts.machine import Gpu, Machine, Memory
from unslow.facts.values import measured_fact, not_supported, reported_fact
from unslow.think.hardware import Room, memory_of_machine

GIB, MIB = 2**30, 2**20
MEMINFO = {"/proc/meminfo": f"MemTotal: {64 * MIB} kB\nMemAvailable: {50 * MIB} kB\n"}
RAM = Memory(total_bytes=reported_fact(64 * GIB, "meminfo"), available_bytes=reported_fact(50 * GIB, "meminfo"))


def named(*texts: str, ram_bytes: int | None = None) -> tuple[Room, ...]:
    return find_memory(FakeSystem(), texts, ram_bytes).rooms


def test_devices_are_found_by_name_count_and_size() -> None:
    rooms, host, *_ = find_memory(FakeSystem(), ("RTX 4090", "2x H100 PCIe", "24GB"), None)
    assert [r.name for r in rooms] == ["RTX 4090", "H100 PCIe", "H100 PCIe", "24GB"]
    assert rooms[0].capacity_bytes == 24564 * MIB, "as its driver reports it"
    assert rooms[3].capacity_bytes == 24 * GIB
    assert all(0.97 * r.capacity_bytes < r.usable_bytes < r.capacity_bytes for r in rooms)
    assert host is None


@pytest.mark.parametrize(
    "text",
    [
        "RTX 3090,RTX 3090", "RTX 3090 + RTX 3090", "RTX 3090 x2", "RTX 3090x2", "RTX 3090 ×2", "RTX 3090 * 2",
        "2 RTX 3090", "2xRTX 3090", "2 x rtx3090", "2x3090", "3090x2", "3090 x 2", "RTX 3090 2x", "3090 and 3090",
    ],
)  # fmt: skip
def test_every_spelling_of_two_gpus_is_understood(text: str) -> None:
    assert [r.name for r in named(text)] == ["RTX 3090"] * 2


@pytest.mark.parametrize("text", ["100x RTX 4090", "0x H100", "H100 x0", "65 RTX 3090", "40x T4, 40x T4"])
def test_impossible_device_counts_are_refused(text: str) -> None:
    with pytest.raises(UserError, match="number of devices must be between 1 and 64"):
        named(text)


@pytest.mark.parametrize("text", ["", " ", "RTX 3060,", "+", "RTX 3060,,RTX 3090"])
def test_empty_device_names_are_refused(text: str) -> None:
    with pytest.raises(UserError, match="empty device name"):
        named(text)


@pytest.mark.parametrize(
    ("text", "name", "gib"),
    [
        ("RTX 3060 8GB", "RTX 3060 8GB", 8),
        ("V100 16GB", "Tesla V100 SXM2 16GB", 16),
        ("Arc A770 8GB", "Arc A770 8GB", 8),
        ("GTX 1060 3GB", "GTX 1060 3GB", 3),
        ("RTX 3080 12G", "RTX 3080 12GB", 12),
        ("A100 80GB", "A100 80GB SXM", 80),
        ("12 GB RTX 3060", "RTX 3060", 12),
        ("Tesla T4 16GB", "Tesla T4", 15),
    ],
)
def test_size_chooses_the_variant(text: str, name: str, gib: int) -> None:
    (room,) = named(text)
    assert (room.name, room.capacity_bytes) == (name, gib * GIB)
    assert "in the catalog" not in room.note


def test_backends_without_measurements_are_noted() -> None:
    assert "ROCm" in named("RX 7900 XTX")[0].note
    assert "Metal" in named("M3 Max 64GB")[0].note
    assert named("RTX 4090")[0].note == ""


@pytest.mark.parametrize(
    ("text", "name", "gib", "known"),
    [
        ("RTX 4090 48GB", "RTX 4090 48GB", 48, "24 GiB"),
        ("2080 ti 22G", "RTX 2080 Ti 22GB", 22, "11 GiB"),
        ("RTX 3080 20GB", "RTX 3080 20GB", 20, "10 GiB or 12 GiB"),
    ],
)
def test_size_that_is_not_sold_is_used_and_noted(text: str, name: str, gib: int, known: str) -> None:
    (room,) = named(text)
    assert (room.name, room.capacity_bytes) == (name, gib * GIB)
    assert known in room.note


@pytest.mark.parametrize(
    ("text", "name", "other"),
    [
        ("RTX 4060 Ti", "RTX 4060 Ti 8GB", "a 16 GB variant"),
        ("V100", "Tesla V100 SXM2 16GB", "Tesla V100 SXM2 32GB"),
        ("A100", "A100 40GB SXM", "A100 80GB PCIe"),
        ("mi50", "MI50 16GB", "a 32 GB variant"),
        ("H100", "H100 SXM", "H100 NVL"),
        ("RTX 3060", "RTX 3060", "an 8 GB variant"),  # the usual one has no size in its name
    ],
)
def test_bare_name_takes_the_smaller_variant_and_names_the_other(text: str, name: str, other: str) -> None:
    (room,) = named(text)
    assert room.name == name
    assert other in room.note


@pytest.mark.parametrize("text", ["0GB", "RTX 3060 0GB", "0.0 GiB"])
def test_zero_memory_is_refused(text: str, wording) -> None:
    with pytest.raises(UserError) as caught:
        named(text)
    wording(str(caught.value))


def test_unknown_device_suggests_similar_names(wording) -> None:
    with pytest.raises(UserError, match="unknown device 'RTX 4091'") as caught:
        named("RTX 4091")
    wording(caught.value.hint, tells="RTX 4090")
    with pytest.raises(UserError) as caught:
        named("RTX 3060 foo")
    wording(str(caught.value), tells="RTX 3060 foo")
    assert caught.value.hint.count("3060") == 4
    assert "12GB" in caught.value.hint
    with pytest.raises(UserError, match="unknown device") as caught:
        named("Radeon 9999 XL 20GB")
    wording(caught.value.hint, tells="20GB")


@pytest.mark.parametrize(
    "text",
    ["9" * 5000, "9" * 1900, "9" * 1900 + "GB", "RTX" + " " * 1900 + "x", "x" * 1900, "RTX 3060 " + "9" * 400 + "GB"],
)
def test_very_long_name_is_refused(text: str) -> None:
    with pytest.raises(UserError):
        named(text)


def test_ambiguous_device_lists_the_candidates(wording) -> None:
    with pytest.raises(UserError, match="matches several devices") as caught:
        named("RX 7900")
    wording(caught.value.hint, tells="RX 7900")


@pytest.mark.parametrize(("text", "gpu_gib"), [("M4 16GB", 32 / 3), ("M3 Pro 36GB", 27), ("M3 Max 64 GB", 48)])
def test_gpu_of_a_mac_gets_a_share_of_unified_memory(text: str, gpu_gib: float) -> None:
    rooms, host, *_ = find_memory(FakeSystem(), (text,), None)
    assert rooms[0].unified
    assert rooms[0].usable_bytes == pytest.approx(gpu_gib * GIB, rel=1e-6)
    assert "iogpu.wired_limit_mb" in rooms[0].note
    assert host is None


def test_mac_needs_its_memory_size_or_ram(wording) -> None:
    with pytest.raises(UserError, match="several memory sizes"):
        named("M3 Max")
    assert named("M3 Max", ram_bytes=64 * GIB) == named("M3 Max 64GB")
    rooms, host, *_ = find_memory(FakeSystem(), ("M3 Max 64GB",), 32 * GIB)
    wording(rooms[0].note, tells="--ram")
    assert host is None


@pytest.mark.parametrize(("text", "gpu_gib"), [("DGX Spark", 121), ("Strix Halo", 96), ("Ryzen AI Max+ 395 64GB", 48)])
def test_other_unified_memories_are_recognized(text: str, gpu_gib: float) -> None:
    rooms, host, *_ = find_memory(FakeSystem(), (text,), None)
    assert rooms[0].unified
    assert rooms[0].usable_bytes == pytest.approx(gpu_gib * GIB, rel=0.01)
    assert host is None
    assert not named("GH200")[0].unified


def test_host_of_a_mixed_list_is_kept() -> None:
    rooms, host, *_ = find_memory(FakeSystem(), ("RTX 3060 + M4 16GB",), 64 * GIB)
    assert [r.unified for r in rooms] == [False, True]
    assert host == Room("host", 64 * GIB)


def test_cpu_device_uses_host_memory_only() -> None:
    rooms, host, *_ = find_memory(FakeSystem(), ("cpu",), 64 * GIB)
    assert rooms == ()
    assert host is not None
    assert host.usable_bytes == 64 * GIB
    found = find_memory(FakeSystem(files=dict(MEMINFO)), ("CPU",), None)
    assert (found.rooms, found.host_room) == ((), Room("host", 64 * GIB, others_bytes=14 * GIB))


def test_auto_with_a_named_gpu_keeps_this_host(wording) -> None:
    rooms, host, *_ = find_memory(FakeSystem(files=dict(MEMINFO)), ("auto", "RTX 3090"), None)
    assert [r.name for r in rooms] == ["RTX 3090"]
    assert host is not None
    assert host.capacity_bytes == 64 * GIB
    wording(host.note)
    rooms, host, *_ = find_memory(FakeSystem(), ("auto, RTX 3090",), None)
    wording(rooms[0].note)
    assert host is None


def test_memory_held_by_other_processes_is_subtracted() -> None:
    gpu = Gpu(
        index=0,
        name=reported_fact("NVIDIA GeForce RTX 3090", "nvml"),
        vram_total_bytes=reported_fact(24 * GIB, "nvml"),
        vram_reserved_bytes=reported_fact(GIB // 4, "nvml"),
        vram_free_bytes=measured_fact(20 * GIB, "nvml"),
    )
    rooms, host, *_ = memory_of_machine(Machine(gpus=reported_fact((gpu,), "nvml"), memory=RAM))
    assert rooms[0].name == "RTX 3090"
    assert rooms[0].others_bytes == 24 * GIB - GIB // 4 - 20 * GIB
    assert rooms[0].usable_bytes == 20 * GIB
    assert host is not None
    assert host.usable_bytes == 50 * GIB


def test_cgroup_limit_is_the_host_memory() -> None:
    memory = Memory(
        total_bytes=RAM.total_bytes, available_bytes=RAM.available_bytes, limit_bytes=reported_fact(GIB, "cgroup")
    )
    found = memory_of_machine(Machine(memory=memory))
    assert (found.rooms, found.host_room) == ((), Room("host", GIB))


def test_gpu_without_own_memory_uses_host_memory() -> None:
    no_memory = not_supported("the driver reports no memory")
    spark = Gpu(index=0, name=reported_fact("NVIDIA GB10", "nvml"), vram_total_bytes=no_memory)
    rooms, host, *_ = memory_of_machine(Machine(gpus=reported_fact((spark,), "nvml"), memory=RAM))
    assert rooms[0].unified
    assert rooms[0].capacity_bytes == 64 * GIB
    assert rooms[0].others_bytes == 14 * GIB
    assert host == Room("host", 64 * GIB, others_bytes=14 * GIB), "for those who ask for no GPU"


def test_gpu_with_unknown_memory_is_noted(wording) -> None:
    gpu = Gpu(index=0, name=reported_fact("NVIDIA L4", "nvml"), vram_total_bytes=not_supported("no permission"))
    rooms, host, *_ = memory_of_machine(Machine(gpus=reported_fact((gpu,), "nvml"), memory=RAM))
    assert rooms == ()
    assert host is not None
    wording(host.note, tells="L4")


def test_integrated_gpu_beside_a_discrete_one_offers_no_memory() -> None:
    card = Gpu(index=0, name=reported_fact("RTX 4060", "x"), vram_total_bytes=reported_fact(8 * GIB, "x"))
    chip = Gpu(index=1, name=reported_fact("Intel UHD 770", "x"), kind=reported_fact("integrated", "x"))
    rooms, host, *_ = memory_of_machine(Machine(memory=RAM, gpus=reported_fact((card, chip), "x")))
    assert [room.name for room in rooms] == ["RTX 4060"]
    assert host is not None
    assert not host.note, "nobody asks for the memory of what does not compute"
