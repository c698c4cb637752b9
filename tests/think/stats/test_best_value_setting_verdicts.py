"""Verdicts on threads and batch sizes."""

from unslow.facts.machine import Cpu
from unslow.facts.values import reported_fact
from unslow.think.stats.best_value import Sample, judge_batch, judge_threads


def twice(speeds: dict[int, float]) -> list[Sample]:
    return [Sample(value, number, speed * (1 + 0.002 * number)) for value, speed in speeds.items() for number in (1, 2)]


EIGHT = Cpu(physical_cores=reported_fact(4, "test"), logical_cpus=reported_fact(8, "test"))
HYBRID = Cpu(
    physical_cores=reported_fact(8, "test"),
    performance_cores=reported_fact(4, "test"),
    efficiency_cores=reported_fact(4, "test"),
)


def test_decode_and_prefill_threads_are_recommended_separately(wording):
    decode, prefill = twice({1: 5.0, 4: 16.0, 8: 13.0}), twice({1: 50.0, 4: 180.0, 8: 230.0})
    judged = judge_threads(decode, prefill, 8, EIGHT)
    assert (judged.verdict, judged.best) == ("best_found", 4)
    wording(judged.because, tells=("16 tok/s", "13 tok/s", "19%", "-tb 8", "28%"))


def test_current_thread_count_that_is_best_is_kept(wording):
    decode = twice({1: 5.0, 4: 16.0})
    judged = judge_threads(decode, twice({1: 50.0, 4: 180.0}), 4, EIGHT)
    assert (judged.verdict, judged.best) == ("current_is_best", 4)
    assert "physical" not in judged.because
    wording(judged.because)


def test_threads_without_effect_are_flat():
    judged = judge_threads(twice({1: 5.0, 2: 5.0, 4: 5.0}), [], 4)
    assert (judged.verdict, judged.best) == ("flat", 1)


def test_efficiency_cores_are_blamed_for_slow_decode(wording):
    judged = judge_threads(twice({4: 16.0, 8: 13.0}), [], 8, HYBRID)
    wording(judged.because)


def test_threads_without_samples_give_cannot_tell(wording):
    assert judge_threads([], [], None).verdict == "cannot_tell"
    wild = [Sample(1, 1, 10.0), Sample(2, 1, 30.0), Sample(1, 2, 30.0), Sample(2, 2, 10.0)]
    judged = judge_threads(wild, [], None)
    assert judged.verdict == "cannot_tell"
    wording(judged.because)


def test_batch_size_is_recommended_at_its_knee(wording):
    prefill = twice({64: 100.0, 128: 180.0, 256: 220.0, 512: 221.0})
    judged = judge_batch("ubatch", prefill, 64, {64: 1.0e9, 256: 1.1e9, 512: 1.3e9})
    assert (judged.verdict, judged.best, judged.knee) == ("best_found", 256, 256)
    wording(judged.because, tells=("256", "64", "55%", "200 MB", "100 MB"))


def test_batch_size_without_effect_is_flat(wording):
    judged = judge_batch("batch", twice({64: 100.0, 128: 100.5}), 128, {})
    assert judged.verdict == "flat"
    wording(judged.because, tells=("64", "128"))


def test_current_batch_size_that_is_best_is_kept():
    judged = judge_batch("batch", twice({64: 100.0, 128: 200.0}), 128, {})
    assert judged.verdict == "current_is_best"
    assert "nothing is gained" not in judged.because


def test_batch_without_samples_gives_cannot_tell():
    assert judge_batch("batch", [], None, {}).verdict == "cannot_tell"
