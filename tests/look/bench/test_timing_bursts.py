import pytest

from unslow.look.bench.timing import pieces_at_once, stream_delay_s


def bursts(count: int, each: int, pause_s: float) -> list[float]:
    """So many pieces at once, again and again."""
    return [burst * pause_s + piece * 1e-4 for burst in range(count) for piece in range(each)]


def test_a_buffering_gateway_shows_as_held_back_seconds():
    assert stream_delay_s(bursts(3, 65, 16.5), 0.25) == pytest.approx(33.0, abs=0.1)


def test_even_streams_and_a_single_stall_are_not_held_back():
    even = [0.25 * n for n in range(200)]
    assert stream_delay_s(even, 0.25) == 0
    stalled = [0.05 * n + (3.0 if n >= 50 else 0.0) for n in range(100)]
    assert stream_delay_s(stalled, 0.08) == 0


def test_chunks_of_a_speculative_decoding_step_are_not_held_back():
    drafted = [0.6 * step + piece * 1e-4 for step in range(20) for piece in range(9)]
    assert stream_delay_s(drafted, 0.6 / 9) == 0


@pytest.mark.parametrize("arrivals", [[], [1.0], [1.0, 9.0]])
def test_fewer_than_three_chunks_are_never_held_back(arrivals):
    assert stream_delay_s(arrivals, 0.1) == 0


@pytest.mark.parametrize("each", [1, 2, 5])
def test_pieces_of_one_step_are_counted_together(each):
    assert pieces_at_once(bursts(24, each, 0.3)) == each
    uneven = [0.3 * step + 0.02 * (step % 3) for step in range(24)]  # a machine has better and worse moments
    assert pieces_at_once(uneven) == 1


def test_steps_that_accept_some_of_a_draft_give_a_share():
    half = [0.3 * step + piece * 1e-4 for step in range(20) for piece in range(1 + step % 3)]
    assert pieces_at_once(half) == pytest.approx(2, abs=0.1)


def test_a_few_pieces_tell_nothing_of_steps():
    assert pieces_at_once([0.1 * n for n in range(10)]) == 0
