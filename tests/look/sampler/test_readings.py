from math import isnan, nan

import pytest

from unslow.look.sampler.readings import MOST_ROUNDS, Rate, Reader, Reading
from unslow.look.system import LookError


class Meter:
    """A clock that moves by what a reading says that it cost."""

    def __init__(self) -> None:
        self.now = 0.0
        self.reads = 0

    def reading(self, cost_s: float, name: str = "it", every_s: float = 0.0) -> Reading:
        def read(_now: float) -> tuple[float]:
            self.now += cost_s
            self.reads += 1
            return (self.reads,)

        return Reading(name, ("value",), read, every_s=every_s)

    def reader(self, *readings: Reading) -> Reader:
        return Reader("test", readings, lambda: self.now, lambda: self.now, 0.1, 0.001)


def test_expensive_readings_are_read_less_often():
    for cost_s, reads in ((1e-5, 100), (1.9e-4, 50), (9.9e-4, 10), (5.0, 1)):
        meter = Meter()
        reader = meter.reader(meter.reading(cost_s))
        for number in range(100):
            reader.round(number)
        assert meter.reads == pytest.approx(reads, abs=1), cost_s


def test_one_slow_reading_does_not_lower_its_rate():
    meter, costs = Meter(), iter([1e-5] * 10 + [0.5] + [1e-5] * 89)

    def read(_now: float) -> tuple[float]:
        meter.now += next(costs)
        meter.reads += 1
        return (1.0,)

    reader = meter.reader(Reading("it", ("value",), read))
    for number in range(100):
        reader.round(number)
    assert meter.reads == 100


def test_readings_of_the_same_interval_are_read_in_the_same_round():
    meter = Meter()
    rounds: list[int] = []
    readings = [meter.reading(1e-6, "a", 0.5), meter.reading(1e-6, "b", 0.5)]
    reader = meter.reader(*readings)
    for number in range(20):
        before = meter.reads
        reader.round(number)
        if meter.reads > before:
            rounds.append(number)
            assert meter.reads == before + 2
    assert rounds == [0, 5, 10, 15]


def test_a_value_is_taken_once():
    meter = Meter()
    reader = meter.reader(meter.reading(1e-6))
    reader.round(0)
    assert reader.take() == [1.0]
    assert isnan(reader.take()[0])


@pytest.mark.parametrize("error", [LookError("gone"), OSError("gone"), ValueError("gone"), KeyError("gone")])
def test_a_failing_source_is_named_retried_rarely_and_does_not_delay_others(error: Exception):
    tried: list[int] = []
    meter = Meter()

    def fail(_now: float) -> tuple[float]:
        tried.append(1)
        raise error

    reader = meter.reader(Reading("broken", ("bad",), fail), meter.reading(1e-6))
    for number in range(1000):
        reader.round(number)
        assert reader.take()[1] == number + 1
    assert "gone" in reader.unread["broken"]
    assert len(tried) <= 6 + 1000 / MOST_ROUNDS + 1


def test_a_recovered_source_is_read_again():
    answers = iter([LookError("not now"), LookError("not now"), (7.0,), (8.0,), (9.0,)])

    def read(_now: float) -> tuple[float]:
        answer = next(answers, (10.0,))
        if isinstance(answer, LookError):
            raise answer
        return answer

    meter = Meter()
    reader = meter.reader(Reading("it", ("value",), read))
    reader.round(0)
    assert reader.unread == {"it": "not now"}
    for number in range(1, 10):
        reader.round(number)
    assert reader.unread == {}


def test_a_reading_of_wrong_length_or_infinity_has_no_value(wording):
    meter = Meter()
    reader = meter.reader(
        Reading("short", ("a", "b"), lambda _now: (1.0,)), Reading("endless", ("c",), lambda _now: (float("inf"),))
    )
    reader.round(0)
    assert all(isnan(value) for value in reader.take())
    assert list(reader.unread) == ["short"]
    wording(reader.unread["short"], tells=("1", "2"))


def test_a_rate_is_counter_growth_over_time():
    rate = Rate()
    assert isnan(rate(100, 1.0))
    assert rate(150, 1.5) == 100.0
    assert rate(150, 2.0) == 0.0
    assert isnan(rate(10, 2.5))  # the counter began anew
    assert isnan(rate(20, 2.5))  # no time has passed
    assert isnan(rate(nan, 3.0))


def test_a_wrapped_counter_gives_the_right_rate():
    rate = Rate(wraps_at=2**32)
    rate(2**32 - 10, 0.0)
    assert rate(10, 1.0) == 20.0
