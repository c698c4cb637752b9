import pytest
from hypothesis import given
from hypothesis import strategies as st

from unslow.look.sampler import rows as spans_module
from unslow.look.sampler.rows import MOST_PIECES, SpanUnion

STRETCHES = st.lists(st.tuples(st.integers(0, 200), st.integers(0, 200)), max_size=60)


@given(STRETCHES)
def test_overlapping_spans_count_once(stretches: list[tuple[int, int]]):
    union, seconds = SpanUnion(), set()
    for start, end in stretches:
        union.add(start, end)
        seconds |= set(range(start, end))
    assert union.seconds == pytest.approx(len(seconds))


def test_many_spans_keep_their_sum_in_bounded_memory():
    union = SpanUnion()
    for number in range(10 * MOST_PIECES):
        union.add(number, number + 0.25)
    assert union.seconds == pytest.approx(10 * MOST_PIECES / 4)
    assert len(union._starts) <= MOST_PIECES


def test_merged_old_spans_are_not_counted_again(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(spans_module, "MOST_PIECES", 4)
    union = SpanUnion()
    for number in range(20):
        union.add(number, number + 0.5)
    before = union.seconds
    union.add(0, 3)
    assert union.seconds == before
    assert before == pytest.approx(10.0)
