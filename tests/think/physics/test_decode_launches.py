"""Kernel launches one by one: the slower of CPU and GPU sets the pace."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unslow.think.physics.decode import EAGER, PLAIN, SERVED, launch_s, overlapped_s

times = st.floats(1e-6, 10)


@given(times, times)
def test_overlapped_time_is_between_the_longer_and_the_sum(gpu, host):
    both = overlapped_s(gpu, host)
    assert max(gpu, host) * (1 - 1e-9) <= both <= (gpu + host) * (1 + 1e-9)
    assert both == pytest.approx(overlapped_s(host, gpu))


@given(times)
def test_idle_cpu_adds_nothing(gpu):
    assert overlapped_s(gpu, 0.0) == pytest.approx(gpu)


@given(times, times, st.floats(1.01, 10))
def test_more_work_never_takes_less_time(gpu, host, factor):
    assert overlapped_s(gpu * factor, host) >= overlapped_s(gpu, host)


@pytest.mark.parametrize("how", [PLAIN, EAGER])
def test_launch_time_grows_with_layers(how):
    assert launch_s(how, 0.0, 0.0) == how.step_s
    assert launch_s(how, 64.0, 0.0) - launch_s(how, 32.0, 0.0) == pytest.approx(32 * how.layer_s)
    assert launch_s(how, 32.0, 32.0) > launch_s(how, 32.0, 0.0)


def test_eager_launches_cost_more_than_compiled_ones():
    assert launch_s(EAGER, 32.0, 0.0) > 5 * launch_s(PLAIN, 32.0, 0.0)


def test_launch_time_matches_measured_python_engines():
    """On two hosts, one of which is 1.5 times as fast."""
    for layers, gpu_s, timed_s in ((28.0, 13e-3, 22e-3), (24.0, 6e-3, 19e-3), (32.0, 5e-3, 14.2e-3)):
        assert overlapped_s(gpu_s, launch_s(SERVED, layers, 0.0)) == pytest.approx(timed_s, rel=0.32)
