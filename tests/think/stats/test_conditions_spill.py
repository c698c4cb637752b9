"""Signs of a spill between two depths."""

import pytest

from unslow.think.stats.conditions import spill_signs, worth_keeping


def test_pcie_traffic_with_full_vram_is_a_spill(wording):
    before = {"gpu0_pcie_receive_bytes_per_s": 1e7, "gpu0_vram_used_bytes": 60e9, "gpu0_busy": 0.99}
    after = {"gpu0_pcie_receive_bytes_per_s": 2e10, "gpu0_vram_used_bytes": 79.9e9, "gpu0_busy": 0.98}
    signs = spill_signs(before, after, 80e9)
    wording(signs, tells="20.0 GB/s")


@pytest.mark.parametrize(
    ("figure", "was", "now"),
    [
        ("own_cpus", 1.0, 1.4),
        ("major_faults_per_s", 0.0, 3.0),
        ("gpu0_pcie_receive_bytes_per_s", 1e6, 1e8),
        ("gpu0_vram_used_bytes", 1e9, 80e9),
    ],
)
def test_small_increase_is_not_a_sign(figure, was, now):
    assert spill_signs({figure: was}, {figure: now}, 80e9) == ()


def test_unobserved_counter_is_not_a_sign():
    assert spill_signs({}, {"own_cpus": 12.0}) == ()
    assert spill_signs({"own_cpus": 1.0}, {}) == ()


def test_busiest_of_several_gpus_counts(wording):
    before = {"gpu0_pcie_receive_bytes_per_s": 0.0, "gpu1_pcie_receive_bytes_per_s": 0.0}
    after = {"gpu0_pcie_receive_bytes_per_s": 0.0, "gpu1_pcie_receive_bytes_per_s": 6e9}
    wording(spill_signs(before, after)[0], tells="6.0 GB/s")


def test_only_spill_counters_are_kept():
    seen = {
        "gpu0_busy": 0.9,
        "core12": 0.1,
        "own_cpus": 2.0,
        "gpu0_fan": 0.3,
        "gpu3_power_w": 300.0,
        "gpu0_clock_hz": -1.0,
    }
    assert set(worth_keeping(seen)) == {"gpu0_busy", "own_cpus", "gpu3_power_w"}
