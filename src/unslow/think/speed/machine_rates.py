"""The rates of one machine: learned from what was measured on it, and the time of a token and of a prompt by them."""

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from unslow.facts.calibration import Calibration, Demand, Point, Rates, TypeRate
from unslow.facts.model import Blueprint, Tensor, layer_of
from unslow.think.least_squares import nonnegative_least_squares
from unslow.think.memory.llama_cpp.hyperparameters import Hyper
from unslow.think.physics.placement import element_bytes
from unslow.think.physics.terms import Interval, interval_around
from unslow.think.physics.token_time import Part

_LOOKED_UP = ("token_embd.weight", "position_embd.weight", "token_types.weight", "rope_freqs.weight")
"""Tables of which a token reads one row."""
_OUTPUT = "output.weight"
_EXPERTS = "_exps."
LEAST_SHARE = 0.2  # a type's rate is learned where it makes up this much of the weights of a model
LEAST_BYTE_S = 1e-17  # seconds per byte; less is rounding of the fit, a rate that no machine has
FEWEST_POINTS = 3
LEAST_SPREAD = 1.08  # the same model on the same machine, minutes apart
SPREAD_OF_A_NEIGHBOUR = 1.3  # A type that was not measured: in a family, bytes per second differ by up to a third
SPREAD_OF_ANOTHER_FAMILY = 1.8  # a type of a family that was not measured, such as one that looks weights up in a table
SPREAD_OF_ATTENTION = 1.4  # it depends on the shape of the heads, of which two were measured
SPREAD_OF_PREFILL = 1.15
CACHED_SHARE = 0.5  # Weights within this share of the last cache may be read from there, faster than was measured
CACHED_GAIN = 1.5
DISTURBED = 1.15  # another program held processors while the machine was measured


class CalibratedTime(NamedTuple):
    """Seconds with an interval, and the parts that they are the sum of."""

    seconds: Interval
    parts: list[Part]


def demand_of(plan: Blueprint, depth: int = 1, kv_types: tuple[str, str] = ("f16", "f16")) -> Demand:
    """The demand of one token with so many before it, all on one device; UserError for a model that never loads."""
    reads = list(_reads(plan))
    layers = [read for read in reads if read.in_layer]
    hyper = Hyper(plan)
    elements, kv_bytes = _attention(hyper, depth, kv_types)
    by_type: dict[str, float] = defaultdict(float)
    by_type_in_layers: dict[str, float] = defaultdict(float)
    for read in reads:
        by_type[read.tensor.type] += read.bytes
        if read.in_layer:
            by_type_in_layers[read.tensor.type] += read.bytes
    return Demand(
        bytes_by_type=dict(by_type),
        layer_bytes_by_type=dict(by_type_in_layers),
        expert_bytes=sum(read.bytes for read in layers if _EXPERTS in read.tensor.name),
        layers=len(plan.layer_tensors),
        operations=len(layers),
        rows=sum(read.rows for read in layers),
        vocabulary=hyper.vocabulary,
        attention_elements=elements,
        kv_bytes=kv_bytes,
        depth_tokens=depth,
    )


class _Read(NamedTuple):
    """A tensor, and what a token reads of it."""

    tensor: Tensor
    in_layer: bool
    bytes: float
    rows: float  # Dot products: one for each row of a matrix, none for the elements of a vector


def _reads(plan: Blueprint) -> Iterator[_Read]:
    tied = _OUTPUT not in plan.by_name
    experts = plan.count("expert_count")
    used = min(1.0, plan.count("expert_used_count") / experts) if experts else 1.0
    last = plan.count("block_count") - plan.count("nextn_predict_layers")  # layers that only draft are not passed
    for tensor in plan.tensors:
        layer = layer_of(tensor.name)
        if layer >= last:
            continue
        if layer < 0 and tensor.name.endswith(_LOOKED_UP) and not (tied and tensor.name == _LOOKED_UP[0]):
            continue
        share, others = used if _EXPERTS in tensor.name else 1.0, tensor.shape[1:]
        yield _Read(tensor, layer >= 0, tensor.bytes * share, math.prod(others) * share if others else 0.0)


