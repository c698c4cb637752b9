"""A real llama-server at 1, 2, 4 and 8 users as seen by a real Prometheus: the last level predicted from the others."""

import json
import statistics
from pathlib import Path

import pytest
from lab.fleet.capacity_on_gpu import chosen, curves, left_out, share_inside
from lab.fleet.capacity_truth import compare, said

from unslow.fleet.capacity.limits import DOUBT

DATA = Path(__file__).parents[2] / "lab/data"
TAKEN, ON_GPU = (
    json.loads((DATA / name).read_text()) for name in ("fleet_capacity_truth.json", "fleet_capacity_h200.json")
)


@pytest.mark.parametrize("taken", [TAKEN, ON_GPU], ids=["cpu", "h200"])
def test_the_capacity_prediction_for_8_users_is_right(taken):
    compared = compare(taken)
    assert compared.users == pytest.approx(8.0, abs=0.5)
    assert compared.inside
    assert abs(compared.error) < 0.3
    low, mid, high = compared.predicted_users
    assert low <= 8.0 <= high
    assert mid == pytest.approx(8.0, rel=0.3)


def test_the_capacity_interval_is_narrower_than_a_factor_of_3():
    low, _, high = compare(TAKEN).predicted_tokens_per_s
    assert high / low < 3.0


def test_the_capacity_comparison_has_a_text(wording):
    wording(said(compare(TAKEN)), tells="8.0")


@pytest.mark.parametrize("times", [2.0, 4.0])
def test_most_higher_loads_of_a_left_out_model_are_inside_the_interval(times):
    found = list(left_out())
    assert share_inside(found, times) >= 0.7
    assert statistics.median(abs(one.error) for one in found if one.times == times) < 0.25


def test_the_capacity_doubt_covers_the_recorded_curves():
    assert chosen(curves()) <= DOUBT
    assert len(curves()) == 6
