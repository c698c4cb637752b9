"""Costs are fitted to measured points: exactly for synthetic ones, and closely for a real machine."""

import statistics
from pathlib import Path

import msgspec
import pytest

from unslow.facts.calibration import Calibration, Demand, MachineMark, Point, Rates, TypeRate
from unslow.think.speed.machine_rates import calibrated_decode, calibrated_prefill, drift_of, fit_rates

RECORDED = Path(__file__).with_name("recorded_xeon.json")
"""Written by `lab/check_calibration.py --save`: a calibration, and models measured in the same turns."""


class Recording(msgspec.Struct):
    calibration: Calibration
    checked: list[Point]


@pytest.fixture(scope="module")
def recording() -> Recording:
    return msgspec.json.decode(RECORDED.read_bytes(), type=Recording)


TRUE = Rates(
    types=(
        TypeRate(type="Q4_K", decode_bytes_per_s=12e9, prefill_bytes_per_s=100e9),
        TypeRate(type="Q8_0", decode_bytes_per_s=16e9, prefill_bytes_per_s=200e9),
    ),
    step_s=1e-4,
    operation_s=2e-6,
    row_s=1e-8,
    vocabulary_entry_s=5e-9,
    attention_element_s=1e-10,
    kv_byte_s=2e-10,
    prefill_operation_s=1e-6,
    prefill_attention_element_s=5e-11,
    error=0.0,
)


def demand(kind: str, megabytes: float, operations: int, rows: int, vocabulary: int, depth: int, heads: int) -> Demand:
    return Demand(
        bytes_by_type={kind: megabytes * 1e6 + vocabulary * 1000},
        layer_bytes_by_type={kind: megabytes * 1e6},
        layers=operations // 9,
        operations=operations,
        rows=rows,
        vocabulary=vocabulary,
        attention_elements=operations * depth * heads * 128,
        kv_bytes=operations * depth * 512,
        depth_tokens=depth,
    )


DEMANDS = [
    demand("Q8_0", 1, 18, 3000, 1000, 1, 4),
    demand("Q8_0", 3, 288, 20_000, 1000, 1, 4),
    demand("Q8_0", 100, 216, 150_000, 1000, 1, 8),
    demand("Q8_0", 120, 18, 40_000, 1000, 1, 16),
    demand("Q8_0", 2, 18, 3000, 260_000, 1, 4),
    demand("Q4_K", 70, 72, 80_000, 1000, 1, 8),
    demand("Q4_K", 60, 216, 150_000, 1000, 1, 8),
    demand("Q8_0", 12, 144, 20_000, 1000, 600, 8),
    demand("Q8_0", 20, 144, 20_000, 1000, 600, 2),
]


def machine(rates: Rates) -> Calibration:
    return Calibration(
        unslow_version="1",
        taken_at="2026-01-01",
        seconds=1.0,
        machine=MachineMark(),
        engine="x",
        engine_version="1",
        backend="cpu",
        device="cpu",
        threads=2,
        rates=rates,
    )


def point(one: Demand) -> Point:
    decode = calibrated_decode(one, machine(TRUE))
    prefill = calibrated_prefill(one, machine(TRUE), 256)
    return Point(
        name="x",
        demand=one,
        samples=9,
        decode_s=decode.seconds.mid,
        typical_s=1.1 * decode.seconds.mid,
        prompt_tokens=256,
        prefill_s=prefill.seconds.mid,
    )


def test_known_costs_are_recovered():
    found = fit_rates([point(one) for one in DEMANDS])
    for name in ("step_s", "operation_s", "row_s", "vocabulary_entry_s", "attention_element_s", "kv_byte_s"):
        assert getattr(found, name) == pytest.approx(getattr(TRUE, name), rel=0.01), name
    for mine, true in zip(found.types, TRUE.types, strict=True):
        assert mine.type == true.type
        assert mine.decode_bytes_per_s == pytest.approx(true.decode_bytes_per_s, rel=0.01)
        assert mine.prefill_bytes_per_s == pytest.approx(true.prefill_bytes_per_s, rel=0.02)
    assert found.error < 0.001


def test_drift_is_the_ratio_of_usual_to_best():
    assert drift_of([point(one) for one in DEMANDS]) == pytest.approx(1.1)
    assert drift_of([]) == 1


def test_too_few_points_give_no_rates():
    assert fit_rates([]) is None
    assert fit_rates([point(one) for one in DEMANDS[:2]]) is None


def test_rates_beyond_any_machine_are_left_out():
    points = [point(one) for one in DEMANDS]
    rates = fit_rates([msgspec.structs.replace(one, decode_s=one.decode_s * 1e-10) for one in points])
    assert msgspec.json.decode(msgspec.json.encode(rates), type=Rates) == rates
    assert not rates.types


def test_points_without_prompts_give_no_prefill_rates():
    points = [msgspec.structs.replace(point(one), prefill_s=0.0) for one in DEMANDS]
    rates = fit_rates(points)
    assert all(rate.prefill_bytes_per_s == 0 for rate in rates.types)
    assert calibrated_prefill(DEMANDS[0], machine(rates), 100) is None


def test_real_machine_is_fitted_within_5_percent(recording):
    rates = fit_rates(recording.calibration.points)
    assert rates.error < 0.05
    assert {"Q4_0", "Q4_1", "Q4_K", "Q5_0", "Q5_K", "Q6_K", "Q8_0", "F16"} <= {rate.type for rate in rates.types}
    assert all(2e9 < rate.decode_bytes_per_s < 60e9 for rate in rates.types)


def test_unmeasured_models_are_predicted_within_10_percent(recording):
    """At their best: the median depends on other load in that minute."""
    again = msgspec.structs.replace(recording.calibration, rates=fit_rates(recording.calibration.points), drift=1.0)
    off = [calibrated_decode(one.demand, again).seconds.mid / one.decode_s - 1 for one in recording.checked]
    assert len(off) == 5
    assert statistics.median(map(abs, off)) <= 0.05
    assert max(map(abs, off)) <= 0.10
