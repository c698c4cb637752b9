"""Successive halving by its properties: it ends in time, and with the fastest where noise is small."""

import math
import random
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unslow.think.stats.tuning import DroppedCandidate, Halving

START_S, REQUESTS = 1.0, 2
speeds = st.lists(st.floats(0.1, 10.0), min_size=1, max_size=12)


def played(
    halving: Halving, request_s: Sequence[float], noise: float = 0.0, seed: int = 1, broken: Sequence[int] = ()
) -> list[tuple[int, int]]:
    """All turns, each measured as long as it takes with some noise; those that are broken fail."""
    dice, turns = random.Random(seed), []
    while turn := halving.next():
        turns.append(tuple(turn))
        if turn.candidate in broken:
            halving.fail(turn.candidate, START_S, "out of memory")
            continue
        took = [request_s[turn.candidate] * math.exp(dice.gauss(0, noise)) for _ in range(REQUESTS)]
        halving.note(turn.candidate, START_S + sum(took), took)
    return turns


@settings(max_examples=30)
@given(speeds, st.integers(0, 99))
def test_fastest_wins_where_noise_is_small(request_s: list[float], seed: int) -> None:
    spread = [value * 1.05**place for place, value in enumerate(sorted(request_s))]
    random.Random(seed).shuffle(spread)
    halving = Halving(len(spread), budget_s=800.0, seed=seed)
    played(halving, spread, noise=0.002, seed=seed)
    assert halving.leader == spread.index(min(spread))
    assert halving.end in ("one candidate is left", "the remaining candidates are equal", "out of time")


@settings(max_examples=30)
@given(speeds, st.floats(1.0, 150.0), st.floats(0.0, 0.5), st.integers(0, 99))
def test_time_limit_is_exceeded_by_at_most_one_turn(
    request_s: list[float], budget_s: float, noise: float, seed: int
) -> None:
    halving = Halving(len(request_s), budget_s)
    turns = played(halving, request_s, noise, seed)
    longest = max(took for every in halving.took_s for took in every)
    assert halving.spent_s <= budget_s + longest
    assert turns[0] == (0, 1)
    assert set(halving.alive) | set(halving.dropped) == set(range(len(request_s)))
    assert not set(halving.alive) & set(halving.dropped)
    assert all(halving.levels[index] for index in halving.alive)


def test_same_measurements_end_the_same_way() -> None:
    request_s = [3.0, 2.5, 2.9, 2.4, 3.5, 2.45]
    one, other = Halving(6, 200.0, seed=3), Halving(6, 200.0, seed=3)
    assert played(one, request_s, 0.05) == played(other, request_s, 0.05)
    assert (one.leader, one.dropped) == (other.leader, other.dropped)
    assert played(Halving(6, 200.0, seed=4), request_s, 0.05) != played(Halving(6, 200.0, seed=3), request_s, 0.05)


def test_each_round_measures_every_remaining_candidate_once() -> None:
    turns = played(Halving(8, 300.0), [2.0 + index / 5 for index in range(8)], 0.01)
    first = [index for index, number in turns if number == 1]
    assert first == list(range(8))
    for number in range(2, max(number for _, number in turns)):
        of_round = [index for index, n in turns if n == number]
        assert len(of_round) == len(set(of_round))


def test_order_is_shuffled_and_reversed():
    turns = played(Halving(4, 200.0, seed=2), [2.0, 2.1, 2.02, 2.2], 0.3)
    orders = [[index for index, n in turns if n == number] for number in (2, 3, 4, 5)]
    assert all(len(order) >= 3 for order in orders)
    stayed = [[index for index in order if index in orders[3]] for order in orders]
    assert stayed[0] == stayed[1][::-1]
    assert stayed[2] == stayed[3][::-1]
    assert [index for index in orders[0] if index in orders[2]] != orders[2]


def test_slower_half_is_dropped_and_the_default_stays(wording) -> None:
    halving = Halving(9, 100.0)
    played(halving, [5.0, 1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7], 0.05)
    rounds = [len(levels) for levels in halving.levels]
    assert halving.leader == 1
    assert rounds[1] > max(rounds[5:]) == 1
    assert rounds[0] >= 2
    wording(halving.dropped[8].why)


def test_equal_candidates_end_as_alike_and_the_first_leads() -> None:
    halving = Halving(2, 1000.0)
    played(halving, [2.0, 2.0])
    assert (halving.leader, halving.end, halving.spent_s) == (
        0,
        "the remaining candidates are equal",
        pytest.approx(30.0),
    )


def test_failing_candidate_is_dropped_with_the_reason() -> None:
    halving = Halving(3, 100.0)
    played(halving, [2.0, 1.0, 3.0], 0.01, broken=[1])
    assert halving.dropped[1] == DroppedCandidate("out of memory", 1)
    assert halving.leader == 0
    assert halving.took_s[1] == [START_S]


def test_no_leader_where_all_fail() -> None:
    halving = Halving(3, 100.0)
    played(halving, [1.0] * 3, broken=[0, 1, 2])
    assert (halving.leader, halving.alive, halving.end) == (None, [], "nothing ran")
    assert set(halving.dropped) == {0, 1, 2}


def test_candidate_that_fails_later_is_dropped() -> None:
    halving = Halving(2, 100.0)
    for _ in range(2):
        turn = halving.next()
        assert turn
        halving.note(turn.candidate, 1.0, [2.0 - turn.candidate])
    turn = halving.next()
    assert turn
    assert turn.round == 2
    halving.fail(1, 1.0, "gone")
    assert halving.dropped[1].round == 2
    assert halving.leader == 0


def test_short_time_leaves_the_last_candidates_unmeasured() -> None:
    halving = Halving(8, 20.0, references=(0, 1))
    turns = played(halving, [1.0] * 8)
    assert {index for index, _ in turns} == {0, 1, 2}
    assert "--seconds" in halving.dropped[7].why
    assert halving.spent_s <= 20.0


def test_too_short_time_still_measures_one() -> None:
    halving = Halving(3, 1.0)
    assert played(halving, [9.0] * 3) == [(0, 1)]
    assert (halving.leader, halving.end) == (0, "one candidate is left")


def test_interrupted_search_keeps_its_leader() -> None:
    halving = Halving(4, 100.0)
    for seconds in (3.0, 2.0):
        turn = halving.next()
        assert turn
        halving.note(turn.candidate, seconds, [seconds])
    halving.finish("stopped")
    assert (halving.leader, halving.next()) == (1, None)
    assert halving.dropped[3].why == "not measured: stopped"


def test_gain_uses_common_rounds_only() -> None:
    halving = Halving(2, 100.0)
    halving.levels[0].update({1: 0.0, 2: 0.1})
    halving.levels[1].update({2: 0.3, 3: 9.0})
    gain = halving.gain(0, 1)
    assert gain
    assert (gain.pairs, gain.middle) == (1, pytest.approx(0.2))
    halving.levels[1].clear()
    assert halving.gain(0, 1) is None
