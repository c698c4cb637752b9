"""The curve that an answer rests on, measured and simulated points apart."""

from collections.abc import Iterator

from unslow.think.fleet.capacity_beyond import FARTHEST, Beyond
from unslow.think.fleet.capacity_curve import At
from unslow.think.fleet.capacity_instance import Served
from unslow.think.fleet.capacity_limits import Limit
from unslow.think.fleet.capacity_report import CurvePoint
from unslow.think.report import Range

_DOUBLINGS = 10
"""Of one request: 512 at once are the most that physics is asked about."""


def points_of(found: Served) -> tuple[CurvePoint, ...]:
    """What was measured, and doublings of it as far as the answer goes."""
    if found.gaps:
        measured = [_measured(at, found.firsts) for at in found.gaps.points]
        return (*measured, *(_simulated(found, found.gaps, n) for n in _beyond(found.gaps, found.limit)))
    if found.steps and found.limit:
        loads = [float(2**n) for n in range(_DOUBLINGS) if 2**n <= max(1.0, found.limit.high)]
        return tuple(_point(n, found.steps(n)) for n in loads)
    return ()


def _beyond(curve: Beyond, limit: Limit | None) -> Iterator[float]:
    """Loads beyond the measured ones that the answer rests on."""
    if limit and limit.mid > curve.last:
        yield from (n for n in (2 * curve.last, FARTHEST * curve.last) if n < limit.mid)
        yield min(limit.mid, FARTHEST * curve.last)


def _measured(at: At, firsts: Beyond | None) -> CurvePoint:
    return CurvePoint(
        requests=at.requests,
        tokens_per_s=Range(low=1 / at.high_s, mid=1 / at.mid_s, high=1 / at.low_s),
        first_token_s=_first(firsts, at.requests),
        basis="measured",
        samples=at.samples,
    )


def _simulated(found: Served, curve: Beyond, requests: float) -> CurvePoint:
    return _point(requests, curve.seconds(requests), _first(found.firsts, requests))


def _point(requests: float, seconds: tuple[float, float, float], first: Range | None = None) -> CurvePoint:
    low, mid, high = seconds
    speed = Range(low=1 / high, mid=1 / mid, high=1 / low)
    return CurvePoint(requests=requests, tokens_per_s=speed, first_token_s=first, basis="simulated")


def _first(firsts: Beyond | None, requests: float) -> Range | None:
    if firsts is None:
        return None
    low, mid, high = firsts.seconds(requests)
    return Range(low=low, mid=mid, high=high)
