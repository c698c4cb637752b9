"""The speed by depth of the context and by users at once: what was measured, and what is predicted over a fine grid."""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import msgspec

from unslow.facts.bench import DECODE, TOGETHER, Bench, Sweep, SweepPoint
from unslow.facts.snapshot import Case
from unslow.facts.values import Known, Unknown, estimated
from unslow.think.adapt.cure import Cure
from unslow.think.adapt.remembered import one_judgement
from unslow.think.adapt.work import depth_of
from unslow.think.bench.users_expected import expected_together
from unslow.think.physics.interval import Interval
from unslow.think.predict import Prediction, measured_rate, predict
from unslow.think.view.basis import basis_of
from unslow.think.view.curve_words import depth_words, users_words
from unslow.think.view.report import CurvePoint, CurveView

SHALLOWEST, DEEPEST = 256, 1 << 20
USUAL_CONTEXT = 32_768
"""Where neither the server nor the model tells how long a context may be."""
FEWEST_USERS, USUAL_USERS, MOST_USERS = 8, 16, 256
"""The curve goes on where requests begin to wait, so that it is seen."""
USUAL_DEPTH = 512
"""Of each user's conversation, where no other was measured."""
_STEPS = (1.0, 1.5)
"""The grid between two powers of two."""


class _Measured(NamedTuple):
    """The points of a curve that were measured, and what was made of them."""

    points: dict[float, CurvePoint]
    at: str = ""
    sweep: Sweep | None = None


@one_judgement()
def depth_curve(case: Case, benches: Sequence[Bench] = ()) -> CurveView | Unknown:
    """Tokens per second by depth, or why there is neither a measurement nor a prediction."""
    seen, basis = _swept("depth", DECODE, benches) or _depths_of(case), basis_of(case)
    if isinstance(basis, Unknown):
        return _view("depth", DECODE, _measured_only(seen), seen, "") if seen.points else basis
    grid = _grid(SHALLOWEST, _deepest(case, seen.points))
    points = _with_predictions(seen.points, grid, lambda depth: _at_depth(case, depth, basis.cure))
    return _view("depth", DECODE, points, seen, depth_words(points, basis.words))


@one_judgement()
def users_curve(case: Case, benches: Sequence[Bench] = ()) -> CurveView | Unknown:
    """Tokens per second of all users together by their number, or why there is neither."""
    seen, basis = _swept("users", TOGETHER, benches) or _at_once_of(case), basis_of(case)
    if isinstance(basis, Unknown):
        return _view("users", TOGETHER, _measured_only(seen), seen, "") if seen.points else basis
    slots = _slots(case)
    most = max([2 * slots if slots else USUAL_USERS, FEWEST_USERS, *seen.points])
    grid = [n for n in _grid(1, min(MOST_USERS, most)) if n == int(n)]
    points = _with_predictions(seen.points, grid, lambda users: _of_users(case, int(users), slots, basis.cure))
    return _view("users", TOGETHER, points, seen, users_words(points, slots, basis.words))


def _view(axis: str, metric: str, points: tuple[CurvePoint, ...], seen: _Measured, words: str) -> CurveView:
    sweep = seen.sweep
    return CurveView(
        axis="users" if axis == "users" else "depth",
        metric=metric,
        points=points,
        verdict=sweep.verdict if sweep else "",
        because=sweep.because if sweep else words,
        knee=sweep.knee if sweep else None,
        measured_at=seen.at,
    )


def _swept(axis: str, metric: str, benches: Sequence[Bench]) -> _Measured | None:
    """The newest sweep over this axis that came to anything; the benches are newest first."""
    for bench in benches:
        for sweep in bench.sweeps:
            points = {one.at: _swept_point(one, metric) for one in sweep.points if sweep.axis == axis}
            if any(point.measured is not None for point in points.values()):
                return _Measured(points, bench.taken_at, sweep)
    return None


def _swept_point(one: SweepPoint, metric: str) -> CurvePoint:
    spread = one.figures.get(metric)
    if spread is None:
        return CurvePoint(at=one.at, note=one.note)
    return CurvePoint(at=one.at, measured=spread.median, low=spread.low, high=spread.high, note=one.note)


def _depths_of(case: Case) -> _Measured:
    """What a diagnosis tried, or the one depth at which the speed was measured."""
    tried = case.run.depths
    if isinstance(tried, Known) and tried.value:
        points = [CurvePoint(at=one.depth_tokens, measured=one.tokens_per_s) for one in tried.value]
        return _Measured({point.at: point for point in points}, case.taken_at)
    rate, depth = measured_rate(case), float(depth_of(case))
    if isinstance(rate, Known) and depth:
        return _Measured({depth: CurvePoint(at=depth, measured=rate.value)}, case.taken_at)
    return _Measured({})


def _at_once_of(case: Case) -> _Measured:
    tried = case.run.at_once
    if not isinstance(tried, Known) or not tried.value:
        return _Measured({})
    points = [CurvePoint(at=one.requests, measured=one.tokens_per_s) for one in tried.value]
    return _Measured({point.at: point for point in points}, case.taken_at)


def _grid(first: float, last: float) -> list[float]:
    """Powers of two and what lies between them, up to the last, which is always there."""
    found, power = [], float(first)
    while power < last:
        found += [power * step for step in _STEPS if power * step < last]
        power *= 2
    return [*found, float(last)]


def _deepest(case: Case, measured: Iterable[float]) -> float:
    """As far as one conversation may go."""
    runtime = case.runtime
    facts = (runtime.context_per_slot, runtime.context_length, runtime.context_set, case.model.context_trained)
    context = next((fact.value for fact in facts if isinstance(fact, Known) and fact.value), USUAL_CONTEXT)
    return float(min(DEEPEST, max([context, SHALLOWEST, *measured])))


def _slots(case: Case) -> int | None:
    """How many conversations are answered at once; None where nobody says."""
    runtime = case.runtime
    return runtime.slots.value_or(runtime.max_sequences.value_or(None)) or None


def _measured_only(seen: _Measured) -> tuple[CurvePoint, ...]:
    return tuple(seen.points[at] for at in sorted(seen.points))


def _with_predictions(
    measured: dict[float, CurvePoint], grid: Iterable[float], predicted: Callable[[float], Interval | None]
) -> tuple[CurvePoint, ...]:
    """All places in order, each with what is expected there."""
    found = []
    for at in sorted({*measured, *grid}):
        point, expected = measured.get(at, CurvePoint(at=at)), predicted(at)
        found.append(_expecting(point, expected) if expected else point)
    return tuple(found)


def _expecting(point: CurvePoint, expected: Interval) -> CurvePoint:
    return msgspec.structs.replace(
        point, predicted=expected.mid, predicted_low=expected.low, predicted_high=expected.high
    )


def _at_depth(case: Case, depth: float, cure: Cure) -> Interval | None:
    found = predict(_with_depth(case, depth), cure)
    return found.tokens_per_s if isinstance(found, Prediction) else None


def _of_users(case: Case, users: int, slots: int | None, cure: Cure) -> Interval | None:
    """Those that are answered at once; the others wait. As far off as the prediction for one user alone is."""
    depth = float(depth_of(case)) or USUAL_DEPTH
    together = expected_together(case, min(users, slots or users), depth, cure)
    alone = _at_depth(case, depth, cure)
    if together is None or alone is None:
        return None
    return Interval(together * alone.low / alone.mid, together, together * alone.high / alone.mid)


def _with_depth(case: Case, depth: float) -> Case:
    run = msgspec.structs.replace(case.run, depth_tokens=estimated(int(depth), "the depth that is drawn"))
    return msgspec.structs.replace(case, run=run)