def _attention(hyper: Hyper, depth: int, kv_types: tuple[str, str]) -> tuple[float, float]:
    """Elements of keys and values for each query head, and bytes of keys and values, at this depth."""
    elements, count = 0.0, 0.0
    key_bytes, value_bytes = (element_bytes(kind) for kind in kv_types)
    for layer in range(min(hyper.layers, len(hyper.blueprint.layer_tensors))):
        if not hyper.attends(layer):
            continue
        seen = min(depth, hyper.window) if hyper.layer_windows[layer] and hyper.window else depth
        key, value = hyper.key_length(layer), hyper.value_length(layer)
        elements += seen * hyper.heads[layer] * (key + value)
        count += seen * hyper.kv_heads[layer] * (key * key_bytes + (0 if hyper.is_latent else value * value_bytes))
    return elements, count


def fit_rates(points: Sequence[Point]) -> Rates | None:
    """The costs that explain these points best, each point weighing as much as any other; None with too few."""
    points = [point for point in points if point.decode_s > 0]
    if len(points) < FEWEST_POINTS:
        return None
    # Types that decide the time of at least one point
    sums = [point.demand.bytes_by_type for point in points]
    types = sorted({kind for by in sums for kind, count in by.items() if count >= LEAST_SHARE * sum(by.values())})
    rows = []
    for d in (point.demand for point in points):
        fixed = (1.0, d.operations, d.rows, d.vocabulary, d.attention_elements, d.kv_bytes)
        rows.append([*fixed, *(d.bytes_by_type.get(kind, 0.0) for kind in types)])
    measured = [point.decode_s for point in points]
    decode = _solve(rows, measured)
    step, operation, row, entry, element, kv_byte, *seconds = decode
    prefill_operation, prefill_element, prefill_expert, *prefill = _prefill(points, types, step, entry)
    rates = [
        TypeRate(type=t, decode_bytes_per_s=1 / s, prefill_bytes_per_s=1 / p if p > LEAST_BYTE_S else 0.0)
        for t, s, p in zip(types, seconds, prefill, strict=True)
        if s > LEAST_BYTE_S
    ]
    expected = (sum(a * b for a, b in zip(row, decode, strict=True)) for row in rows)
    error = statistics.median(abs(e / s - 1) for e, s in zip(expected, measured, strict=True))
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
        error=min(1.0, error),
    )


def _prefill(points: Sequence[Point], types: Sequence[str], step: float, entry: float) -> list[float]:
    """Seconds in a prompt for an operation, an element of attention, a byte in an expert, and a byte of each type."""
    measured = [p for p in points if p.prefill_s > 0 and p.prompt_tokens > 1]
    if not measured:
        return [0.0, 0.0, 0.0, *(0.0 for _ in types)]
    once = [step + entry * p.demand.vocabulary for p in measured]
    seconds = [max(p.prefill_s - o, p.prefill_s / 10) for p, o in zip(measured, once, strict=True)]
    rows = []
    for point in measured:
        demand, tokens = point.demand, point.prompt_tokens
        attended = demand.attention_elements / max(1, demand.depth_tokens) * tokens * tokens / 2
        by_type = (demand.layer_bytes_by_type.get(kind, 0.0) * tokens for kind in types)
        rows.append([demand.operations * tokens, attended, demand.expert_bytes * tokens, *by_type])
    return _solve(rows, seconds)


def _solve(rows: Sequence[Sequence[float]], seconds: Sequence[float]) -> list[float]:
    """Least squares of the relative error."""
    return nonnegative_least_squares(
        [[v / s for v in row] for row, s in zip(rows, seconds, strict=True)], [1.0] * len(seconds)
    )


def drift_of(points: Sequence[Point]) -> float:
    """How many times longer than at its best a token takes in the median, over all points; 1 with none."""
    return max(1.0, statistics.median([p.typical_s / p.decode_s for p in points if p.decode_s > 0] or [1.0]))


def calibrated_decode(demand: Demand, calibration: Calibration) -> CalibratedTime | None:
    """The time of one token; None where the calibration has no rates, only a scale."""
    # A token costs its weights, each type at its own rate (on a processor some types wait for memory and others for
    # arithmetic, so one bandwidth can't stand for all), a little for each operation and for each row of a matrix, the
    # vocabulary that is multiplied and sampled, the keys and values it attends to, and one step of the server.
    rates = calibration.rates
    if rates is None or not rates.types:
        return None
    spread = max(LEAST_SPREAD, 1 + 2 * rates.error, DISTURBED if calibration.disturbed else 1.0)
    attention = demand.attention_elements * rates.attention_element_s + demand.kv_bytes * rates.kv_byte_s
    parts = [
        Part("weights", *_weights(demand.bytes_by_type, rates, spread)),
        Part("operations", demand.operations * rates.operation_s, spread),
        Part("rows", demand.rows * rates.row_s, spread),
        Part("vocabulary", demand.vocabulary * rates.vocabulary_entry_s, spread),
        Part("attention", attention, SPREAD_OF_ATTENTION),
        Part("step", rates.step_s, spread),
    ]
    # How much faster it may be, as the weights may come from the processors' cache
    fits = sum(demand.bytes_by_type.values()) <= CACHED_SHARE * calibration.cache_bytes
    cached = CACHED_GAIN if fits and calibration.backend == "cpu" else 1.0
    return _sum_parts(parts, calibration, cached)


