import math
import random

import msgspec
import pytest

from unslow.fleet.capacity.curves import FEWEST_TOKENS, Grid, load_of, moments_of, requests_per_step
from unslow.fleet.capacity.limits import InstanceGroup
from unslow.fleet.capacity.report import CapacityRow, Goal
from unslow.fleet.capacity.users import row_of
from unslow.fleet.prometheus.answers import Curve

GRID = Grid(1000.0, 60.0, 4, 60.0)


def rows(**given):
    return {name: list(values) for name, values in given.items()}


def test_values_are_placed_on_the_grid_and_nan_is_dropped():
    row = GRID.row(Curve({}, [1000.0, 1120.2, 1180.0, 9000.0], [1.0, 2.0, math.nan, 5.0]))
    assert row == [1.0, None, 2.0, None]
    assert GRID.row(Curve({}, [1000.0, 1060.0, 1120.0], [-1.0, math.inf, 1e300])) == [None] * 4
    assert GRID.end_s == 1180.0


def test_moment_holds_the_reported_values():
    [moment] = moments_of(
        rows(running=[4.0], uneasy=[0.0], tokens_per_s=[200.0], gap_s=[0.02], first_token_s=[0.3], waiting=[1.0]), 60.0
    )
    assert moment == (4.0, 0.02, 0.3, 1.0, None)


def test_first_token_of_zero_seconds_is_dropped():
    [moment] = moments_of(rows(running=[4.0], tokens_per_s=[200.0], first_token_s=[0.0]), 60.0)
    assert moment.first_token_s is None


def test_missing_token_gap_is_derived_by_littles_law():
    [moment] = moments_of(rows(running=[4.0], tokens_per_s=[200.0]), 60.0)
    assert moment.gap_s == pytest.approx(0.02)


def test_moments_without_requests_or_tokens_are_dropped():
    few = FEWEST_TOKENS / 60.0 / 2
    found = moments_of(
        rows(running=[0.0, None, 2.0, 2.0], tokens_per_s=[90.0, 90.0, few, None], gap_s=[0.01] * 4), 60.0
    )
    assert list(found) == []
    assert list(moments_of({}, 60.0)) == []


def test_requests_sharing_a_step_exceed_the_time_average():
    # one request for three tenths of the time: each token was alone, whatever the mean says
    assert requests_per_step(0.3, math.sqrt(0.3 * 0.7)) == pytest.approx(1.0)
    # half of the time eight, half of it none
    assert requests_per_step(4.0, 4.0) == pytest.approx(8.0)
    assert requests_per_step(4.0, None) == 4.0


HOSTILE = (0.0, -1.0, math.nan, math.inf, 1e-300, 1e-9, 0.01, 0.5, 1.0, 3.0, 40.0, 1e6, 5e11, 1e300)
NAMES = ("running", "uneasy", "tokens_per_s", "gap_s", "first_token_s", "waiting", "cache_used")


@pytest.mark.parametrize("seed", range(40))
def test_arbitrary_values_give_valid_moments_or_none(seed):
    chance = random.Random(seed)
    grid = Grid(0.0, 60.0, 200, 60.0)
    some = chance.sample(HOSTILE, 6)
    curves = {name: Curve({}, [60.0 * n for n in range(200)], chance.choices(some, k=200)) for name in NAMES}
    told = {name: grid.row(curve) for name, curve in curves.items()}
    seen = {"moments": tuple(moments_of(told, 60.0)), "load": load_of([told["running"]])}
    row = row_of(
        InstanceGroup(runtime="", model="", devices="", instances=3, **seen), Goal(tokens_per_s=20.0, first_token_s=1.0)
    )
    assert (row.users_at_goal is None) == (row.basis == "cannot_tell")
    if row.users_at_goal:
        assert 0 <= row.users_at_goal.low <= row.users_at_goal.mid <= row.users_at_goal.high
    assert msgspec.json.decode(msgspec.json.encode(row), type=CapacityRow) == row


def test_group_load_is_the_sum_of_its_instances():
    load = load_of([[1.0, 2.0, None], [3.0, 4.0, None]])
    assert (load.mean, load.peak, load.uneven) == (5.0, 6.0, None)
    assert load_of([]) == load_of([[None, None]]) == (None, None, None), "that nobody tells it is not that it is none"
    assert load_of([[0.0, 0.0]])[:2] == (0.0, 0.0)


def test_load_on_a_few_instances_is_uneven():
    even = load_of([[5.0, 5.0]] * 10)
    uneven = load_of([[5.0, 30.0]] * 2 + [[5.0, 1.0]] * 8)
    assert even.uneven == pytest.approx(1.0)
    assert uneven.uneven == pytest.approx(30.0 * 10 / 68)


def test_missing_running_requests_give_no_moments():
    assert list(moments_of(rows(tokens_per_s=[200.0], gap_s=[0.02]), 60.0)) == []
