"""Rounds are paired, and measuring stops when the interval is narrow."""

import math
import random

import pytest

from unslow.facts.bench import DECODE, PREFILL
from unslow.facts.verification import REQUEST, Sample
from unslow.think.stats.gain import (
    because_of,
    gain_of,
    is_enough,
    is_look,
    is_steady,
    paired_gain,
    round_levels,
    verdict_of,
)


def samples(rates: list[float], tokens: int = 100) -> list[Sample]:
    return [Sample(round=n, decode_tokens_per_s=r, request_s=tokens / r) for n, r in enumerate(rates, 1)]


def test_several_requests_of_one_start_count_once():
    life = [Sample(round=1, decode_tokens_per_s=rate) for rate in (10.0, 50.0, 11.0)]
    assert round_levels(life, DECODE) == {1: pytest.approx(math.log(11.0))}


def test_shorter_time_is_a_gain():
    before, after = samples([10.0, 10.0]), samples([20.0, 20.0])
    for metric in (REQUEST, DECODE):
        gain = paired_gain(round_levels(before, metric), round_levels(after, metric))
        assert gain == pytest.approx((math.log(2), math.log(2), math.log(2), 2))
    assert paired_gain(round_levels(before, PREFILL), round_levels(after, PREFILL)) is None


def test_only_rounds_of_both_sides_are_paired():
    after = [Sample(round=2, decode_tokens_per_s=20.0), Sample(round=7, decode_tokens_per_s=1.0)]
    gain = paired_gain(round_levels(samples([10.0, 10.0]), DECODE), round_levels(after, DECODE))
    assert gain is not None
    assert gain.pairs == 1
    assert gain.middle == pytest.approx(math.log(2))


def test_interim_looks_are_few():
    assert [rounds for rounds in range(40) if is_look(rounds)] == [6, 9, 14, 21, 32]


def test_quiet_rounds_are_enough_and_noisy_ones_are_not():
    quiet = [10.0, 10.01, 9.99, 10.0, 10.02, 9.98]
    noisy = [10.0, 14.0, 8.0, 12.0, 7.0, 11.0]
    assert is_enough(samples(quiet), samples(quiet[::-1]))
    assert not is_enough(samples(quiet), samples(noisy))
    assert not is_enough(samples(quiet[:5]), samples(quiet[:5]))
    assert is_steady(samples(quiet))
    assert not is_steady(samples(noisy))


def test_large_gain_needs_less_precision():
    before, after = samples([10.0, 10.2, 9.8, 10.1, 9.9, 10.0]), samples([30.0, 32.0, 29.0, 30.0, 31.0, 28.5])
    assert is_enough(before, after)


def judged(truth: float, noise: float, dice: random.Random) -> str:
    before: list[Sample] = []
    after: list[Sample] = []
    while not is_enough(before, after) and len(before) < 21:
        number = len(before) + 1
        before.append(Sample(round=number, request_s=dice.lognormvariate(0, noise)))
        after.append(Sample(round=number, request_s=dice.lognormvariate(-math.log(truth), noise)))
    gain = paired_gain(round_levels(before, REQUEST), round_levels(after, REQUEST))
    assert gain is not None
    return verdict_of(gain)


@pytest.mark.parametrize("noise", [0.01, 0.05])
def test_stopping_early_makes_few_false_verdicts(noise):
    dice = random.Random(17)
    verdicts = [judged(1.0, noise, dice) for _ in range(120)]
    assert sum(one in ("faster", "slower") for one in verdicts) <= 0.1 * 120


def test_real_gains_and_losses_are_found():
    dice = random.Random(3)
    assert [judged(1.3, 0.03, dice) for _ in range(30)] == ["faster"] * 30
    assert [judged(0.8, 0.03, dice) for _ in range(30)] == ["slower"] * 30


def test_same_verdict_needs_a_narrow_interval(wording):
    assert verdict_of(gain_of([0.01, 0.012, 0.011, 0.009, 0.01, 0.01])) == "same"  # sure, and nobody feels it
    wide = gain_of([0.1, -0.1, 0.05, -0.05, 0.02, -0.03])
    assert verdict_of(wide) == "cannot_tell"
    wording(because_of(wide, "cannot_tell"))


def test_reason_contains_the_numbers(wording):
    assert "×3.00" in because_of(gain_of([math.log(3)] * 6), "faster")
    assert "one round" in because_of(gain_of([0.2]), "cannot_tell")
    wording(because_of(gain_of([0.0] * 6), "same"), tells="+0.0%")
