import pytest

from unslow.fleet.capacity.limits import DOUBT, At, extrapolate


def points(*pairs, wide=1.05):
    return [At(n, s / wide, s, s * wide, 20) for n, s in pairs]


LINE = points(*((n, 0.010 + 0.001 * n) for n in (1.0, 2.0, 4.0, 8.0)))


def test_inside_the_measured_range_seconds_are_interpolated():
    assert extrapolate(LINE).seconds(4.0) == pytest.approx((0.014 / 1.05, 0.014, 0.014 * 1.05))


def test_extrapolation_follows_the_line_with_a_wider_interval():
    low, mid, high = extrapolate(LINE).seconds(16.0)
    assert mid == pytest.approx(0.026, rel=0.01)
    assert low < 0.026 / 2**DOUBT * 1.01
    assert high > 0.026 * 2**DOUBT * 0.99
    wider = extrapolate(LINE).seconds(32.0)
    assert wider[2] / wider[1] > high / mid


def test_step_time_never_falls_and_grows_at_most_linearly():
    falling = points((1.0, 0.0100), (2.0, 0.0100), (4.0, 0.0100))
    assert extrapolate(falling).seconds(8.0)[1] == pytest.approx(0.010)
    assert extrapolate(falling).seconds(8.0)[0] == pytest.approx(0.010 / 1.05)
    steep = points((2.0, 0.01), (8.0, 0.1))  # as of one that runs out of memory
    assert extrapolate(steep).seconds(16.0)[1] == pytest.approx(0.2)


def test_slower_physics_raises_the_extrapolation():
    def longer(requests):
        return 1 + max(0.0, requests - 8.0) / 4

    low, mid, _ = extrapolate(LINE, longer).seconds(16.0)
    assert mid == pytest.approx(0.018 * 2.0)  # three times as long by physics, which is more than the requests grow
    assert low < 0.026
    assert extrapolate(LINE, lambda _: None).seconds(16.0) == extrapolate(LINE).seconds(16.0)


def test_faster_physics_only_widens_the_interval():
    easy = extrapolate(LINE, lambda _: 1.0).seconds(16.0)
    alone = extrapolate(LINE).seconds(16.0)
    assert easy[1] == alone[1]
    assert easy[0] < alone[0]


def test_a_single_load_gives_no_slope():
    alone = extrapolate(points((4.0, 0.02)))
    assert not alone.has_slope
    low, mid, high = alone.seconds(8.0)
    assert (low, mid, high) == pytest.approx((0.02 / 1.05, 0.04, 0.04 * 1.05))
    assert not extrapolate(points((4.0, 0.02), (5.0, 0.021))).has_slope


def test_loads_below_the_measured_range_follow_the_line():
    high_loads = points(*((n, 0.010 + 0.001 * n) for n in (8.0, 16.0, 24.0)))
    assert extrapolate(high_loads).seconds(1.0)[1] == pytest.approx(0.011, rel=0.02)


def test_scatter_around_the_line_widens_the_interval():
    bent = points((1.0, 0.0095), (2.0, 0.0135), (4.0, 0.0138), (8.0, 0.018))
    straight, crooked = extrapolate(LINE).seconds(16.0), extrapolate(bent).seconds(16.0)
    assert crooked[2] / crooked[1] > straight[2] / straight[1]
