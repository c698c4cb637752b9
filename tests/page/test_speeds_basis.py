"""Predictions for a server that does not report the placement of its model."""

from pathlib import Path

import pytest
from tests.cases import cpu_case, gpu_case

from unslow.facts.snapshot import Case, parse_snapshot
from unslow.facts.values import Unknown
from unslow.page.roofline import roofline_view
from unslow.page.speeds import Basis, basis_of, depth_curve, speed_rows, users_curve
from unslow.page.view import CurveView, RooflineView
from unslow.think.case.view import CaseView
from unslow.think.judge.judge import judge

QUIET = Path(__file__).parents[1] / "snapshots" / "h200_watched_timeline.json"
"""A llama-server at its usual verbosity, which says nothing of layers and buffers."""


def quiet() -> Case:
    return next(parse_snapshot(QUIET.read_bytes(), "h200").cases())


@pytest.mark.parametrize("case", [gpu_case(), cpu_case()])
def test_known_placement_is_predicted_as_configured(case: Case):
    assert basis_of(CaseView(case)) == Basis()


def test_unknown_placement_is_predicted_with_what_fits(wording):
    case = quiet()
    basis = basis_of(CaseView(case))
    assert isinstance(basis, Basis)
    assert basis.cure.vram_bytes
    report, drawn = judge(CaseView(case)), roofline_view(CaseView(case))
    achievable = report.expected.achievable["decode_tokens_per_s"].mid
    depth, users = depth_curve(CaseView(case)), users_curve(CaseView(case))
    assert isinstance(drawn, RooflineView)
    assert isinstance(depth, CurveView)
    assert isinstance(users, CurveView)
    assert depth.points[0].predicted == pytest.approx(achievable, rel=0.02)
    wording(depth.because)
    assert (users.points[0].predicted or 0.0) == pytest.approx(achievable, rel=0.02)
    prefill = speed_rows(report, CaseView(case), parse_snapshot(QUIET.read_bytes(), "h200").wish, drawn)[1]
    assert prefill.as_configured is None  # that is not known
    assert prefill.ceiling is not None


def test_empty_case_has_no_basis():
    assert isinstance(basis_of(CaseView(Case())), Unknown)
