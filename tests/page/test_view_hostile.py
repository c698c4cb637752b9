"""Whatever passes validation can be drawn: no number in a snapshot may break a panel, or be no number in its JSON."""

import json
import random

import msgspec
import pytest
from tests.recorded_machines import MACHINES, recorded
from tests.test_hostile_snapshots import VALUES, changed, leaves

from unslow.facts.errors import UserError
from unslow.facts.snapshot import Case, dump_snapshot, parse_snapshot
from unslow.facts.values import Unknown
from unslow.page.roofline import roofline_view
from unslow.page.speeds import depth_curve, users_curve
from unslow.page.view import CurveView, RooflineView
from unslow.think.case.view import CaseView

EACH = 40
WORDS = ("source", "why", "how_to_get", "is", "origin", "absence")
pytestmark = pytest.mark.no_cover  # the same lines again and again


def drawn(case: Case) -> None:
    for panel in (roofline_view(CaseView(case)), depth_curve(CaseView(case)), users_curve(CaseView(case))):
        if not isinstance(panel, Unknown):
            kind = RooflineView if isinstance(panel, RooflineView) else CurveView
            assert msgspec.json.decode(msgspec.json.encode(panel), type=kind)


@pytest.mark.parametrize("name", ["built_rtx_4060_llama_70b", "lab_cpu_cpu_contended"])
def test_view_survives_any_value_in_any_fact(name: str):
    raw = json.loads(dump_snapshot(recorded(MACHINES / name)))
    places = [path for path in leaves(raw) if path[-1] not in WORDS]
    dice, judged = random.Random(11), 0
    for _ in range(EACH):
        try:
            snapshot = parse_snapshot(changed(raw, dice.choice(places), dice.choice(VALUES)))
        except UserError:
            continue
        for case in snapshot.cases():
            drawn(case)
        judged += 1
    assert judged > EACH / 10
