"""What a case asks of the GPU's memory, against what it had."""

from typing import NamedTuple

from unslow.facts.snapshot import Case
from unslow.facts.values import first_known
from unslow.think.adapt.shape import read_shape
from unslow.think.adapt.vram import available_vram_bytes, compute_bytes, margin_bytes
from unslow.think.physics.placement import bytes_on_gpu


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
    """The demand at the configured context, or at another."""
    if context is None:
        runtime = case.runtime
        context = first_known(runtime.context_length, runtime.context_set, case.model.context_trained).need()
    asked = bytes_on_gpu(read_shape(case), context, compute_bytes(case))
    return Demand(asked, margin_bytes(case), available_vram_bytes(case))
