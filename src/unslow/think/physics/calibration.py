"""The time of a token and of a prompt on a machine that was measured.

A token costs its weights, each type at its own rate (on a processor some types wait for memory and others for
arithmetic, so one bandwidth can't stand for all), a little for each operation and for each row of a matrix, the
vocabulary that is multiplied and sampled, the keys and values it attends to, and one step of the server.
"""

from collections.abc import Iterable
from typing import NamedTuple

from unslow.catalog.quants import quants
from unslow.facts.calibration import Calibration, Demand, Rates, TypeRate
from unslow.think.physics.decode import Part
from unslow.think.physics.interval import Interval, around

LEAST_SPREAD = 1.08
"""The same model on the same machine, minutes apart."""
SPREAD_OF_A_NEIGHBOUR = 1.3
"""A type that was not measured: those of one family differ by up to a third in bytes per second."""
SPREAD_OF_A_STRANGER = 1.8
"""A type of a family that was not measured, such as one that looks weights up in a table."""
SPREAD_OF_ATTENTION = 1.4
"""It depends on the shape of the heads, of which two were measured."""
CACHED_SHARE = 0.5
"""Weights that take no more than this share of the last cache may be read from there, and faster than was measured."""
CACHED_GAIN = 1.5
DISTURBED = 1.15
"""Another program held processors while the machine was measured."""
SPREAD_OF_PREFILL = 1.15


class Calibrated(NamedTuple):
    """Seconds with an interval, and the parts that they are the sum of."""

    seconds: Interval
    parts: list[Part]


class _Rate(NamedTuple):
    """Bytes per second of a type, and how sure that is."""

    decode: float
    prefill: float
    spread: float


def calibrated_decode(demand: Demand, calibration: Calibration) -> Calibrated | None:
    """The time of one token; None where the calibration has no rates, only a scale."""
    rates = calibration.rates
    if rates is None or not rates.types:
        return None
    spread = _least_spread(calibration)
    parts = [
        Part("weights", *_weights(demand.bytes_by_type, rates, spread)),
        Part("operations", demand.operations * rates.operation_s, spread),
        Part("rows", demand.rows * rates.row_s, spread),
        Part("vocabulary", demand.vocabulary * rates.vocabulary_entry_s, spread),
        Part("attention", _attention_s(demand, rates), SPREAD_OF_ATTENTION),
        Part("step", rates.step_s, spread),
    ]
    return _summed(parts, calibration, _cached(demand, calibration))


def calibrated_prefill(demand: Demand, calibration: Calibration, prompt_tokens: int) -> Calibrated | None:
    """The time of a whole prompt into an empty context; `demand` is at depth 1. None where no prompt was measured."""
    rates = calibration.rates
    if rates is None or not any(rate.prefill_bytes_per_s for rate in rates.types):
        return None
    spread = max(_least_spread(calibration), SPREAD_OF_PREFILL)
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
    return _summed(parts, calibration)


def _least_spread(calibration: Calibration) -> float:
    error = calibration.rates.error if calibration.rates else 0.0
    return max(LEAST_SPREAD, 1 + 2 * error, DISTURBED if calibration.disturbed else 1.0)


def _summed(parts: Iterable[Part], calibration: Calibration, cached: float = 1.0) -> Calibrated:
    """The sum as the machine usually is: the costs are those of its best moments, which bound it below."""
    drift = max(1.0, calibration.drift)
    counted = [part._replace(seconds=part.seconds * drift) for part in parts if part.seconds > 0]
    seconds = sum(part.seconds for part in counted)
    spread = sum(part.seconds * part.spread for part in counted) / seconds if seconds else 1.0
    low, mid, high = around(seconds, spread)
    return Calibrated(Interval(min(low, mid / drift) / cached, mid, max(high, mid * drift)), counted)


def _cached(demand: Demand, calibration: Calibration) -> float:
    """How much faster it may be, as the weights may come from the processors' cache."""
    fits = sum(demand.bytes_by_type.values()) <= CACHED_SHARE * calibration.cache_bytes
    return CACHED_GAIN if fits and calibration.backend == "cpu" else 1.0


def _attention_s(demand: Demand, rates: Rates) -> float:
    return demand.attention_elements * rates.attention_element_s + demand.kv_bytes * rates.kv_byte_s


def _weights(
    bytes_by_type: dict[str, float], rates: Rates, least: float, *, prefill: bool = False
) -> tuple[float, float]:
    """Seconds of all types together, and the spread of the sum."""
    total, off = 0.0, 0.0
    for kind, count in bytes_by_type.items():
        rate = _rate_of(kind, rates)
        speed = rate.prefill if prefill else rate.decode
        seconds = count / speed if speed else 0.0
        total += seconds
        off += seconds * max(least, rate.spread)
    return total, off / total if total else least


def _rate_of(kind: str, rates: Rates) -> _Rate:
    """As measured, else as the measured type with the nearest bits per weight, of the same family if there is one."""
    known = [rate for rate in rates.types if rate.decode_bytes_per_s]
    for rate in known:
        if rate.type == kind:
            return _Rate(rate.decode_bytes_per_s, rate.prefill_bytes_per_s, 1.0)
    family = [rate for rate in known if _family(rate.type) == _family(kind)]
    near = min(family or known, key=lambda rate: abs(_bits(rate.type) - _bits(kind)))
    return _neighbour(near, kind, SPREAD_OF_A_NEIGHBOUR if family else SPREAD_OF_A_STRANGER)


def _neighbour(near: TypeRate, kind: str, spread: float) -> _Rate:
    """Bytes per second as the neighbour has them in decode, weights per second in prefill: there arithmetic decides."""
    return _Rate(near.decode_bytes_per_s, near.prefill_bytes_per_s * _bits(kind) / _bits(near.type), spread)


def _bits(kind: str) -> float:
    quant = quants().get(kind)
    return 8 * quant.block_bytes / quant.block_elements if quant else 16.0


def _family(kind: str) -> str:
    """The kinds of kernels: floats, K-quants, I-quants (but IQ4, which are unpacked like the plain ones), plain."""
    if kind in ("F16", "BF16", "F32", "F64"):
        return "float"
    if kind.endswith("_K"):
        return "k"
    return "table" if kind.startswith(("IQ1", "IQ2", "IQ3")) else "plain"
