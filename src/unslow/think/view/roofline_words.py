"""What a roofline shows, in one sentence."""

from collections.abc import Sequence

from unslow.think.view.report import Roof, RooflinePoint

_WHAT = {"decode": "Generating", "prefill": "Reading a prompt"}
_BOUND = {
    "memory": "waits for memory",
    "compute": "waits for arithmetic",
    "overhead": "waits for neither memory nor arithmetic but for what lies between, such as launches",
}
_ALONE = ", which one token at a time can't use at its peak"
"""Where the roof says memory: products of a matrix with one vector leave most units idle."""
_CLOSE = 1.05
"""Above a roof by more than this, it is no rounding."""


def summary_of(roofs: Sequence[Roof], points: Sequence[RooflinePoint]) -> str:
    """Every phase: how much it computes for a byte, what it waits for, and how much of its roof it reaches."""
    turn = _number(roofs[0].ridge_flops_per_byte)
    turns = {roof.device: _number(roof.ridge_flops_per_byte) for roof in roofs[1:]}
    others = "".join(f" For {device} that is {number}." for device, number in turns.items() if number != turn)
    ridge = f"{roofs[0].device}: below {turn} FLOP/byte its memory is the limit, above it its arithmetic.{others}"
    lowest = min(roof.ridge_flops_per_byte for roof in roofs)
    return " ".join([ridge, *(_said(point, lowest) for point in points)])


def _said(point: RooflinePoint, lowest_ridge: float) -> str:
    what = f"{_WHAT[point.phase]} ({_number(point.flops_per_byte)} FLOP/byte)"
    alone = point.phase == "decode" and point.bound_by == "compute" and point.flops_per_byte < lowest_ridge
    return f"{what} {_BOUND[point.bound_by]}{_ALONE if alone else ''}{_reached(point)}."


def _reached(point: RooflinePoint) -> str:
    reached = point.measured_flops_per_s or point.predicted_flops_per_s
    if not reached:
        return ""
    share = reached / point.roof_flops_per_s
    if share > _CLOSE:
        return "; it was measured above its roof, so one of these numbers is not what it seems"
    return f", and {'reaches' if point.measured_flops_per_s else 'should reach'} {share:.0%} of its roof"


def _number(value: float) -> str:
    return f"{value:.1f}" if value < 10 else f"{value:,.0f}"  # noqa: PLR2004 (a figure behind the point for few)
