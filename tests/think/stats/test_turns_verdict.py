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


def test_computing_only_new_tokens_is_cached(wording):
    found = judge_turns(told(WHOLES, [1000, 131, 131, 131]))
    assert found.verdict == "cached"
    wording(found.because, tells=("131", "1360"))


def test_paged_cache_blocks_are_not_a_loss():
    assert judge_turns(told(WHOLES, [1000, 180 + 64, 180 + 64, 180 + 32])).verdict == "cached"


def test_recomputing_everything_is_reprocessed_with_its_cost(wording):
    found = judge_turns(told(WHOLES, [1000, 1180, 1360, 1540])[:3] + told([1540], [1539]))
    assert found.verdict == "reprocessed"
    wording(found.because, tells="2.36 s")


def test_occasionally_lost_cache_is_partly(wording):
    found = judge_turns(told(WHOLES, [1000, 131, 1360, 131]))
    assert found.verdict == "partly"
    wording(found.because, tells=("1 of 3", "1180 of 1180"))


def test_recomputing_half_at_every_turn_is_partly():
    assert judge_turns(told(WHOLES, [1000, 680, 790, 900])).verdict == "partly"


def test_client_times_decide_without_server_counts():
    assert judge_turns(by_clock(WHOLES, [1000, 180, 180, 180])).verdict == "cached"
    assert judge_turns(by_clock(WHOLES, WHOLES)).verdict == "reprocessed"


def test_ambiguous_client_times_give_cannot_tell(wording):
    found = judge_turns(by_clock(WHOLES, [1000, 680, 770, 860]))
    assert found.verdict == "cannot_tell"
    wording(found.because)


def test_too_fast_prefill_gives_cannot_tell(wording):
    found = judge_turns([Turn(w, w, 0.02) for w in WHOLES])
    assert found.verdict == "cannot_tell"
    wording(found.because)


@pytest.mark.parametrize("turns", [[], told([1000], [1000]), [Turn(0, 0, 1.0), Turn(0, 0, 1.0)]])
def test_fewer_than_two_turns_give_cannot_tell(turns):
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
def test_arbitrary_turns_give_a_verdict(turns):
    found = judge_turns(turns)
    assert found.because
