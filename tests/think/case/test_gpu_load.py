"""Readings of a GPU under load, and what lower clocks explain."""

from cases import gpu_case, with_facts, without
from under_load import at_work

from unslow.think.case.telemetry import explains
from unslow.think.case.view import CaseView


def test_samples_win_over_a_current_reading():
    case = at_work(100.0, now={"busy": 0.9, "clock_hz": 2.5e9}, clock_hz=1.0e9)
    assert [g.at for g in CaseView(case).telemetry.loaded_gpus] == ["run.gpus.0"]
    assert CaseView(case).telemetry.loaded_gpus[0].clock_share == 0.4
    now = CaseView(without(case, "run.gpus")).telemetry.loaded_gpus
    assert [g.at for g in now] == ["machine.gpus.0"]
    assert now[0].clock_share == 1.0


def test_idle_reading_is_ignored():
    assert CaseView(with_facts(gpu_case(), {"machine.gpus.0.busy": 0.05})).telemetry.loaded_gpus == []
    assert CaseView(gpu_case()).telemetry.loaded_gpus == []


def test_clocks_explain_only_a_proportional_loss():
    assert explains(0.5, 2.0)
    assert explains(0.5, 3.5)
    assert not explains(0.87, 5.0)
    assert explains(0.9, None)
