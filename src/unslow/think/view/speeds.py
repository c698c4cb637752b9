"""The speeds of a subject: measured, expected as it is set up, achievable, at most, and wanted."""

from unslow.facts.snapshot import Case, Wish
from unslow.facts.values import Known, Unknown
from unslow.think.adapt.cure import Cure
from unslow.think.adapt.remembered import one_judgement
from unslow.think.first_token import FIRST_TOKEN
from unslow.think.physics.interval import Interval
from unslow.think.predict import DECODE, PREFILL, Prediction, measured_prefill, predict_prefill
from unslow.think.report import Range, SubjectReport
from unslow.think.view.basis import basis_of
from unslow.think.view.report import RooflineView, SpeedRow


@one_judgement()
def speeds(report: SubjectReport, case: Case, wish: Wish, roofline: RooflineView | None = None) -> tuple[SpeedRow, ...]:
    """One row for each metric of which anything is known; the roof of prompts is that of the roofline."""
    rows = (_decode(report, wish), _prefill(report, case, roofline), _row(report, FIRST_TOKEN))
    return tuple(row for row in rows if _tells(row))


def _decode(report: SubjectReport, wish: Wish) -> SpeedRow:
    goal = wish.tokens_per_s.value if isinstance(wish.tokens_per_s, Known) else None
    return _row(report, DECODE, ceiling=report.expected.ceiling_tokens_per_s or None, goal=goal)


def _prefill(report: SubjectReport, case: Case, roofline: RooflineView | None) -> SpeedRow:
    """A report holds prompts against nothing where none was measured; here what is expected is shown all the same.

    Where only short ones were, nothing is: what is expected is the speed of a long one, which they can't have.
    """
    if report.verdict == "failed":
        return _row(report, PREFILL)
    basis = basis_of(case)
    found = basis if isinstance(basis, Unknown) else predict_prefill(case, basis.cure)
    if isinstance(basis, Unknown) or isinstance(found, Unknown):
        return _row(report, PREFILL)
    only_short = PREFILL in report.measured and isinstance(measured_prefill(case), Unknown)
    as_configured = range_of(found.tokens_per_s) if basis.cure == Cure() and not only_short else None
    return _row(report, PREFILL, as_configured=as_configured, ceiling=_roof(roofline, found) or found.ceiling or None)


def _roof(roofline: RooflineView | None, found: Prediction) -> float | None:
    """Tokens per second at the roof of the phase."""
    points = roofline.points if roofline else ()
    point = next((p for p in points if p.phase == "prefill" and p.predicted_flops_per_s), None)
    if point is None or not point.predicted_flops_per_s:
        return None
    return found.tokens_per_s.mid * point.roof_flops_per_s / point.predicted_flops_per_s


def _row(
    report: SubjectReport,
    metric: str,
    *,
    as_configured: Range | None = None,
    ceiling: float | None = None,
    goal: float | None = None,
) -> SpeedRow:
    expected = report.expected
    return SpeedRow(
        metric=metric,
        measured=report.measured.get(metric),
        as_configured=expected.as_configured.get(metric, as_configured),
        achievable=expected.achievable.get(metric),
        ceiling=ceiling,
        goal=goal,
    )


def range_of(interval: Interval) -> Range:
    """The interval as a report has it."""
    return Range(low=interval.low, mid=interval.mid, high=interval.high)


def _tells(row: SpeedRow) -> bool:
    return any(getattr(row, name) is not None for name in ("measured", "as_configured", "achievable", "goal"))
