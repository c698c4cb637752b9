import pytest
from hypothesis import given
from hypothesis import strategies as st

from unslow.facts.bench import Pass
from unslow.think.stats.users import Burst, burst_of, median_burst


def passed(started_s: float, first_s: float, last_s: float, tokens: int = 101) -> Pass:
    return Pass(
        case="users", round=1, started_s=started_s, asked_tokens=tokens, prompt_tokens=10, generated_tokens=tokens,
        client_first_token_s=first_s, client_last_token_s=last_s, client_total_s=last_s,
    )  # fmt: skip


def test_throughput_counts_the_time_when_all_are_answered():
    burst = burst_of([passed(0, 1, 11), passed(0, 2, 12)])
    assert burst == Burst(20.0, 2, whole=True)


def test_two_waves_show_half_at_once():
    burst = burst_of([passed(0, 1, 11), passed(0, 1, 11), passed(0, 11.5, 21.5), passed(0, 11.5, 21.5)])
    assert burst is not None
    assert burst.at_once == 2
    assert burst.together == pytest.approx(400 / 20.5)


def test_sequential_answers_are_one_at_once():
    burst = burst_of([passed(0, 1, 11), passed(0, 11, 21)])
    assert burst is not None
    assert burst.at_once == 1
    assert burst.together == pytest.approx(10.0)


def test_brief_overlap_is_not_a_steady_period():
    burst = burst_of([passed(0, 1, 11), passed(0, 10.9, 20.9)])
    assert burst is not None
    assert not burst.whole
    assert burst.together == pytest.approx(200 / 19.9)


def test_single_chunk_answers_give_no_burst():
    assert burst_of([passed(0, 1, 1)]) is None
    assert burst_of([]) is None


spans = st.tuples(st.floats(0, 5), st.floats(0.1, 5), st.floats(0.1, 20)).map(lambda t: passed(t[0], t[1], t[1] + t[2]))


@pytest.mark.no_cover  # many bursts through the same lines
@given(st.lists(spans, min_size=1, max_size=20))
def test_burst_is_never_faster_than_the_sum_of_answers(passes: list[Pass]):
    burst = burst_of(passes)
    assert burst is not None
    most = sum(100 / (one.client_last_token_s - one.client_first_token_s) for one in passes)
    assert 0 < burst.together <= most * (1 + 1e-9)
    assert 1 <= burst.at_once <= len(passes)


def test_median_burst_is_the_middle_round():
    bursts = [Burst(10, 4, whole=True), Burst(12, 3, whole=True), Burst(11, 4, whole=True)]
    assert median_burst(bursts) == Burst(11, 4, whole=True)
