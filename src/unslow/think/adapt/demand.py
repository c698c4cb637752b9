"""What a case asks of the GPU's memory, what it has, and who else holds some."""

from typing import NamedTuple

from unslow.facts.machine import GpuProcess
from unslow.facts.snapshot import Case
from unslow.facts.values import first_known
from unslow.think.adapt.placement import available_vram_bytes, compute_bytes, gpus_of, margin_bytes
from unslow.think.adapt.shape import read_shape
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


def layers_left_on_host(case: Case) -> int:
    """Layers that are not, or not as a whole, on the GPU: the runtime counts the output as one more."""
    layers, on_gpu = case.runtime.layers.need(), case.runtime.gpu_layers.need()
    return max(0, layers - on_gpu, case.runtime.overflowing_layers.value_or(0))


def strangers(case: Case) -> list[GpuProcess]:
    """Processes that hold memory on the GPUs and are not the runtime, the largest first."""
    own = case.runtime.pid.value_or(None)
    found = [p for g in gpus_of(case) for p in g.processes.value_or([]) if p.pid != own]
    return sorted(found, key=lambda p: -p.vram_bytes.value_or(0))
