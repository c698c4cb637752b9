from hypothesis import given
from hypothesis import strategies as st

from unslow.think.stats.users import UsersPoint, grows_no_more, judge_users


def curve(*together: float, at_once: int = 1000, first_s: float = 0.2) -> list[UsersPoint]:
    return [UsersPoint(2**n, rate, first_s, min(at_once, 2**n)) for n, rate in enumerate(together)]


def test_growing_throughput_scales():
    found = judge_users(curve(10, 19, 36, 68))
    assert (found.verdict, found.best, found.knee) == ("scales", 8, None)
    assert "6.8 times" in found.because


def test_small_gain_per_doubling_saturates():
    found = judge_users(curve(10, 19, 30, 31, 31.5))
    assert (found.verdict, found.knee, found.best) == ("saturates", 4, 4)


def test_slot_limit_while_growing_queues(wording):
    found = judge_users(curve(10, 19, 36, 36, at_once=4), slots=4)
    assert (found.verdict, found.knee) == ("queues", 4)
    wording(found.because)


def test_unknown_slot_limit_is_detected():
    assert judge_users(curve(10, 19, 36, 36, 35, at_once=4)).verdict == "queues"


def test_throughput_flat_before_the_slots_saturates(wording):
    found = judge_users(curve(10, 10.5, 10.6, 10.6, at_once=4), slots=4)
    assert (found.verdict, found.knee) == ("saturates", 1)
    wording(found.because)


def test_long_prompts_are_not_a_slot_limit():
    found = judge_users(curve(10, 19, 36, 60, at_once=6), slots=64)
    assert found.verdict == "scales"


def test_falling_throughput_collapses():
    found = judge_users(curve(10, 19, 36, 20))
    assert (found.verdict, found.knee, found.best) == ("collapses", 4, 4)


def test_noisy_rounds_are_not_a_collapse():
    *before, last = curve(10, 19, 36, 30)
    assert judge_users([*before, last._replace(among=(29.0, 37.0))]).verdict == "saturates"
    assert judge_users([*before, last._replace(among=(29.0, 31.0))]).verdict == "collapses"


def test_recovered_dip_is_not_a_collapse():
    assert judge_users(curve(10, 19, 16, 40, 75)).verdict == "scales"


def test_failures_are_a_collapse(wording):
    points = [*curve(10, 19, 36), UsersPoint(8, 30, 0.3, 8, failed=0.5)]
    found = judge_users(points)
    assert (found.verdict, found.knee) == ("collapses", 4)
    wording(found.because, tells="50%")


def test_too_few_points_give_cannot_tell():
    assert judge_users([]).verdict == "cannot_tell"
    assert judge_users(curve(10)).verdict == "cannot_tell"


def test_expected_throughput_is_reported(wording):
    points = [UsersPoint(1, 10, 0.2, 1, expected=11.0), UsersPoint(2, 19, 0.2, 2, expected=21.5)]
    wording(judge_users(points).because, tells=("22 with 2", "19"))


@given(st.lists(st.floats(0.1, 1e4), min_size=2, max_size=8), st.one_of(st.none(), st.integers(1, 200)))
def test_every_curve_has_a_verdict(rates: list[float], slots: int | None):
    found = judge_users(curve(*rates), slots)
    assert found.verdict in ("scales", "saturates", "queues", "collapses")
    assert found.best in [2**n for n in range(len(rates))]


@given(st.floats(0.1, 100), st.floats(1.25, 2.0), st.integers(3, 7))
def test_growing_curve_continues(start: float, factor: float, count: int):
    points = curve(*[start * factor**n for n in range(count)])
    assert grows_no_more(points) == ""
    assert judge_users(points).verdict == "scales"


def test_flat_queued_or_failing_curve_stops(wording):
    wording(grows_no_more(curve(10, 19, 19.2, 19.3)), tells="than 2")
    wording(grows_no_more(curve(10, 19, 36, 38.5, at_once=4), 4), tells="4 users")
    wording(grows_no_more([UsersPoint(1, 10, 0.2, 1, failed=0.1)]), tells="1")
