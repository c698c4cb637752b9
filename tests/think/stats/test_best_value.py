"""The best value of a setting, from simulated series with a known optimum."""

import random

import pytest

from unslow.think.stats.best_value import Sample, choose_value, contenders, is_clear, verdict_of


def simulated(truth: dict[int, float], rounds: int, noise: float, seed: int, drift: float = 0.0) -> list[Sample]:
    """Runs in rounds; a round as a whole may be slower than another."""
    chance = random.Random(seed)
    found = []
    for number in range(1, rounds + 1):
        slow = chance.lognormvariate(0, drift)
        found += [Sample(v, number, speed * slow * chance.lognormvariate(0, noise)) for v, speed in truth.items()]
    return found


PEAK = {1: 5.0, 2: 9.5, 4: 16.0, 8: 13.0}
LEVEL = {64: 200.0, 128: 200.0, 256: 200.0, 512: 200.0}


def test_clear_peak_is_found():
    choice = choose_value(simulated(PEAK, 3, 0.02, seed=1))
    assert choice.best == choice.fastest == 4
    assert choice.leaders == (4,)
    assert choice.behind(8) == pytest.approx(1 - 13 / 16, abs=0.05)
    assert verdict_of(choice, current=8) == "best_found"
    assert verdict_of(choice, current=4) == "current_is_best"
    assert verdict_of(choice, current=None) == "best_found"
    assert is_clear(choice)


def test_slow_rounds_do_not_decide():
    """Rounds differ by a third, runs within a round by 1%."""
    for seed in range(20):
        assert choose_value(simulated(PEAK, 3, 0.01, seed, drift=0.3)).leaders == (4,)


def test_noise_alone_is_flat():
    verdicts = [verdict_of(choose_value(simulated(LEVEL, 3, 0.03, seed)), current=512) for seed in range(100)]
    assert verdicts.count("best_found") <= 10
    assert verdicts.count("flat") >= 70


def test_smallest_of_equals_is_recommended():
    truth = {64: 100.0, 128: 180.0, 256: 220.0, 512: 221.0, 1024: 220.0}
    choice = choose_value(simulated(truth, 3, 0.005, seed=3))
    assert choice.leaders == (256, 512, 1024)
    assert choice.best == 256
    assert verdict_of(choice, current=512) == "current_is_best"
    assert verdict_of(choice, current=64) == "best_found"


def test_clearly_slow_values_need_no_second_round():
    samples = simulated(PEAK, 1, 0.01, seed=5) + [
        Sample(s.value, s.round + 1, s.speed) for s in simulated({4: 16.0, 8: 13.0}, 2, 0.01, seed=6)
    ]
    choice = choose_value(samples)
    assert choice.leaders == (4,)
    assert set(choice.speeds) == {1, 2, 4, 8}


def test_too_few_samples_give_cannot_tell():
    assert choose_value([]) is None
    assert choose_value(simulated(PEAK, 1, 0.01, seed=1)) is None
    assert choose_value(simulated({4: 1.0}, 5, 0.01, seed=1)) is None
    assert verdict_of(None, 4) == "cannot_tell"
    assert not is_clear(None)


def test_noisy_samples_give_cannot_tell():
    wild = [Sample(1, 1, 10.0), Sample(2, 1, 30.0), Sample(1, 2, 30.0), Sample(2, 2, 10.0)]
    assert verdict_of(choose_value(wild), 1) == "cannot_tell"


def test_contenders_are_close_to_the_fastest():
    samples = simulated({1: 10.0, 2: 19.0, 3: 20.0, 4: 18.5, 8: 12.0}, 1, 0.0, seed=1)
    assert contenders(samples, (), 0.15, 4) == [2, 3, 4]
    assert contenders(samples, (8, 99), 0.15, 1) == [2, 3, 8]
    assert contenders(samples, (), 0.0, 4) == [2, 3]
