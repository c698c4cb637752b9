"""What is said of threads and batches."""

from unslow.facts.machine import Cpu
from unslow.facts.values import reported
from unslow.think.stats.best_value import Sample, judge_batch, judge_threads


def twice(speeds: dict[int, float]) -> list[Sample]:
    return [Sample(value, number, speed * (1 + 0.002 * number)) for value, speed in speeds.items() for number in (1, 2)]


EIGHT = Cpu(physical_cores=reported(4, "test"), logical_cpus=reported(8, "test"))
HYBRID = Cpu(
    physical_cores=reported(8, "test"), performance_cores=reported(4, "test"), efficiency_cores=reported(4, "test")
)


def test_threads_for_generating_and_for_reading(wording):
    decode, prefill = twice({1: 5.0, 4: 16.0, 8: 13.0}), twice({1: 50.0, 4: 180.0, 8: 230.0})
    judged = judge_threads(decode, prefill, 8, EIGHT)
    assert (judged.verdict, judged.best) == ("best_found", 4)
    wording(judged.because, tells=("16 tok/s", "13 tok/s", "19%", "-tb 8", "28%"))


def test_threads_that_are_right_already(wording):
    decode = twice({1: 5.0, 4: 16.0})
    judged = judge_threads(decode, twice({1: 50.0, 4: 180.0}), 4, EIGHT)
    assert (judged.verdict, judged.best) == ("current_is_best", 4)
    assert "physical" not in judged.because
    wording(judged.because)


def test_threads_that_make_no_difference():
    judged = judge_threads(twice({1: 5.0, 2: 5.0, 4: 5.0}), [], 4)
    assert (judged.verdict, judged.best) == ("flat", 1)


def test_slow_cores_hold_up_the_fast_ones(wording):
    judged = judge_threads(twice({4: 16.0, 8: 13.0}), [], 8, HYBRID)
    wording(judged.because)


def test_threads_with_nothing_to_go_by(wording):
    assert judge_threads([], [], None).verdict == "cannot_tell"
    wild = [Sample(1, 1, 10.0), Sample(2, 1, 30.0), Sample(1, 2, 30.0), Sample(2, 2, 10.0)]
    judged = judge_threads(wild, [], None)
    assert judged.verdict == "cannot_tell"
    wording(judged.because)


def test_a_batch_and_its_knee(wording):
    prefill = twice({64: 100.0, 128: 180.0, 256: 220.0, 512: 221.0})
    judged = judge_batch("ubatch", prefill, 64, {64: 1.0e9, 256: 1.1e9, 512: 1.3e9})
    assert (judged.verdict, judged.best, judged.knee) == ("best_found", 256, 256)
    wording(judged.because, tells=("256", "64", "55%", "200 MB", "100 MB"))


def test_a_batch_that_makes_no_difference(wording):
    judged = judge_batch("batch", twice({64: 100.0, 128: 100.5}), 128, {})
    assert judged.verdict == "flat"
    wording(judged.because, tells=("64", "128"))


def test_a_batch_that_is_right_already():
    judged = judge_batch("batch", twice({64: 100.0, 128: 200.0}), 128, {})
    assert judged.verdict == "current_is_best"
    assert "nothing is gained" not in judged.because


def test_batches_with_nothing_to_go_by():
    assert judge_batch("batch", [], None, {}).verdict == "cannot_tell"
