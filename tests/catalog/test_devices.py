"""Every string that a driver reports must lead to the right card, or to none."""

import pytest

from unslow.catalog.devices import all_devices, find_device
from unslow.facts.units import GIB


@pytest.mark.parametrize(
    ("reported", "memory_gib", "name"),
    [
        ("NVIDIA GeForce RTX 4090", 24, "RTX 4090"),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", 16, "RTX 4090 Laptop"),
        ("NVIDIA GeForce RTX 4090 D", 24, "RTX 4090 D"),
        ("NVIDIA GeForce RTX 4070", 12, "RTX 4070"),
        ("NVIDIA GeForce RTX 4070 Ti", 12, "RTX 4070 Ti"),
        ("NVIDIA GeForce RTX 4070 SUPER", 12, "RTX 4070 SUPER"),
        ("NVIDIA GeForce RTX 4070 Ti SUPER", 16, "RTX 4070 Ti SUPER"),
        ("NVIDIA GeForce RTX 4060 Ti", 16, "RTX 4060 Ti 16GB"),
        ("NVIDIA GeForce RTX 4060 Ti", 8, "RTX 4060 Ti 8GB"),
        ("NVIDIA GeForce RTX 3080", 10, "RTX 3080 10GB"),
        ("NVIDIA GeForce RTX 3080", 12, "RTX 3080 12GB"),
        ("NVIDIA H200", 140, "H200 SXM"),
        ("NVIDIA H100 80GB HBM3", 80, "H100 SXM"),
        ("NVIDIA H100 PCIe", 80, "H100 PCIe"),
        ("NVIDIA A100-SXM4-80GB", 80, "A100 80GB SXM"),
        ("NVIDIA A100 80GB PCIe", 80, "A100 80GB PCIe"),
        ("NVIDIA RTX A6000", 48, "RTX A6000"),
        ("NVIDIA RTX 6000 Ada Generation", 48, "RTX 6000 Ada"),
        ("Tesla T4", 15, "Tesla T4"),
        ("NVIDIA L40S", 45, "L40S"),
        ("NVIDIA L4", 23, "L4"),
    ],
)
def test_what_drivers_report(reported, memory_gib, name):
    found = find_device(reported, memory_gib * GIB)
    assert found is not None
    assert found.name == name


@pytest.mark.parametrize("reported", ["NVIDIA GeForce RTX 9999", "llvmpipe (LLVM 15)", "", "NVIDIA", "Matrox G200"])
def test_what_nobody_knows(reported):
    assert find_device(reported) is None


def test_every_device_has_a_source_and_a_sane_bandwidth():
    for device in all_devices():
        assert device.source
        assert 5e10 < device.memory_bytes_per_s < 2e13, device
