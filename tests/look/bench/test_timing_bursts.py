import pytest

from unslow.look.bench.timing import held_back_s


def bursts(count: int, each: int, pause_s: float) -> list[float]:
    """So many pieces at once, again and again."""
    return [burst * pause_s + piece * 1e-4 for burst in range(count) for piece in range(each)]


def test_a_gateway_that_collects_kilobytes():
    assert held_back_s(bursts(3, 65, 16.5), 0.25) == pytest.approx(33.0, abs=0.1)


def test_an_even_stream_and_one_that_pauses_by_itself():
    even = [0.25 * n for n in range(200)]
    assert held_back_s(even, 0.25) == 0
    stalled = [0.05 * n + (3.0 if n >= 50 else 0.0) for n in range(100)]
    assert held_back_s(stalled, 0.08) == 0


def test_steps_that_give_a_handful_at_once_are_no_bursts():
    drafted = [0.6 * step + piece * 1e-4 for step in range(20) for piece in range(9)]
    assert held_back_s(drafted, 0.6 / 9) == 0


@pytest.mark.parametrize("arrivals", [[], [1.0], [1.0, 9.0]])
def test_too_few_pieces_tell_nothing(arrivals):
    assert held_back_s(arrivals, 0.1) == 0
