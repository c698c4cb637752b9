import pytest
from hypothesis import given
from hypothesis import strategies as st

from unslow.think.stats.turns import Turn, judge_turns

TOKEN_S = 0.002


def told(wholes: list[int], computed: list[int]) -> list[Turn]:
    return [Turn(w, c, c * TOKEN_S + 0.02, c * TOKEN_S) for w, c in zip(wholes, computed, strict=True)]


def by_clock(wholes: list[int], read: list[int], overhead_s: float = 0.03) -> list[Turn]:
    """A server that counts every prompt as computed, whatever its cache had."""
    return [Turn(w, w, r * TOKEN_S + overhead_s) for w, r in zip(wholes, read, strict=True)]


WHOLES = [1000, 1180, 1360, 1540]


def test_only_what_is_new(wording):
    found = judge_turns(told(WHOLES, [1000, 131, 131, 131]))
    assert found.verdict == "cached"
    wording(found.because, tells=("131", "1360"))


def test_blocks_of_a_paged_cache_are_no_loss():
    assert judge_turns(told(WHOLES, [1000, 180 + 64, 180 + 64, 180 + 32])).verdict == "cached"


def test_everything_again_with_its_price(wording):
    found = judge_turns(told(WHOLES, [1000, 1180, 1360, 1540])[:3] + told([1540], [1539]))
    assert found.verdict == "reprocessed"
    wording(found.because, tells="2.36 s")


def test_a_cache_that_is_lost_now_and_then(wording):
    found = judge_turns(told(WHOLES, [1000, 131, 1360, 131]))
    assert found.verdict == "partly"
    wording(found.because, tells=("1 of 3", "1180 of 1180"))


def test_half_of_it_again_at_every_turn():
    assert judge_turns(told(WHOLES, [1000, 680, 790, 900])).verdict == "partly"


def test_the_clock_tells_where_the_server_does_not():
    assert judge_turns(by_clock(WHOLES, [1000, 180, 180, 180])).verdict == "cached"
    assert judge_turns(by_clock(WHOLES, WHOLES)).verdict == "reprocessed"


def test_a_clock_in_between_tells_nothing(wording):
    found = judge_turns(by_clock(WHOLES, [1000, 680, 770, 860]))
    assert found.verdict == "cannot_tell"
    wording(found.because)


def test_prompts_that_are_read_in_no_time_tell_nothing(wording):
    found = judge_turns([Turn(w, w, 0.02) for w in WHOLES])
    assert found.verdict == "cannot_tell"
    wording(found.because)


@pytest.mark.parametrize("turns", [[], told([1000], [1000]), [Turn(0, 0, 1.0), Turn(0, 0, 1.0)]])
def test_without_two_turns_there_is_nothing_to_say(turns):
    assert judge_turns(turns).verdict == "cannot_tell"


@given(
    st.lists(
        st.builds(
            Turn,
            st.integers(0, 10**6),
            st.integers(0, 10**6),
            st.floats(0, 1e6),
            st.one_of(st.none(), st.floats(0, 1e6)),
        ),
        max_size=8,
    )
)
def test_no_turns_break_it(turns):
    found = judge_turns(turns)
    assert found.because
