import pytest
from doubles import FakeSystem

from unslow.facts.values import Origin
from unslow.look.bench.trials.several_requests import SaidTurn, timed_turns, turns_of
from unslow.look.bench.trials.single_requests import Asker
from unslow.look.requests import Plan, Target
from unslow.look.system import LookError


def asker(shortest_s: float = 0.0) -> Asker:
    one = Asker(FakeSystem(), Target("http://127.0.0.1:8080"), Plan())
    one.shortest_first_s = shortest_s
    return one


def said(whole: int, computed: int = 0, first_s: float = 1.0, *, is_told: bool = True) -> SaidTurn:
    return SaidTurn(whole, computed, first_s, is_told=is_told)


def test_new_tokens_of_a_turn_are_those_beyond_the_previous_turn():
    turns = turns_of(asker(), [said(1000, 1000), said(1150, 152), said(1300, 1300)])
    assert turns.origin is Origin.MEASURED
    assert [(t.prompt_tokens, t.new_tokens, t.computed_tokens) for t in turns.need()] == [
        (1000, 1000, 1000),
        (1150, 150, 152),
        (1300, 150, 1300),
    ]


def test_one_turn_with_cached_tokens_makes_all_turns_measured():
    told = [said(1000, 1000, is_told=False), said(1150, 150), said(1300, 1300, is_told=False)]
    assert turns_of(asker(), told).origin is Origin.MEASURED


def test_without_cached_tokens_turns_are_estimated_from_times():
    untold = [said(1000, 1000, 1.1, is_told=False), said(1150, 1150, 0.25, is_told=False)]
    turns = turns_of(asker(0.1), untold)
    assert turns.origin is Origin.ESTIMATED
    assert [turn.computed_tokens for turn in turns.need()] == [1000, 150]


def test_computed_tokens_from_times_stay_between_zero_and_the_prompt():
    assert timed_turns([said(1000, first_s=1.1), said(1150, first_s=9.0), said(1300, first_s=0.05)], 0.1) == [
        1000,
        1150,
        0,
    ]


@pytest.mark.parametrize(("first_s", "shortest_s"), [(0.015, 0.0), (0.12, 0.1), (0.1, 0.2)])
def test_turns_too_fast_to_time_are_a_look_error(first_s, shortest_s):
    with pytest.raises(LookError, match="too fast") as caught:
        timed_turns([said(1000, first_s=first_s)], shortest_s)
    assert "--enable-prompt-tokens-details" in caught.value.how_to_get
