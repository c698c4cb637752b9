"""Bandwidth of a PCIe link."""

import pytest

from unslow.think.physics.placement import link_bytes_per_s


@pytest.mark.parametrize(
    ("generation", "lanes", "gigabytes"), [(3, 16, 12.6), (4, 16, 25.2), (4, 1, 1.575), (5, 16, 50.4)]
)
def test_pcie_bandwidth_by_generation_and_lanes(generation, lanes, gigabytes):
    assert link_bytes_per_s(generation, lanes) / 1e9 == pytest.approx(gigabytes, rel=0.01)


def test_more_lanes_and_newer_generations_are_never_slower():
    rates = [link_bytes_per_s(generation, 16) for generation in range(1, 9)]
    assert rates == sorted(rates)
    assert link_bytes_per_s(4, 8) * 2 == link_bytes_per_s(4, 16)
    assert link_bytes_per_s(0, 0) > 0
