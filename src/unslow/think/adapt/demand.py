"""What a case asks of the GPU's memory, against what it had."""

from typing import Any, NamedTuple

import msgspec

from unslow.facts.snapshot import Case
from unslow.facts.values import Known, MissingFactError, Unknown, estimated, first_known
from unslow.think.adapt.exact import exact_layers, exact_needs
from unslow.think.adapt.shape import read_shape
from unslow.think.adapt.vram import available_vram_bytes, compute_bytes, margin_bytes
from unslow.think.physics.placement import Placement, Shape, bytes_on_gpu, fitted, without_experts

_MOST_ASKED: dict[str, Any] = {"flash_attention": False, "ubatch": 2048}
"""Settings that the compute buffer grows with, at the most that is usual: llama.cpp's own batch is 2048 tokens."""


class Demand(NamedTuple):
    """Bytes for the whole model at a context, the margin the runtime keeps, and what it found free."""

    asked: float
    margin: float
    available: float

    @property
    def lacking(self) -> float:
        """What is missing for all of it to fit; negative where there is room."""
        return self.asked + self.margin - self.available


def read_demand(case: Case, context: float | None = None) -> Demand:
    """The demand at the configured context, or at another; the runtime's own sum where nothing better is known."""
    runtime = case.runtime
    if context is None and isinstance(runtime.asked_bytes, Known) and _counts_all(case):
        return Demand(runtime.asked_bytes.value, margin_bytes(case), available_vram_bytes(case))
    if context is None:
        context = first_known(runtime.context_length, runtime.context_set, case.model.context_trained).need()
    return Demand(_asked(case, context), margin_bytes(case), available_vram_bytes(case))


def must_have_room(case: Case) -> None:
    """That nothing lacks is sure where it holds for any setting that nobody knows; MissingFactError names one."""
    unknown = {n: most for n, most in _MOST_ASKED.items() if isinstance(getattr(case.runtime, n), Unknown)}
    if not unknown:
        return
    facts = {name: estimated(most, "the most that it may ask for") for name, most in unknown.items()}
    worst = msgspec.structs.replace(case, runtime=msgspec.structs.replace(case.runtime, **facts))
    if read_demand(worst).lacking > 0:
        name = next(iter(unknown))
        raise MissingFactError(getattr(case.runtime, name), f"runtime.{name}")


def _counts_all(case: Case) -> bool:
    """Whether the runtime's own sum is of the whole model: with a number of layers set, it is only of those."""
    return not isinstance(case.model.tensors, Known) and not isinstance(case.runtime.gpu_layers_set, Known)


def _asked(case: Case, context: float) -> float:
    """To the byte where the tensors are known, else from the shape."""
    needs = exact_needs(case, context)
    if needs is not None:
        return sum(need.total for need in needs[:-1])
    return bytes_on_gpu(read_shape(case), context, compute_bytes(case))


def fitting_placement(case: Case, shape: Shape, vram_bytes: float, context: float) -> Placement:
    """As much as so much GPU memory holds at this context, the margin left free; of a mixture, experts leave first."""
    room = vram_bytes - margin_bytes(case)
    layers = exact_layers(case, context, room)
    if layers is not None:
        placed = Placement(min(shape.layers, max(0, layers - 1)), output_on_gpu=layers > 0)
    else:
        placed = fitted(shape, vram_bytes, context, compute_bytes(case), margin_bytes(case))
    lacking = _asked(case, context) - room
    if placed.gpu_layers >= shape.layers or not 0 < lacking <= shape.layers * shape.layer_bytes * shape.expert_share:
        return placed
    return without_experts(shape, shape.layers, lacking, output_on_gpu=True)
