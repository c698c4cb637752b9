"""The memory wall of a case: the batching curve, and quant by quant the speed."""

import math
from collections.abc import Iterable, Iterator

from unslow.app.fit.models import Found, as_quant
from unslow.app.predict.calibrated import measured_case
from unslow.app.predict.cases import Case, case_of
from unslow.catalog.mixes import mixes_from_large_to_small
from unslow.commands.predict import PredictRequest
from unslow.facts.blueprint import Blueprint
from unslow.facts.calibration import Calibration
from unslow.facts.errors import UserError
from unslow.facts.values import Unknown
from unslow.think.hardware import Hardware
from unslow.think.physics.interval import inverse
from unslow.think.speed import outcome
from unslow.think.speed.batching_curve import BatchPoint, batching_curve, ridge
from unslow.think.speed.report import BatchShown, ExplainShown, QuantShown

_SAME = 0.004
_ALSO = ("Q4_0",)
"""Mixes that are no longer offered as a matter of course, and still compared."""


def explained(
    found: Found, case: Case, hardware: Hardware, request: PredictRequest, calibration: Calibration | None = None
) -> ExplainShown:
    """What more conversations and other quants would give; by a calibration, where it knows the speed of one."""
    curve = batching_curve(case.question, case.group)
    known = _calibrated(found.blueprint, calibration, request)
    factor = known / curve[0].together if known else 1.0
    return ExplainShown(
        batching=tuple(_batch(point, case, factor) for point in curve),
        ridge_conversations=ridge(case.question),
        quants=tuple(_quants(found, hardware, request, calibration)),
    )


def _calibrated(plan: Blueprint, calibration: Calibration | None, request: PredictRequest) -> float | None:
    """Tokens per second of one conversation by the calibration; None where it has no rates."""
    measured = measured_case(plan, calibration, request) if calibration else None
    return inverse(measured.decode.seconds).mid if measured else None


def _batch(point: BatchPoint, case: Case, factor: float) -> BatchShown:
    return BatchShown(
        conversations=point.conversations,
        tokens_per_s=point.together * factor,
        each_tokens_per_s=point.each * factor,
        fits=case.holds(point.conversations),
    )


def _quants(
    found: Found, hardware: Hardware, request: PredictRequest, calibration: Calibration | None
) -> Iterator[QuantShown]:
    """The usual mixes from the largest to the smallest, and the model's own."""
    names = [*(mix.name for mix in mixes_from_large_to_small()), *_ALSO]
    plans = [(name, found.blueprint if name == found.quant else _plan(found, name)) for name in names]
    if found.quant not in names:
        plans.append((found.quant, found.blueprint))
    shown = [_quant(name, plan, hardware, request, calibration) for name, plan in plans if plan is not None]
    return _apart(sorted((quant for quant in shown if quant), key=lambda q: -q.weights_bytes), found.quant)


def _apart(quants: Iterable[QuantShown], own: str) -> Iterator[QuantShown]:
    """Those that differ in size: of a model whose experts stay as they are, most quants are the same."""
    last = math.inf
    for quant in quants:
        if quant.name == own or quant.weights_bytes < last * (1 - _SAME):
            last = quant.weights_bytes
            yield quant


def _plan(found: Found, name: str) -> Blueprint | None:
    try:
        return as_quant(found.blueprint, name)
    except UserError:  # a mix that these tensors can't have
        return None


def _quant(
    name: str, plan: Blueprint, hardware: Hardware, request: PredictRequest, calibration: Calibration | None
) -> QuantShown | None:
    other = case_of(Found(name, plan, name, "", 0), hardware, request)
    if isinstance(other, Unknown):
        return None
    weights = sum(t.bytes for t in plan.tensors)
    elements = sum(_elements(t.shape) for t in plan.tensors)
    placement = other.placement
    return QuantShown(
        name=name,
        weights_bytes=weights,
        bits_per_weight=8 * weights / max(1, elements),
        fits=None if other.setup is None else other.setup.left() >= 0,
        gpu_layers=None if placement.gpu_layers >= placement.all_layers else placement.gpu_layers,
        experts_on_cpu=placement.experts_on_cpu,
        tokens_per_s=_calibrated(plan, calibration, request) or outcome.decode(other.question, other.group).rate.mid,
    )


def _elements(shape: tuple[int, ...]) -> int:
    product = 1
    for length in shape:
        product *= length
    return product
