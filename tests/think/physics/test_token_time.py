"""Decode time: properties that hold for any numbers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from unslow.think.physics.placement import Placement, Shape, fit_layers, without_experts
from unslow.think.physics.terms import interval_around, inverse_interval
from unslow.think.physics.token_time import Side, Work, ceiling_tokens_per_s, decode_parts, total_seconds

sizes = st.floats(1e8, 1e11)
rates = st.floats(1e10, 5e12)


def work(device_bytes=0.0, host_bytes=0.0, device_rate=1e12, host_rate=5e10, **more):
    reads, host_reads = device_bytes / device_rate, host_bytes / host_rate
    device = Side({"device memory reads": reads * 1.1, "kernel launches": 1e-3}, reads, 1.15) if device_bytes else None
    host = Side({"host memory reads": host_reads * 1.1}, host_reads, 1.2) if host_bytes else None
    return Work(device, host, 128_000, 5e-9, **more)


def seconds(w):
    return total_seconds(decode_parts(w)).mid


@given(sizes, rates, st.floats(1.01, 10))
def test_more_bandwidth_is_never_slower(size, rate, factor):
    assert seconds(work(size, device_rate=rate * factor)) < seconds(work(size, device_rate=rate))


@given(sizes, rates)
def test_no_prediction_beats_the_ceiling(size, rate):
    w = work(size, device_rate=rate)
    assert 1 / seconds(w) < ceiling_tokens_per_s(w)


@given(sizes)
def test_host_bytes_cost_more_than_device_bytes(size):
    assert seconds(work(size / 2, size / 2)) > seconds(work(size))


@given(sizes, st.floats(1e-3, 1), st.floats(1.01, 64))
def test_oversubscription_and_quota_are_never_faster(size, crowd, times):
    free, crowded = seconds(work(host_bytes=size)), seconds(work(host_bytes=size, crowding_s=crowd))
    throttled = seconds(work(host_bytes=size, crowding_s=crowd, throttling=times))
    assert free < crowded < throttled
    assert throttled <= crowded * times


def test_host_hindrances_do_not_matter_without_host_work():
    assert seconds(work(1e9, crowding_s=1.0, throttling=4.0)) == seconds(work(1e9))


def test_interval_can_be_inverted():
    low, mid, high = inverse_interval(interval_around(0.5, 2))
    assert (low, mid, high) == (1.0, 2.0, 4.0)


SHAPE = Shape(32, 131e6, 430e6, 131072, 4096, 128_256)


@given(st.floats(0, 2e11), st.floats(0, 2e11), st.integers(256, 131072))
def test_more_memory_never_fits_fewer_layers(a, b, context):
    few, many = (fit_layers(SHAPE, v, context, 3e8, 1e9) for v in sorted((a, b)))
    assert few.gpu_layers <= many.gpu_layers


MIXTURE = SHAPE._replace(expert_share=0.95)


@given(st.integers(1, 32), st.floats(0, 32 * 131e6))
def test_experts_leave_before_whole_layers_and_no_byte_is_lost(layers, missing):
    missing = min(missing, layers * SHAPE.layer_bytes)
    placed = without_experts(MIXTURE, layers, missing, output_on_gpu=True)
    assert 0 <= placed.with_experts <= placed.attending <= layers
    assert placed.gpu_layers * SHAPE.layer_bytes == pytest.approx(layers * SHAPE.layer_bytes - missing, abs=1)
    if missing <= 0.95 * layers * SHAPE.layer_bytes:
        assert placed.attending == pytest.approx(layers)


def test_whole_layer_includes_its_experts():
    assert Placement(7, output_on_gpu=True).attending == Placement(7, output_on_gpu=True).with_experts == 7
