"""Physics by properties: what must hold for any numbers."""

from hypothesis import given
from hypothesis import strategies as st

from unslow.think.physics.decode import Backend, Device, Side, Work, ceiling_tokens_per_s, decode_parts, total_seconds
from unslow.think.physics.interval import around, inverse
from unslow.think.physics.placement import Placement, Shape, fitted, reads_per_token

BACKEND = Backend(0.9, 1e-4, 1.25)
sizes = st.floats(1e8, 1e11)
rates = st.floats(1e10, 5e12)


def work(device_bytes=0.0, host_bytes=0.0, device_rate=1e12, host_rate=5e10, **more):
    reads = device_bytes / device_rate
    device = (
        Device({"device memory reads": reads * 1.1, "kernel launches": 1e-3}, reads, 1.15) if device_bytes else None
    )
    host = Side(host_bytes, host_rate, 32, BACKEND, 1.2) if host_bytes else None
    return Work(device, host, 4096, 128_000, 5e-9, **more)


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
def test_a_byte_on_the_host_costs_more_than_one_on_the_device(size):
    assert seconds(work(size / 2, size / 2)) > seconds(work(size))


@given(sizes, st.floats(1.5, 64))
def test_more_threads_than_cores_are_never_faster(size, crowd):
    assert seconds(work(host_bytes=size, threads_per_core=crowd)) > seconds(work(host_bytes=size))


def test_an_interval_survives_being_turned_over():
    low, mid, high = inverse(around(0.5, 2))
    assert (low, mid, high) == (1.0, 2.0, 4.0)


SHAPE = Shape(32, 131e6, 430e6, 1.0, 131072, 4096, 128_256)


@given(st.floats(0, 2e11), st.floats(0, 2e11), st.integers(256, 131072))
def test_more_memory_never_fits_fewer_layers(a, b, context):
    few, many = (fitted(SHAPE, v, context, 3e8, 1e9) for v in sorted((a, b)))
    assert few.gpu_layers <= many.gpu_layers


@given(st.integers(0, 32), st.integers(0, 131072))
def test_reads_are_conserved_wherever_they_lie(layers, depth):
    split = reads_per_token(SHAPE, Placement(layers, output_on_gpu=True), depth)
    whole = reads_per_token(SHAPE, Placement(32, output_on_gpu=True), depth)
    assert abs(split.device + split.host - whole.device) < 1
    assert whole.host == 0


def test_only_active_experts_are_read():
    half = SHAPE._replace(active_share=0.5)
    everything = reads_per_token(SHAPE, Placement(32, output_on_gpu=True), 0).device
    assert reads_per_token(half, Placement(32, output_on_gpu=True), 0).device < everything
