"""Readings of a member from raw values."""

import pytest

from unslow.fleet.member import engine_readings, gpu_readings, host_readings


def raw(**values):
    return {name: (0, value, f"{name}, increase over 15 min") for name, value in values.items()}


def values(readings):
    return {name: reading.value for name, reading in readings.items()}


def test_mean_needs_at_least_one_event():
    assert values(engine_readings(raw(queue_s_sum=6.0, queue_s_count=3.0), 900.0)) == {"queue_s": 2.0}
    assert engine_readings(raw(queue_s_sum=0.6, queue_s_count=0.3), 900.0) == {}, "a rest of extrapolation"
    assert engine_readings(raw(queue_s_sum=0.6), 900.0) == {}


def test_busy_speed_needs_enough_tokens():
    told = engine_readings(raw(decode_tokens=60.0, decode_busy_s=0.5), 900.0)
    assert told["decode_tokens_per_busy_s"].value == 120.0
    assert engine_readings(raw(decode_tokens=40.0, decode_busy_s=0.4), 900.0) == {}
    assert engine_readings(raw(decode_tokens=60.0, decode_busy_s=0.0), 900.0) == {}


def test_earlier_speed_needs_enough_tokens():
    then = {"before.token_gap_s_sum": (0, 1.0, "s"), "before.token_gap_s_count": (0, 100.0, "s")}
    assert engine_readings(then, 900.0)["token_gap_before_s"].value == 0.01
    few = {"before.token_gap_s_sum": (0, 1.0, "s"), "before.token_gap_s_count": (0, 49.0, "s")}
    assert engine_readings(few, 900.0) == {}


@pytest.mark.parametrize(("hits", "kept"), [(0.0, True), (10.0, True), (10.1, False), (-1.0, False)])
def test_shares_outside_zero_to_one_are_dropped(hits, kept):
    told = engine_readings(raw(prefix_hits=hits, prefix_queries=10.0), 900.0)
    assert ("prefix_hit_rate" in told) is kept


def test_vram_total_is_used_plus_free_plus_reserved():
    told = raw(vram_used_max_bytes=20.0, vram_free_bytes=3.0, vram_reserved_bytes=1.0)
    assert values(gpu_readings(told)) == {"vram_used_max_bytes": 20.0, "vram_free_bytes": 3.0, "vram_total_bytes": 24.0}
    assert gpu_readings(told | raw(vram_total_bytes=25.0))["vram_total_bytes"].value == 25.0


@pytest.mark.parametrize(("capped", "braked", "held"), [(0.2, 0.3, 0.5), (0.7, 0.8, 1.0), (0.2, 0.0, 0.2)])
def test_power_brake_counts_as_power_throttling(capped, braked, held):
    told = gpu_readings(raw(power_throttled=capped, power_braked=braked))
    assert values(told) == {"power_throttled": pytest.approx(held)}


def test_missing_throttle_reason_is_zero_where_reasons_are_reported():
    assert values(gpu_readings(raw(reasons_told=1.0))) == {"thermal_throttled": 0.0, "power_throttled": 0.0}
    told = values(gpu_readings(raw(reasons_told=4.0, power_throttled=0.4, power_braked=0.2)))
    assert told == {"thermal_throttled": 0.0, "power_throttled": pytest.approx(0.6)}
    assert gpu_readings(raw(temperature_max_c=60.0)).keys() == {"temperature_max_c"}, "nobody tells: no zero"


def test_older_throttle_counter_is_ignored_beside_reasons():
    counted = {"thermal_throttled": (2, 0.3, "DCGM_FI_DEV_THERMAL_VIOLATION")}
    assert gpu_readings(counted)["thermal_throttled"].value == 0.3
    assert gpu_readings(counted | raw(reasons_told=0.0))["thermal_throttled"].value == 0.0


def test_mean_divided_by_prometheus_is_used_directly():
    assert values(engine_readings(raw(queue_s=2.0, prefix_hit_rate=0.5), 900.0)) == {
        "queue_s": 2.0,
        "prefix_hit_rate": 0.5,
    }


def test_busy_cpus_and_used_swap_are_derived():
    told = raw(cpus=8.0, idle_cpus=5.5, swap_total_bytes=10.0, swap_free_bytes=4.0)
    assert values(host_readings(told)) == {
        "cpus": 8.0,
        "busy_cpus": 2.5,
        "swap_total_bytes": 10.0,
        "swap_used_bytes": 6.0,
    }
    assert host_readings(raw(cpus=2.0, idle_cpus=2.1))["busy_cpus"].value == 0.0
