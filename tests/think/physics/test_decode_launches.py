"""Launches one by one: the slower of processor and GPU sets the pace."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unslow.think.physics.decode import EAGER, PLAIN, SERVED, launch_s, overlapped

times = st.floats(1e-6, 10)


@given(times, times)
def test_two_at_once_take_at_least_the_longer_and_at_most_both(gpu, host):
    both = overlapped(gpu, host)
    assert max(gpu, host) * (1 - 1e-9) <= both <= (gpu + host) * (1 + 1e-9)
    assert both == pytest.approx(overlapped(host, gpu))


@given(times)
def test_a_processor_with_nothing_to_do_costs_nothing(gpu):
    assert overlapped(gpu, 0.0) == pytest.approx(gpu)


@given(times, times, st.floats(1.01, 10))
def test_more_work_never_takes_less(gpu, host, factor):
    assert overlapped(gpu * factor, host) >= overlapped(gpu, host)


@pytest.mark.parametrize("how", [PLAIN, EAGER])
def test_every_layer_is_launched(how):
    assert launch_s(how, 0.0, 0.0) == how.step_s
    assert launch_s(how, 64.0, 0.0) - launch_s(how, 32.0, 0.0) == pytest.approx(32 * how.layer_s)
    assert launch_s(how, 32.0, 32.0) > launch_s(how, 32.0, 0.0)


def test_eager_launches_cost_more_than_those_of_a_compiled_runtime():
    assert launch_s(EAGER, 32.0, 0.0) > 5 * launch_s(PLAIN, 32.0, 0.0)


def test_engines_in_python_without_graphs_as_somebody_timed_them():
    """On two hosts, of which one is half as fast again."""
    for layers, gpu_s, timed_s in ((28.0, 13e-3, 22e-3), (24.0, 6e-3, 19e-3), (32.0, 5e-3, 14.2e-3)):
        assert overlapped(gpu_s, launch_s(SERVED, layers, 0.0)) == pytest.approx(timed_s, rel=0.32)
