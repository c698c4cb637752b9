"""What is drawn where a server does not tell how its model lies."""

from pathlib import Path

import pytest
from tests.cases import cpu_case, gpu_case

from unslow.facts.snapshot import Case, parse_snapshot
from unslow.facts.values import Unknown
from unslow.page.roofline import roofline_view
from unslow.page.speeds import Basis, basis_of, depth_curve, speed_rows, users_curve
from unslow.page.view import CurveView, RooflineView
from unslow.think.judge.judge import judge

QUIET = Path(__file__).parents[1] / "snapshots" / "h200_watched_timeline.json"
"""A llama-server at its usual verbosity, which says nothing of layers and buffers."""


def quiet() -> Case:
    return next(parse_snapshot(QUIET.read_bytes(), "h200").cases())


@pytest.mark.parametrize("case", [gpu_case(), cpu_case()])
def test_a_set_up_that_is_known_is_drawn_as_it_is(case: Case):
    assert basis_of(case) == Basis()


def test_of_a_quiet_server_the_best_that_fits_is_drawn(wording):
    case = quiet()
    basis = basis_of(case)
    assert isinstance(basis, Basis)
    assert basis.cure.vram_bytes
    report, drawn = judge(case), roofline_view(case)
    achievable = report.expected.achievable["decode_tokens_per_s"].mid
    depth, users = depth_curve(case), users_curve(case)
    assert isinstance(drawn, RooflineView)
    assert isinstance(depth, CurveView)
    assert isinstance(users, CurveView)
    assert depth.points[0].predicted == pytest.approx(achievable, rel=0.02)
    wording(depth.because)
    assert (users.points[0].predicted or 0.0) == pytest.approx(achievable, rel=0.02)
    prefill = speed_rows(report, case, parse_snapshot(QUIET.read_bytes(), "h200").wish, drawn)[1]
    assert prefill.as_configured is None  # that is not known
    assert prefill.ceiling is not None


def test_nothing_known_lacks_something():
    assert isinstance(basis_of(Case()), Unknown)
