"""The costs of a machine, learned from the points that were measured on it."""

import statistics
from collections.abc import Sequence

from unslow.facts.calibration import Demand, Point, Rates, TypeRate
from unslow.think.least_squares import nonnegative_least_squares

LEAST_SHARE = 0.2
"""A type's rate is learned where it makes up this much of the weights of a model."""
FEWEST_POINTS = 3


def fitted(points: Sequence[Point]) -> Rates | None:
    """The costs that explain these points best, each point weighing as much as any other; None with too few."""
    points = [point for point in points if point.decode_s > 0]
    if len(points) < FEWEST_POINTS:
        return None
    types = _learnable(points)
    decode = _solved([_decode_row(point.demand, types) for point in points], [p.decode_s for p in points])
    step, operation, row, entry, element, kv_byte, *seconds = decode
    prefill_operation, prefill_element, prefill_expert, *prefill = _prefill(points, types, step, entry)
    rates = [_type_rate(t, s, p) for t, s, p in zip(types, seconds, prefill, strict=True) if s > 0]
    return Rates(
        types=tuple(rates),
        step_s=step,
        operation_s=operation,
        row_s=row,
        vocabulary_entry_s=entry,
        attention_element_s=element,
        kv_byte_s=kv_byte,
        prefill_operation_s=prefill_operation,
        prefill_attention_element_s=prefill_element,
        prefill_expert_byte_s=prefill_expert,
        error=min(1.0, _error(points, types, decode)),
    )


def drift_of(points: Sequence[Point]) -> float:
    """How many times longer than at its best a token takes in the median, over all points; 1 with none."""
    return max(1.0, statistics.median([p.typical_s / p.decode_s for p in points if p.decode_s > 0] or [1.0]))


def _learnable(points: Sequence[Point]) -> list[str]:
    """Types that decide the time of at least one point."""
    found = {
        kind
        for point in points
        for kind, count in point.demand.bytes_by_type.items()
        if count >= LEAST_SHARE * sum(point.demand.bytes_by_type.values())
    }
    return sorted(found)


def _decode_row(demand: Demand, types: Sequence[str]) -> list[float]:
    return [
        1.0,
        demand.operations,
        demand.rows,
        demand.vocabulary,
        demand.attention_elements,
        demand.kv_bytes,
        *(demand.bytes_by_type.get(kind, 0.0) for kind in types),
    ]


def _prefill(points: Sequence[Point], types: Sequence[str], step: float, entry: float) -> list[float]:
    """Seconds in a prompt for an operation, an element of attention, a byte in an expert, and a byte of each type."""
    measured = [p for p in points if p.prefill_s > 0 and p.prompt_tokens > 1]
    if not measured:
        return [0.0, 0.0, 0.0, *(0.0 for _ in types)]
    once = [step + entry * p.demand.vocabulary for p in measured]
    seconds = [max(p.prefill_s - o, p.prefill_s / 10) for p, o in zip(measured, once, strict=True)]
    return _solved([_prefill_row(p, types) for p in measured], seconds)


def _prefill_row(point: Point, types: Sequence[str]) -> list[float]:
    demand, tokens = point.demand, point.prompt_tokens
    attended = demand.attention_elements / max(1, demand.depth_tokens) * tokens * tokens / 2
    layers = demand.layer_bytes_by_type
    experts = demand.expert_bytes * tokens
    return [demand.operations * tokens, attended, experts, *(layers.get(kind, 0.0) * tokens for kind in types)]


def _solved(rows: Sequence[Sequence[float]], seconds: Sequence[float]) -> list[float]:
    """Least squares of the relative error."""
    return nonnegative_least_squares(
        [[v / s for v in row] for row, s in zip(rows, seconds, strict=True)], [1.0] * len(seconds)
    )


def _type_rate(kind: str, seconds: float, prefill_s: float) -> TypeRate:
    return TypeRate(
        type=kind, decode_bytes_per_s=1 / seconds, prefill_bytes_per_s=1 / prefill_s if prefill_s > 0 else 0.0
    )


def _error(points: Sequence[Point], types: Sequence[str], costs: Sequence[float]) -> float:
    rows = ((_decode_row(p.demand, types), p.decode_s) for p in points)
    return statistics.median(abs(sum(a * b for a, b in zip(row, costs, strict=True)) / s - 1) for row, s in rows)
