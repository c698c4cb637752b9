"""Readings of a GPU at work, and what lower clocks explain."""

from cases import gpu_case, with_facts, without
from under_load import at_work

from unslow.think.case.gpus import explains, loaded_gpus


def test_samples_come_before_a_reading_of_now():
    case = at_work(100.0, now={"busy": 0.9, "clock_hz": 2.5e9}, clock_hz=1.0e9)
    assert [g.at for g in loaded_gpus(case)] == ["run.gpus.0"]
    assert loaded_gpus(case)[0].clock_share == 0.4
    now = loaded_gpus(without(case, "run.gpus"))
    assert [g.at for g in now] == ["machine.gpus.0"]
    assert now[0].clock_share == 1.0


def test_an_idle_reading_says_nothing():
    assert loaded_gpus(with_facts(gpu_case(), {"machine.gpus.0.busy": 0.05})) == []
    assert loaded_gpus(gpu_case()) == []


def test_clocks_explain_a_loss_of_their_own_size():
    assert explains(0.5, 2.0)
    assert explains(0.5, 3.5)
    assert not explains(0.87, 5.0)
    assert explains(0.9, None)
