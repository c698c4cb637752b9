import pytest
from cases import cpu_case, gpu_case, with_facts

from unslow.think.contention import crowded, stalled_share, waiting_s
from unslow.think.predict import Prediction, predict


def test_one_waiting_thread_stops_all():
    case = with_facts(cpu_case(), {"run.waiting_for_cpu_s_per_token": 1.0})
    assert stalled_share(case, token_s=1.0) == pytest.approx(0.75)


def test_a_single_thread_waits_as_long_as_it_waits():
    case = with_facts(gpu_case(), {"runtime.threads": 1, "run.waiting_for_cpu_s_per_token": 0.001})
    assert stalled_share(case, token_s=0.01) == pytest.approx(0.1)


def test_no_more_is_blamed_on_waiting_than_is_unexplained():
    case = with_facts(cpu_case(), {"run.waiting_for_cpu_s_per_token": 10.0})
    prediction = predict(case)
    assert isinstance(prediction, Prediction)
    assert waiting_s(case, prediction.seconds.mid, prediction) == 0
    assert waiting_s(case, 1.0, prediction) == pytest.approx(1.0 - prediction.seconds.mid)
    assert waiting_s(case, 1.0, None) == pytest.approx(1.0)


def test_nobody_counted():
    assert stalled_share(gpu_case().__class__(), 1.0) == 0


def test_own_threads_can_be_the_crowd():
    assert crowded(with_facts(cpu_case(), {"runtime.threads": 16}))
    assert not crowded(cpu_case())
