"""What people write leads to the right device or to an error, never to another device."""

import pytest

from unslow.catalog.device_names import devices_meant, is_one_model, near_devices
from unslow.catalog.devices import all_devices, all_gpus, find_device, parse_device_name
from unslow.catalog.hardware_families import unified_memory
from unslow.facts.values import GIB


def names(text: str) -> list[str]:
    return [d.name for d in devices_meant(parse_device_name(text).words)]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("RTX4090", "RTX 4090"),
        ("4090", "RTX 4090"),
        ("geforce rtx 4090", "RTX 4090"),
        ("GeForceRTX4090", "RTX 4090"),
        ("rtx 4090 mobile", "RTX 4090 Laptop"),
        ("4090d", "RTX 4090 D"),
        ("NVIDIA GeForce RTX 3090", "RTX 3090"),
        ("4070 ti super", "RTX 4070 Ti SUPER"),
        ("4070tisuper", "RTX 4070 Ti SUPER"),
        ("3080ti", "RTX 3080 Ti"),
        ("gtx 1080", "GTX 1080"),
        ("7900xtx", "RX 7900 XTX"),
        ("rx7900xtx", "RX 7900 XTX"),
        ("Radeon RX-7900-XT", "RX 7900 XT"),
        ("6600", "RX 6600"),
        ("A6000", "RTX A6000"),
        ("rtxa6000", "RTX A6000"),
        ("RTX PRO 6000", "RTX PRO 6000 Blackwell"),
        ("RTX PRO 6000 Blackwell Max-Q Workstation Edition", "RTX PRO 6000 Blackwell Max-Q"),
        ("GB10", "DGX Spark GB10"),
        ("DGX Spark", "DGX Spark GB10"),
        ("Strix Halo", "Strix Halo Ryzen AI Max+ 395 (Radeon 8060S)"),
        ("Ryzen AI Max+ 395", "Strix Halo Ryzen AI Max+ 395 (Radeon 8060S)"),
        ("Radeon 8060S Graphics", "Strix Halo Ryzen AI Max+ 395 (Radeon 8060S)"),
        ("T4", "Tesla T4"),
        ("p40", "Tesla P40"),
        ("4050", "RTX 4050 Laptop"),
        ("b580", "Arc B580"),
    ],
)
def test_a_written_name_finds_one_device(text: str, name: str) -> None:
    assert names(text) == [name]


@pytest.mark.parametrize(
    ("text", "first"),
    [("M2", "Apple M2"), ("m2 ultra", "Apple M2 Ultra"), ("MacBook Pro M1 Max (32-core GPU) 64GB", "Apple M1 Max")],
)
def test_variants_of_one_apple_chip_count_as_one_model(text: str, first: str) -> None:
    meant = devices_meant(parse_device_name(text).words)
    assert meant[0].name == first
    assert is_one_model(meant)


@pytest.mark.parametrize("text", ["", "NVIDIA", "RTX", "PCIe", "RTX 3060 foo", "GTX 3090", "RTX 5090 Ti", "H200 x"])
def test_an_incomplete_or_wrong_name_finds_no_device(text: str) -> None:
    assert names(text) == []


def test_memory_sizes_are_not_part_of_the_name() -> None:
    assert parse_device_name("A100-SXM4-80GB").sizes == ("80gb",)
    assert parse_device_name("M3 Max 64 GB").sizes == ("64 gb",)
    assert parse_device_name("RTX 4090 24G GDDR6X").words == {"rtx", "4090"}


def test_every_device_is_found_by_its_own_name() -> None:
    for device in all_gpus():
        meant = devices_meant(parse_device_name(device.name).words)
        assert device in meant
        assert is_one_model(meant), device.name
        assert len({d.vendor for d in meant}) == 1


def test_near_devices_share_the_model_number() -> None:
    def near(text: str) -> list[str]:
        return [d.name for d in near_devices(parse_device_name(text).words)]

    assert set(near("RTX 3090 foo")) == {"RTX 3090", "RTX 3090 Ti"}
    assert near("MI300") == ["MI300A", "MI300X"]
    assert set(near("titan")) == {"TITAN RTX", "TITAN V", "TITAN Xp", "TITAN X (Pascal)"}
    assert near("RTX 9999") == []
    assert near("1" * 2000) == []


def test_driver_memory_is_at_most_the_label() -> None:
    for device in all_devices():
        if device.driver_bytes:
            assert 0.88 * device.memory_bytes < device.driver_bytes <= device.memory_bytes, device.name
            assert device.driver_source, device.name


def test_memory_size_selects_the_apple_chip_variant() -> None:
    slower, faster = find_device("Apple M3 Max", 36 * GIB), find_device("Apple M3 Max", 64 * GIB)
    assert slower is not None
    assert faster is not None
    assert (slower.memory_bytes_per_s, faster.memory_bytes_per_s) == (3e11, 4e11)


def test_every_unified_device_has_a_rule_for_its_gpu_share() -> None:
    for device in all_devices():
        if device.is_unified:
            assert 0.6 < unified_memory(device.vendor).gpu_bytes(64 * GIB) / (64 * GIB) <= 1
