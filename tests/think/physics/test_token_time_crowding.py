"""Oversubscribed threads, and a CPU quota."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unslow.think.physics.token_time import crowding_s, throttling

counts = st.integers(1, 256)


@given(counts, counts, counts)
def test_more_threads_never_wait_less(threads, more, cpus):
    assert crowding_s(32, threads + more, cpus) >= crowding_s(32, threads, cpus)
    assert crowding_s(32, min(threads, cpus), cpus) == 0


def test_one_cpu_has_no_spinning_threads():
    assert 0 < crowding_s(32, 2, 1) < crowding_s(32, 3, 2)


@given(counts, counts, st.floats(0.05, 256))
def test_quota_throttles_what_exceeds_it(threads, cpus, quota):
    times = throttling(threads, cpus, quota)
    assert times >= 1
    assert times == pytest.approx(max(1, min(threads, cpus) / quota))
    assert throttling(threads, cpus, 0) == 1, "no quota"


@pytest.mark.parametrize(
    ("threads", "quota", "reached"), [(2, 1.5, 0.79), (2, 1.0, 0.54), (2, 0.5, 0.24), (1, 1.0, 0.97), (1, 0.5, 0.49)]
)
def test_throttling_matches_a_server_on_two_cores(threads, quota, reached):
    assert 1 / throttling(threads, 2, quota) == pytest.approx(reached, rel=0.1)


def test_threads_that_wait_in_loops_lose_whole_time_slices():
    assert crowding_s(30, 4, 2, openmp=False) == pytest.approx(3.07, rel=0.1)
    assert crowding_s(30, 2, 2, openmp=False) == 0
    assert crowding_s(30, 3, 2, openmp=False) > crowding_s(30, 16, 2)


@pytest.mark.parametrize(
    ("threads", "cpus", "layer_ms"),
    [
        (4, 2, 0.45),
        (4, 2, 1.0),
        (8, 2, 0.8),
        (8, 2, 1.4),
        (16, 2, 1.9),
        (16, 2, 3.0),
        (2, 1, 0.08),
        (2, 1, 0.13),
        (64, 16, 2.2),
        (64, 16, 2.9),
    ],
)
def test_oversubscription_matches_measured_servers(threads, cpus, layer_ms):
    assert 0.5 < crowding_s(1, threads, cpus) * 1e3 / layer_ms < 2
