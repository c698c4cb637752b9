"""The speeds of a subject as they are drawn: against what is expected, by depth, by users, before and after."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

import msgspec

from unslow.facts.bench import LOWER_IS_BETTER, TOGETHER, Bench, Comparison, Sweep
from unslow.facts.snapshot import Wish
from unslow.facts.values import Known, MissingFactError, Unknown, estimated_fact
from unslow.page.view import ChangeRow, ChangeView, CurvePoint, CurveView, RooflineView, SpeedRow
from unslow.think.case.cure import Cure
from unslow.think.case.speed import DECODE, PREFILL, Prediction
from unslow.think.case.view import CaseView
from unslow.think.judge.findings import FIRST_TOKEN
from unslow.think.memo import one_judgement
from unslow.think.physics.terms import Interval
from unslow.think.report import Range, SubjectReport
from unslow.think.stats.changes import Change
from unslow.think.stats.verification_report import IntervalShown, VerifyReport

_NOTABLE = 0.005  # Less than half of one per cent is nothing lost
SHALLOWEST, DEEPEST = 256, 1 << 20
USUAL_CONTEXT = 32_768  # Where neither the server nor the model tells how long a context may be
FEWEST_USERS, USUAL_USERS, MOST_USERS = 8, 16, 256  # The curve goes on where requests begin to wait, so that it is seen
USUAL_DEPTH = 512  # Of each user's conversation, where no other was measured
_STEPS = (1.0, 1.5)  # The grid between two powers of two
MOST_CHANGES = 12
_Axis = Literal["depth", "users"]
_METRICS: dict[_Axis, str] = {"depth": DECODE, "users": TOGETHER}


class Basis(NamedTuple):
    """The change to the case that is predicted for, and what that is in words."""

    cure: Cure = Cure()
    words: str = "with these settings"


class _MeasuredCurve(NamedTuple):
    points: dict[float, CurvePoint]
    at: str = ""
    sweep: Sweep | None = None


def basis_of(case: CaseView) -> Basis | Unknown:
    """What can be predicted of a case, or what it lacks: a server that says little tells no place of its weights."""
    if case.runtime.state.value_or("") == "failed":
        return Unknown("the model does not load", "see the findings")
    found = case.speed.predict()
    if isinstance(found, Prediction):
        return Basis()
    if case.runtime.embedded or not case.gpus.visible_to_runtime:
        return found
    try:
        filled = Cure(vram_bytes=case.vram.available_bytes)
    except MissingFactError:
        return found
    words = "with as many layers on the GPU as fit (the actual number is unknown)"
    return Basis(filled, words) if isinstance(case.speed.predict(filled), Prediction) else found


@one_judgement()
def speed_rows(
    report: SubjectReport, case: CaseView, wish: Wish, roofline: RooflineView | None = None
) -> tuple[SpeedRow, ...]:
    """One row for each metric of which anything is known; the roof of prompts is that of the roofline."""
    goal = wish.tokens_per_s.value if isinstance(wish.tokens_per_s, Known) else None
    decode = speed_row(report, DECODE, ceiling=report.expected.ceiling_tokens_per_s or None, goal=goal)
    rows = (decode, _prefill(report, case, roofline), speed_row(report, FIRST_TOKEN))
    telling = ("measured", "as_configured", "achievable", "goal")
    return tuple(row for row in rows if any(getattr(row, name) is not None for name in telling))


def _prefill(report: SubjectReport, case: CaseView, roofline: RooflineView | None) -> SpeedRow:
    """A report holds prompts against nothing where none was measured; here what is expected is shown all the same.

    Where only short ones were, nothing is: what is expected is the speed of a long one, which they can't have.
    """
    if report.verdict == "failed":
        return speed_row(report, PREFILL)
    basis = basis_of(case)
    found = basis if isinstance(basis, Unknown) else case.speed.predict_prefill(basis.cure)
    if isinstance(basis, Unknown) or isinstance(found, Unknown):
        return speed_row(report, PREFILL)
    only_short = PREFILL in report.measured and isinstance(case.speed.prompt_speed, Unknown)
    as_configured = range_of(found.tokens_per_s) if basis.cure == Cure() and not only_short else None
    ceiling = found.ceiling or None
    for point in roofline.points if roofline else ():
        if point.phase == "prefill" and point.predicted_flops_per_s:
            at_roof = found.tokens_per_s.mid * point.roof_flops_per_s / point.predicted_flops_per_s
            ceiling = at_roof or ceiling
            break
    return speed_row(report, PREFILL, as_configured=as_configured, ceiling=ceiling)


def speed_row(
    report: SubjectReport,
    metric: str,
    *,
    as_configured: Range | None = None,
    ceiling: float | None = None,
    goal: float | None = None,
) -> SpeedRow:
    """What a report says of a metric; `as_configured` where it expects nothing."""
    expected = report.expected
    return SpeedRow(
        metric=metric,
        measured=report.measured.get(metric),
        as_configured=expected.as_configured.get(metric, as_configured),
        achievable=expected.achievable.get(metric),
        ceiling=ceiling,
        goal=goal,
    )


def range_of(interval: Interval | IntervalShown) -> Range:
    """The interval as a report has it."""
    return Range(low=interval.low, mid=interval.mid, high=interval.high)


@one_judgement()
def depth_curve(case: CaseView, benches: Sequence[Bench] = ()) -> CurveView | Unknown:
    """Tokens per second by depth, or why there is neither a measurement nor a prediction."""
    tried: dict[float, float] = {one.depth_tokens: one.tokens_per_s for one in case.run.depths.value_or(())}
    rate, depth = case.speed.measured_rate, float(case.speed.depth)
    if not tried and isinstance(rate, Known) and depth:
        tried = {depth: rate.value}
    seen, basis = _measured_curve("depth", benches, tried, case), basis_of(case)
    if isinstance(basis, Unknown):
        return _view("depth", _with_predictions(seen.points), seen) if seen.points else basis
    # As far as one conversation may go
    runtime = case.runtime
    facts = (runtime.context.per_slot, runtime.context.length, runtime.context.requested, case.model.context_trained)
    context = next((fact.value for fact in facts if isinstance(fact, Known) and fact.value), USUAL_CONTEXT)
    grid = _grid(SHALLOWEST, min(DEEPEST, max([context, SHALLOWEST, *seen.points])))
    points = _with_predictions(seen.points, grid, lambda depth: _at_depth(case, depth, basis.cure))
    return _view("depth", points, seen, depth_words(points, basis.words))


@one_judgement()
def users_curve(case: CaseView, benches: Sequence[Bench] = ()) -> CurveView | Unknown:
    """Tokens per second of all users together by their number, or why there is neither."""
    tried = {one.requests: one.tokens_per_s for one in case.run.at_once.value_or(())}
    seen, basis = _measured_curve("users", benches, tried, case), basis_of(case)
    if isinstance(basis, Unknown):
        return _view("users", _with_predictions(seen.points), seen) if seen.points else basis
    # How many conversations are answered at once; None where that is not known
    runtime = case.runtime
    slots = runtime.scheduling.slots.value_or(runtime.scheduling.max_sequences.value_or(None)) or None
    most = max([2 * slots if slots else USUAL_USERS, FEWEST_USERS, *seen.points])
    grid = [n for n in _grid(1, min(MOST_USERS, most)) if n == int(n)]
    points = _with_predictions(seen.points, grid, lambda users: _of_users(case, int(users), slots, basis.cure))
    return _view("users", points, seen, users_words(points, slots, basis.words))


def _measured_curve(
    axis: _Axis, benches: Sequence[Bench], tried: Mapping[float, float], case: CaseView
) -> _MeasuredCurve:
    """The newest sweep over this axis with a result, the benches being newest first; else what the case tried."""
    for bench in benches:
        for sweep in bench.sweeps:
            points = {}
            for one in sweep.points if sweep.axis == axis else ():
                point = CurvePoint(at=one.at, note=one.note)
                if spread := one.figures.get(_METRICS[axis]):
                    seen = {"measured": spread.median, "low": spread.low, "high": spread.high}
                    point = msgspec.structs.replace(point, **seen)
                points[one.at] = point
            if any(point.measured is not None for point in points.values()):
                return _MeasuredCurve(points, bench.taken_at, sweep)
    points = {at: CurvePoint(at=at, measured=speed) for at, speed in tried.items()}
    return _MeasuredCurve(points, case.taken_at if points else "")


def _grid(first: float, last: float) -> list[float]:
    found, power = [], float(first)
    while power < last:
        found += [power * step for step in _STEPS if power * step < last]
        power *= 2
    return [*found, float(last)]


def _with_predictions(
    measured: dict[float, CurvePoint],
    grid: Iterable[float] = (),
    predicted: Callable[[float], Interval | None] = lambda _at: None,
) -> tuple[CurvePoint, ...]:
    found = []
    for at in sorted({*measured, *grid}):
        point = measured.get(at, CurvePoint(at=at))
        if expected := predicted(at):
            ends = {"predicted_low": expected.low, "predicted_high": expected.high}
            point = msgspec.structs.replace(point, predicted=expected.mid, **ends)
        found.append(point)
    return tuple(found)


def _at_depth(case: CaseView, depth: float, cure: Cure) -> Interval | None:
    run = msgspec.structs.replace(case.run, depth_tokens=estimated_fact(int(depth), "the depth that is drawn"))
    found = case.replace(run=run).speed.predict(cure)
    return found.tokens_per_s if isinstance(found, Prediction) else None


def _of_users(case: CaseView, users: int, slots: int | None, cure: Cure) -> Interval | None:
    """Users beyond the slots wait; the interval is as wide as the one for a single user."""
    depth = float(case.speed.depth) or USUAL_DEPTH
    together = case.sharing.expected_together(min(users, slots or users), depth, cure)
    alone = _at_depth(case, depth, cure)
    if together is None or alone is None:
        return None
    return Interval(together * alone.low / alone.mid, together, together * alone.high / alone.mid)


def _view(axis: _Axis, points: tuple[CurvePoint, ...], seen: _MeasuredCurve, words: str = "") -> CurveView:
    sweep = seen.sweep
    return CurveView(
        axis=axis,
        metric=_METRICS[axis],
        points=points,
        verdict=sweep.verdict if sweep else "",
        because=sweep.because if sweep else words,
        knee=sweep.knee if sweep else None,
        measured_at=seen.at,
    )


def depth_words(points: Sequence[CurvePoint], basis: str) -> str:
    """From the start of the context to its end."""
    known = [point for point in points if point.predicted]
    if len(known) <= 1:
        return ""
    first, last = known[0], known[-1]
    lost = 1 - (last.predicted or 0.0) / (first.predicted or 1.0)
    less = f"{lost:.0%} less" if lost >= _NOTABLE else "about the same"
    at_end = f"{_rate(last)} tok/s at {last.at:,.0f} ({less})"
    return f"Expected {basis}: {_rate(first)} tok/s at a context depth of {first.at:,.0f} tokens, {at_end}."


def users_words(points: Sequence[CurvePoint], slots: int | None, basis: str) -> str:
    """Alone, and with as many as are answered at once."""
    known = [point for point in points if point.predicted]
    runs = f"It runs {'one request' if slots == 1 else f'{slots} requests'} at a time"
    if len(known) <= 1:
        return f"{runs}." if slots else ""
    best = max(known, key=lambda point: (point.predicted or 0.0, -point.at))
    waits = f" {runs}; others queue." if slots else ""
    more = f", {_rate(best)} for {best.at:,.0f} users combined" if best.at > 1 else ", and the same total for several"
    return f"Expected {basis}: {_rate(known[0])} tok/s for one user{more}.{waits}"


def _rate(point: CurvePoint) -> str:
    value = point.predicted or 0.0
    return f"{value:.2g}" if value < 10 else f"{value:,.0f}"  # noqa: PLR2004 (two figures tell a slow one)


def change_of_verify(report: VerifyReport) -> ChangeView:
    """What `unslow verify` found."""
    rows = []
    for one in report.figures:
        before, after, speedup = map(range_of, (one.before, one.after, one.speedup))
        rows.append(ChangeRow(metric=one.metric, before=before, after=after, speedup=speedup, verdict=one.verdict))
    return ChangeView(
        verdict=report.verdict,
        because=report.because,
        rows=tuple(rows),
        changes=tuple(_change_words(c.setting, c.before, c.after) for c in report.changes[:MOST_CHANGES]),
        source="unslow verify",
        answers=report.answers.because if report.answers.wanted else "",
    )


def change_of_benches(before: Bench, after: Bench, comparison: Comparison, changes: Sequence[Change]) -> ChangeView:
    """What two benchmarks differ by."""
    rows = []
    for one in comparison.differences:
        low, mid, high = one.low, one.ratio, one.high
        if one.metric in LOWER_IS_BETTER:
            low, mid, high = (1 / value if value else 0.0 for value in (high, mid, low))
        sides = []
        for level, bench in ((one.before, before), (one.after, after)):
            spread = bench.figures.get(one.metric)
            ends = (level, spread.low, spread.high) if spread else (level,)
            sides.append(Range(low=min(ends), mid=level, high=max(ends)))
        speedup = Range(low=low, mid=mid, high=high)
        rows.append(ChangeRow(metric=one.metric, before=sides[0], after=sides[1], speedup=speedup, verdict=one.verdict))
    moments = (bench.taken_at[:16].replace("T", " ") or bench.id for bench in (before, after))
    return ChangeView(
        verdict=comparison.verdict,
        because=comparison.because,
        rows=tuple(rows),
        changes=tuple(_change_words(c.name, c.before, c.after) for c in changes[:MOST_CHANGES]),
        source=f"the benchmarks of {' and '.join(moments)}",
    )


def _change_words(name: str, before: str, after: str) -> str:
    return f"{name}: {before or 'unset'} → {after or 'unset'}"
