import pytest

from unslow.fleet.capacity.limits import DOUBT, At, beyond


def points(*pairs, wide=1.05):
    return [At(n, s / wide, s, s * wide, 20) for n, s in pairs]


LINE = points(*((n, 0.010 + 0.001 * n) for n in (1.0, 2.0, 4.0, 8.0)))


def test_inside_it_is_what_was_measured():
    assert beyond(LINE).seconds(4.0) == pytest.approx((0.014 / 1.05, 0.014, 0.014 * 1.05))


def test_beyond_it_goes_on_as_the_line_does_with_a_wider_interval():
    low, mid, high = beyond(LINE).seconds(16.0)
    assert mid == pytest.approx(0.026, rel=0.01)
    assert low < 0.026 / 2**DOUBT * 1.01
    assert high > 0.026 * 2**DOUBT * 0.99
    wider = beyond(LINE).seconds(32.0)
    assert wider[2] / wider[1] > high / mid


def test_a_step_is_never_shorter_for_more_and_never_grows_faster_than_the_requests():
    falling = points((1.0, 0.0100), (2.0, 0.0100), (4.0, 0.0100))
    assert beyond(falling).seconds(8.0)[1] == pytest.approx(0.010)
    assert beyond(falling).seconds(8.0)[0] == pytest.approx(0.010 / 1.05)
    steep = points((2.0, 0.01), (8.0, 0.1))  # as of one that runs out of memory
    assert beyond(steep).seconds(16.0)[1] == pytest.approx(0.2)


def test_physics_that_knows_of_a_knee_makes_it_slower():
    def longer(requests):
        return 1 + max(0.0, requests - 8.0) / 4

    low, mid, _ = beyond(LINE, longer).seconds(16.0)
    assert mid == pytest.approx(0.018 * 2.0)  # three times as long by physics, which is more than the requests grow
    assert low < 0.026
    assert beyond(LINE, lambda _: None).seconds(16.0) == beyond(LINE).seconds(16.0)


def test_physics_that_is_faster_widens_the_interval_only():
    easy = beyond(LINE, lambda _: 1.0).seconds(16.0)
    alone = beyond(LINE).seconds(16.0)
    assert easy[1] == alone[1]
    assert easy[0] < alone[0]


def test_one_load_tells_no_slope():
    alone = beyond(points((4.0, 0.02)))
    assert not alone.sloped
    low, mid, high = alone.seconds(8.0)
    assert (low, mid, high) == pytest.approx((0.02 / 1.05, 0.04, 0.04 * 1.05))
    assert not beyond(points((4.0, 0.02), (5.0, 0.021))).sloped


def test_fewer_requests_than_were_seen_follow_the_line():
    high_loads = points(*((n, 0.010 + 0.001 * n) for n in (8.0, 16.0, 24.0)))
    assert beyond(high_loads).seconds(1.0)[1] == pytest.approx(0.011, rel=0.02)


def test_bins_that_lie_off_the_line_make_it_less_sure():
    bent = points((1.0, 0.0095), (2.0, 0.0135), (4.0, 0.0138), (8.0, 0.018))
    straight, crooked = beyond(LINE).seconds(16.0), beyond(bent).seconds(16.0)
    assert crooked[2] / crooked[1] > straight[2] / straight[1]
