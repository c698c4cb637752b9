import pytest
from hypothesis import given
from hypothesis import strategies as st

from unslow.think.physics.speculative import accepted_tokens, break_even

shares = st.floats(0, 1)
counts = st.integers(1, 16)
seconds = st.floats(1e-5, 1)


def test_accepted_tokens_at_rates_zero_one_and_between() -> None:
    assert accepted_tokens(4, 1.0) == 5
    assert accepted_tokens(4, 0.0) == 1
    assert accepted_tokens(4, 0.7) == pytest.approx(1 + 0.7 + 0.49 + 0.343 + 0.2401)


@given(counts, shares, shares)
def test_higher_acceptance_rate_never_accepts_fewer_tokens(drafted: int, one: float, other: float) -> None:
    low, high = sorted((one, other))
    assert accepted_tokens(drafted, low) <= accepted_tokens(drafted, high) + 1e-9
    assert 1 <= accepted_tokens(drafted, high) <= drafted + 1


@given(counts, seconds, seconds, seconds)
def test_break_even_rate_is_as_fast_as_no_drafting(
    drafted: int, check_s: float, draft_s: float, plain_s: float
) -> None:
    share, step_s = break_even(drafted, check_s, draft_s, plain_s), check_s + drafted * draft_s
    if share is None:
        assert accepted_tokens(drafted, 1.0) / step_s <= 1 / plain_s * (1 + 1e-9)
    elif share > 0:
        assert accepted_tokens(drafted, share) / step_s <= 1 / plain_s * (1 + 1e-6)
        assert accepted_tokens(drafted, min(1.0, share + 0.001)) / step_s >= 1 / plain_s * (1 - 1e-6)
