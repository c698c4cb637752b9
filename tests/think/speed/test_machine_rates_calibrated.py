"""Token time on a calibrated machine: parts that add up, and an interval as wide as what is unknown."""

import msgspec
import pytest

from unslow.facts.calibration import Calibration, Demand, MachineMark, Rates, Scale, TypeRate
from unslow.facts.values import MB, MIB
from unslow.think.speed.machine_rates import calibrated_decode, calibrated_prefill

RATES = Rates(
    types=(
        TypeRate(type="Q4_0", decode_bytes_per_s=10e9, prefill_bytes_per_s=100e9),
        TypeRate(type="Q6_K", decode_bytes_per_s=15e9, prefill_bytes_per_s=150e9),
        TypeRate(type="F16", decode_bytes_per_s=20e9, prefill_bytes_per_s=400e9),
    ),
    step_s=1e-4,
    operation_s=2e-6,
    row_s=1e-8,
    vocabulary_entry_s=5e-9,
    attention_element_s=1e-10,
    kv_byte_s=1e-10,
    prefill_operation_s=1e-6,
    prefill_attention_element_s=1e-11,
    error=0.01,
)
MACHINE = Calibration(
    unslow_version="1",
    taken_at="2026-01-01",
    seconds=1.0,
    machine=MachineMark(),
    engine="x",
    engine_version="1",
    backend="cpu",
    device="cpu",
    threads=2,
    cache_bytes=32 * MIB,
    rates=RATES,
)
MODEL = Demand(
    bytes_by_type={"Q4_0": 100.0 * MB, "Q6_K": 30.0 * MB},
    layer_bytes_by_type={"Q4_0": 100.0 * MB},
    layers=10,
    operations=90,
    rows=100_000,
    vocabulary=32_000,
    attention_elements=1_000_000,
    kv_bytes=100_000,
    depth_tokens=10,
)


def test_parts_add_up():
    seconds, parts = calibrated_decode(MODEL, MACHINE)
    assert {p.name: p.seconds for p in parts} == pytest.approx(
        {
            "weights": 0.010 + 0.002,
            "operations": 90 * 2e-6,
            "rows": 1e-3,
            "vocabulary": 32_000 * 5e-9,
            "attention": 1e-4 + 1e-5,
            "step": 1e-4,
        }
    )
    assert seconds.mid == pytest.approx(sum(p.seconds for p in parts))
    assert 1.08 <= seconds.high / seconds.mid < 1.1


def without(**changes) -> Demand:
    return msgspec.structs.replace(MODEL, **changes)


@pytest.mark.parametrize(
    ("kind", "rate", "least_spread"), [("Q4_1", 10e9, 1.3), ("Q4_K", 15e9, 1.3), ("F32", 20e9, 1.3), ("IQ2_XS", 0, 1.7)]
)
def test_unmeasured_type_uses_its_neighbour_and_widens_the_interval(kind, rate, least_spread):
    seconds, (weights, *_) = calibrated_decode(without(bytes_by_type={kind: 100.0 * MB}), MACHINE)
    assert weights.spread >= least_spread
    if rate:
        assert weights.seconds == pytest.approx(100 * MB / rate)
    assert seconds.high > 1.2 * seconds.mid


def test_weights_in_the_cpu_cache_may_be_faster():
    small = calibrated_decode(without(bytes_by_type={"Q4_0": 10.0 * MB}), MACHINE).seconds
    assert small.mid / small.low == pytest.approx(1.5 * small.high / small.mid)


def test_disturbed_calibration_widens_the_interval():
    calm = calibrated_decode(MODEL, MACHINE).seconds
    wild = calibrated_decode(MODEL, msgspec.structs.replace(MACHINE, disturbed="others used 1 processor")).seconds
    assert wild.mid == calm.mid
    assert wild.high > calm.high


def test_drifting_machine_is_predicted_at_its_usual_speed():
    calm = calibrated_decode(MODEL, MACHINE).seconds
    drifts = calibrated_decode(MODEL, msgspec.structs.replace(MACHINE, drift=1.3)).seconds
    assert drifts.mid == pytest.approx(1.3 * calm.mid)
    assert drifts.low == pytest.approx(calm.mid)
    assert drifts.high == pytest.approx(1.3 * drifts.mid)


@pytest.mark.parametrize("field", ["operations", "rows", "vocabulary", "attention_elements", "kv_bytes"])
def test_more_work_is_never_faster(field):
    more = without(**{field: 2 * getattr(MODEL, field)})
    assert calibrated_decode(more, MACHINE).seconds.mid > calibrated_decode(MODEL, MACHINE).seconds.mid


def test_prefill_grows_faster_than_its_length():
    short, long = (calibrated_prefill(MODEL, MACHINE, n).seconds.mid for n in (1000, 2000))
    assert 2 * short < long < 4 * short
    assert calibrated_prefill(without(expert_bytes=1e6), MACHINE, 1000).seconds.mid == short


def test_scale_alone_gives_no_parts():
    scaled = msgspec.structs.replace(
        MACHINE, rates=None, scale=Scale(model="x", measured_decode_s=0.02, expected_decode_s=0.01)
    )
    assert calibrated_decode(MODEL, scaled) is None
    assert calibrated_prefill(MODEL, scaled, 100) is None
    assert scaled.scale.factor == 2
