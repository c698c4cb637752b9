"""The curves: predicted where nothing was measured, measured where something was, both on one axis."""

from pathlib import Path

import msgspec
import pytest
from tests.cases import cpu_case, gpu_case, r, with_facts
from tests.recorded_machines import first_case

from unslow.facts.bench import Bench, parse_bench
from unslow.facts.run import AtDepth, AtOnce, Run
from unslow.facts.snapshot import Case
from unslow.facts.values import Unknown
from unslow.page.speeds import basis_of, depth_curve, depth_words, users_curve, users_words
from unslow.page.view import CurvePoint, CurveView
from unslow.think.case.view import CaseView

BENCHES = Path(__file__).parents[1] / "benches"


def bench(name: str) -> Bench:
    path = BENCHES / name
    return parse_bench(path.read_bytes(), str(path))


def drawn(view: CurveView | Unknown) -> CurveView:
    assert isinstance(view, CurveView), view
    return view


def test_unmeasured_depth_curve_is_predicted_over_the_whole_context():
    case = with_facts(gpu_case(), {"run.depth_tokens": r(0)})
    view = drawn(depth_curve(CaseView(case)))
    assert (view.points[0].at, view.points[-1].at) == (256, 8192)
    assert len(view.points) > 8
    assert view.measured_at == ""
    assert all(point.measured is None and point.predicted for point in view.points)
    rates = [point.predicted or 0.0 for point in view.points]
    assert rates == sorted(rates, reverse=True)
    for point in view.points:
        assert (point.predicted_low or 0) < (point.predicted or 0) < (point.predicted_high or 0)
    assert basis_of(CaseView(case)).words in view.because


def test_single_measured_depth_is_on_the_curve():
    view = drawn(depth_curve(CaseView(cpu_case())))
    (measured,) = [point for point in view.points if point.measured is not None]
    assert (measured.at, measured.measured) == (100, 3.3)
    assert measured.predicted is not None


def test_depths_of_a_diagnosis_are_on_the_curve():
    tried = (AtDepth(depth_tokens=512, tokens_per_s=90.0), AtDepth(depth_tokens=4000, tokens_per_s=70.0))
    view = drawn(depth_curve(CaseView(with_facts(gpu_case(), {"run.depths": r(tried)}))))
    assert {point.at: point.measured for point in view.points if point.measured} == {512: 90.0, 4000: 70.0}
    assert view.verdict == ""


def test_stored_sweep_is_drawn_with_its_verdict(wording):
    view = drawn(
        depth_curve(CaseView(first_case("h200_live_healthy")), [bench("h200_standard.json"), bench("h200_slope.json")])
    )
    assert (view.verdict, view.measured_at) == ("slope", "2026-11-15T15:36:12+00:00")
    measured = [point for point in view.points if point.measured is not None]
    assert len(measured) > 4
    assert all((point.low or 0) <= (point.measured or 0) <= (point.high or 0) for point in measured)
    assert all(point.predicted for point in view.points)
    wording(view.because, tells="1000")


def test_users_curve_is_flat_beyond_the_slots(wording):
    case = with_facts(gpu_case(), {"runtime.scheduling.slots": r(4)})
    view = drawn(users_curve(CaseView(case)))
    by_users = {point.at: point.predicted or 0.0 for point in view.points}
    assert list(by_users) == [1, 2, 3, 4, 6, 8]
    assert by_users[4] == pytest.approx(
        CaseView(case).sharing.expected_together(4, case.run.depth_tokens.value_or(0) or 512)
    )
    assert by_users[1] < by_users[2] < by_users[4] == by_users[8]  # beyond four they wait
    wording(view.because)


def test_users_curve_has_the_points_of_a_sweep_or_diagnosis():
    view = drawn(users_curve(CaseView(first_case("h200_live_healthy")), [bench("h200_users.json")]))
    assert view.metric == "together_tokens_per_s"
    assert view.verdict
    assert sum(point.measured is not None for point in view.points) > 3
    tried = (
        AtOnce(requests=1, tokens_per_s=90.0, first_token_s=0.1),
        AtOnce(requests=4, tokens_per_s=200.0, first_token_s=0.2),
    )
    told = drawn(users_curve(CaseView(with_facts(gpu_case(), {"run.at_once": r(tried)}))))
    assert {point.at: point.measured for point in told.points if point.measured} == {1: 90.0, 4: 200.0}


def test_measured_points_are_drawn_without_a_prediction():
    tried = (AtDepth(depth_tokens=512, tokens_per_s=90.0),)
    view = drawn(depth_curve(CaseView(with_facts(Case(), {"run.depths": r(tried)}))))
    assert [(point.at, point.measured, point.predicted) for point in view.points] == [(512, 90.0, None)]
    once = (AtOnce(requests=2, tokens_per_s=9.0, first_token_s=0.1),)
    users = drawn(users_curve(CaseView(with_facts(Case(), {"run.at_once": r(once)}))))
    assert [(point.at, point.measured, point.predicted) for point in users.points] == [(2, 9.0, None)]


@pytest.mark.parametrize("curve", [depth_curve, users_curve])
def test_curve_is_unknown_without_facts_or_after_a_failed_load(curve, wording):
    assert isinstance(curve(CaseView(Case()), ()), Unknown)
    failed = msgspec.structs.replace(with_facts(gpu_case(), {"runtime.state": r("failed")}), run=Run())
    wording(curve(CaseView(failed), ()).why)


def test_curve_without_predictions_has_no_summary(wording):
    assert depth_words([CurvePoint(at=1)], "") == ""
    assert users_words([CurvePoint(at=1)], None, "") == ""
    wording(users_words([CurvePoint(at=1)], 1, ""))


def test_users_summary_says_if_several_users_gain_nothing(wording):
    flat = [CurvePoint(at=1, predicted=2.3), CurvePoint(at=2, predicted=2.3)]
    wording(users_words(flat, 1, "as it is"), tells="2.3")


def test_flat_depth_curve_is_about_the_same_not_0_percent_less(wording):
    flat = [CurvePoint(at=256, predicted=50.0), CurvePoint(at=4096, predicted=50.1)]
    wording(depth_words(flat, "as it is"), tells=("50", "4,096"))
