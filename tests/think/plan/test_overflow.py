"""More than a GPU holds: gains are relative to the measured speed."""

import pytest

from unslow.facts.machine import Cpu, Machine
from unslow.facts.snapshot import Case
from unslow.facts.values import GIB, reported_fact
from unslow.think.case.view import CaseView
from unslow.think.fit.report import MemoryShown
from unslow.think.plan.goal import Goal
from unslow.think.plan.report import ChangeShown, OptionShown, PlanReport, QualityShown, SpeedShown
from unslow.think.plan.running import UNPRICED, by_measurement, has_unpriced, is_far_below, overflows
from unslow.think.speed.report import RateShown


def option(speed: float, measured: float | None = None, lacking: int = 0) -> OptionShown:
    rate = RateShown(low=0.8 * speed, mid=speed, high=1.2 * speed)
    held = MemoryShown(
        name="card", weights_bytes=0, kv_bytes=0, compute_bytes=0, total_bytes=8 * GIB, free_bytes=0, fits=not lacking,
        lacking_bytes=lacking,
    )  # fmt: skip
    return OptionShown(
        name="one", quant="Q4_K_M", context=4096, changes=(), quality=QualityShown(perplexity_increase=None),
        speed=SpeedShown(decode_tokens_per_s=rate, prefill_tokens_per_s=rate, request_s=rate), devices=(held,),
        measured_tokens_per_s=measured, speedup=0.5,
    )  # fmt: skip


def report(*options: OptionShown) -> PlanReport:
    return PlanReport(
        unslow_version="0", model="m", runtime="llama.cpp", machine="here", goal=Goal(4096).goal_shown(),
        verdict="already_best", recommended=0, options=options,
    )  # fmt: skip


def test_overflow_needs_missing_memory_and_low_speed() -> None:
    assert overflows(CaseView(Case()), option(40, 4, GIB))
    assert not overflows(CaseView(Case()), option(40, 38, GIB))
    assert not overflows(CaseView(Case()), option(40, 4))
    assert not overflows(CaseView(Case()), option(40, None, GIB))
    assert is_far_below(option(40, 4))
    assert not is_far_below(option(40, 30))


def test_gains_are_relative_to_the_measured_speed() -> None:
    found = by_measurement(report(option(20)), option(40, 4, GIB))
    assert found.options[0].speedup == pytest.approx(5)
    assert found.verdict == "better"
    assert found.current is not None
    assert found.current.speed is None
    assert "the measured one" in found.notes[-1]


def test_equal_speed_is_already_best() -> None:
    assert by_measurement(report(option(4)), option(40, 4, GIB)).verdict == "already_best"


@pytest.mark.parametrize(
    ("knob", "was", "counts"),
    [
        ("split_mode", "row", True), ("flash_attention", False, True), ("tensor_override", "output=CPU", True),
        ("kv_cache_type", "q5_1", True), ("kv_cache_type", "q8_0", False), ("threads", 24, True), ("threads", 4, False),
        ("gpu_layers", 20, False),
    ],
)  # fmt: skip
def test_unpriced_settings_count_where_the_server_is_far_slower(knob: str, was: object, counts: bool) -> None:
    case = Case(machine=Machine(cpu=Cpu(performance_cores=reported_fact(8, "test"))))
    changes = [ChangeShown(knob=knob, value=None, was=was)]  # type: ignore[arg-type]
    assert has_unpriced(CaseView(case), option(40, 4), changes) is counts
    assert not has_unpriced(CaseView(case), option(40, 39), changes)
    assert by_measurement(report(option(20)), option(40, 4), UNPRICED).notes[-1] == UNPRICED
