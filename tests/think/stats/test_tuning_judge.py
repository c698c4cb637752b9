"""The verdict on measured candidates: which wins, and how certain that is."""

import math
import random

import pytest

from unslow.facts.verification import Sample, Work
from unslow.think.plan.report import ChangeShown, SpeedShown
from unslow.think.speed.report import RateShown
from unslow.think.stats.tuning import (
    TUNE_STATUS,
    CandidateFigures,
    Halving,
    TuneContext,
    TuneReport,
    judge_tuning,
    winner_of,
)
from unslow.think.stats.tuning_candidates import Candidate, Candidates

TOLD = TuneContext("0.1", "a model", "a machine", "llama-server", Work(), 2048)


def speed(request_s: float) -> SpeedShown:
    rate = RateShown(low=request_s / 2, mid=request_s, high=request_s * 2)
    return SpeedShown(decode_tokens_per_s=rate, prefill_tokens_per_s=rate, request_s=rate)


def reported(
    request_s: list[float],
    noise: float = 0.002,
    rounds: int = 8,
    plan: int | None = 1,
    failed: tuple[int, ...] = (),
    stall_s: float = 0.0,
) -> TuneReport:
    """Candidates that all were measured in every round."""
    kinds = ["default", "plan", *["neighbour"] * len(request_s)]
    dice, halving = random.Random(5), Halving(len(request_s), 1000.0)
    for index in failed:
        halving.fail(index, 1.0, "out of memory")
    for index in halving.alive:
        for number in range(1, rounds + 1):
            halving.levels[index][number] = -math.log(request_s[index]) + dice.gauss(0, noise)
            halving.took_s[index].append(3.0)
    if stall_s:
        halving.took_s[1].append(stall_s)
    settings = (ChangeShown(knob="threads", value=2),)
    every = [Candidate(f"c{n}", kinds[n], settings, speed(2.0) if n == 1 else None) for n in range(len(request_s))]
    sample = Sample(round=1, decode_tokens_per_s=50.0, prefill_tokens_per_s=None, request_s=1.0)
    measured = [CandidateFigures(f"llama-server -t {n}", (sample,), (0.5, 1.5)) for n in range(len(request_s))]
    return judge_tuning(Candidates(tuple(every), plan), measured, halving, TOLD)


def test_faster_candidate_wins_with_interval_and_command() -> None:
    report = reported([3.0, 2.5, 2.0])
    assert (report.verdict, report.winner, TUNE_STATUS[report.verdict]) == ("faster", 2, 0)
    assert report.command == "llama-server -t 2"
    assert report.over_default
    assert report.over_plan
    assert report.over_default.low < 1.5 < report.over_default.high
    assert report.over_default.high - report.over_default.low < 0.02
    assert report.over_plan.mid == pytest.approx(1.25, rel=0.01)
    assert "best of 3" in report.because


def test_trials_contain_every_measurement() -> None:
    trial = reported([3.0, 2.5, 2.0], rounds=7).trials[1]
    assert (trial.rounds, trial.seconds, trial.start_s, trial.decode_tokens_per_s) == (7, 21.0, 1.0, 50.0)
    assert trial.prefill_tokens_per_s is None
    assert trial.measured_over_predicted == pytest.approx(1.25, rel=0.01)
    assert trial.request_s
    assert trial.request_s.low <= 2.5 <= trial.request_s.high * 1.01
    assert trial.over_default
    assert trial.over_default.mid == pytest.approx(1.2, rel=0.01)
    assert trial.settings[0].knob == "threads"


def test_plan_wins_where_noise_hides_a_small_gain() -> None:
    report = reported([3.0, 2.0, 2.06], rounds=3, noise=0.015)
    assert (report.winner, report.verdict) == (1, "faster")


def test_plan_wins_where_the_difference_is_negligible() -> None:
    report = reported([3.0, 2.0, 1.99])
    assert (report.winner, report.over_plan) == (1, None)
    assert report.verdict == "faster"


def test_default_wins_where_the_difference_is_negligible() -> None:
    report = reported([2.0, 1.99, 2.5])
    assert (report.verdict, report.winner, report.over_default) == ("default_is_best", 0, None)
    assert TUNE_STATUS[report.verdict] == 0


def test_noise_gives_cannot_tell(wording) -> None:
    faster = reported([2.0, 2.4, 1.9], noise=0.3)
    assert (faster.verdict, TUNE_STATUS[faster.verdict]) == ("cannot_tell", 3)
    fastest = reported([1.7, 2.0, 2.1], noise=0.2)
    assert fastest.winner == 0
    assert fastest.verdict == "cannot_tell"
    wording(fastest.because)


def test_one_round_gives_cannot_tell(wording) -> None:
    report = reported([2.0, 3.0], rounds=1)
    assert report.verdict == "cannot_tell"
    wording(report.because)


def test_default_that_does_not_start_is_beaten(wording) -> None:
    report = reported([2.0, 3.0], failed=(0,))
    assert (report.verdict, report.winner, report.over_default) == ("faster", 1, None)
    wording(report.because)
    assert (report.trials[0].dropped, report.trials[0].dropped_in_round) == ("out of memory", 1)


def test_no_winner_where_nothing_ran() -> None:
    report = reported([2.0, 3.0], failed=(0, 1))
    assert (report.verdict, report.winner, report.command, TUNE_STATUS[report.verdict]) == ("failed", None, "", 1)
    assert "out of memory" in report.because
    assert winner_of(Halving(0, 1.0), None) is None


def test_stalled_round_is_noted(wording) -> None:
    assert reported([2.0, 3.0]).notes == ()
    assert reported([2.0, 3.0], stall_s=20.0).notes == ()
    wording(reported([2.0, 3.0], stall_s=160.0).notes, tells=("c1", "160 s", "3 s"))


@pytest.mark.parametrize(("others", "rounds"), [(1, 6), (5, 4), (11, 12), (11, 40)])
def test_best_of_many_equal_candidates_is_rarely_called_faster(others: int, rounds: int) -> None:
    """Eleven are as fast as the default: one of them looks faster, so its interval must be wider."""
    dice, wrong, times = random.Random(others * rounds), 0, 120
    for _ in range(times):
        halving = Halving(others + 1, 1000.0)
        for index in range(others + 1):
            halving.levels[index] = {number: dice.gauss(0, 0.1) for number in range(rounds)}
        best = halving.leader or 0
        gain = halving.best_gain(0, best) if best else None
        wrong += bool(gain and gain.low > 0)
    assert wrong <= 0.1 * times  # 5 of 100, and chance: unwidened, eleven of them are wrong in 20


def test_interval_of_the_best_widens_with_the_number_tried() -> None:
    few, many = (reported([1.0, 0.8, *[1.0] * more], noise=0.02, rounds=10) for more in (1, 10))
    assert few.verdict == many.verdict == "faster"
    assert many.over_default
    assert many.trials[1].over_default
    assert many.over_default.low < many.trials[1].over_default.low