def calibrated_prefill(demand: Demand, calibration: Calibration, prompt_tokens: int) -> CalibratedTime | None:
    """The time of a whole prompt into an empty context; `demand` is at depth 1. None where no prompt was measured."""
    rates = calibration.rates
    if rates is None or not any(rate.prefill_bytes_per_s for rate in rates.types):
        return None
    spread = max(SPREAD_OF_PREFILL, 1 + 2 * rates.error, DISTURBED if calibration.disturbed else 1.0)
    weights_s, weights_spread = _weights(demand.layer_bytes_by_type, rates, spread, prefill=True)
    # a token attends to half of the prompt on average, and `demand` has what it attends to in one token
    attended = demand.attention_elements / max(1, demand.depth_tokens) * prompt_tokens * prompt_tokens / 2
    parts = [
        Part("weights", weights_s * prompt_tokens, weights_spread),
        Part("operations", demand.operations * prompt_tokens * rates.prefill_operation_s, spread),
        Part("experts", demand.expert_bytes * prompt_tokens * rates.prefill_expert_byte_s, spread),
        Part("attention", attended * rates.prefill_attention_element_s, SPREAD_OF_ATTENTION),
        Part("vocabulary", demand.vocabulary * rates.vocabulary_entry_s, spread),
        Part("step", rates.step_s, spread),
    ]
    return _sum_parts(parts, calibration)


def _weights(
    bytes_by_type: dict[str, float], rates: Rates, least: float, *, prefill: bool = False
) -> tuple[float, float]:
    total, off = 0.0, 0.0
    for kind, count in bytes_by_type.items():
        speed, spread = _rate_of(kind, rates, prefill=prefill)
        seconds = count / speed if speed else 0.0
        total += seconds
        off += seconds * max(least, spread)
    return total, off / total if total else least


def _rate_of(kind: str, rates: Rates, *, prefill: bool) -> tuple[float, float]:
    """As measured, else as the measured type with the nearest bits per weight, of the same family if there is one."""
    known = [rate for rate in rates.types if rate.decode_bytes_per_s]
    for rate in known:
        if rate.type == kind:
            return rate.prefill_bytes_per_s if prefill else rate.decode_bytes_per_s, 1.0
    family = [rate for rate in known if _family(rate.type) == _family(kind)]
    size = element_bytes(kind)
    near = min(family or known, key=lambda rate: abs(element_bytes(rate.type) - size))
    spread = SPREAD_OF_A_NEIGHBOUR if family else SPREAD_OF_ANOTHER_FAMILY
    # Bytes per second as the neighbour has them in decode, weights per second in prefill: there arithmetic decides
    if prefill:
        return near.prefill_bytes_per_s * size / element_bytes(near.type), spread
    return near.decode_bytes_per_s, spread


def _family(kind: str) -> str:
    """The kinds of kernels: floats, K-quants, I-quants (but IQ4, which are unpacked like the plain ones), plain."""
    if kind in ("F16", "BF16", "F32", "F64"):
        return "float"
    if kind.endswith("_K"):
        return "k"
    return "table" if kind.startswith(("IQ1", "IQ2", "IQ3")) else "plain"


def _sum_parts(parts: Iterable[Part], calibration: Calibration, cached: float = 1.0) -> CalibratedTime:
    """The sum as the machine usually is: the costs are those of its best moments, which bound it below."""
    drift = max(1.0, calibration.drift)
    counted = [part._replace(seconds=part.seconds * drift) for part in parts if part.seconds > 0]
    seconds = sum(part.seconds for part in counted)
    spread = sum(part.seconds * part.spread for part in counted) / seconds if seconds else 1.0
    low, mid, high = interval_around(seconds, spread)
    return CalibratedTime(Interval(min(low, mid / drift) / cached, mid, max(high, mid * drift)), counted)
