"""A setting keeps the experts of a mixture on the CPU, while the GPU has room for them.

## Why it is slow
A mixture of experts reads only a few of its experts for each token, but those few lie in RAM then, and the CPU
computes them. All layers count as "on the GPU" all the same: `offloaded 49/49` says nothing about experts that an
override sent elsewhere.

## How to confirm
The command line has `--cpu-moe`, `--n-cpu-moe` or an `--override-tensor` to the CPU; the model buffers on the CPU are
far larger than the token table; and the GPU had room for more.

## How to fix
Remove the setting where everything fits, else lower `--n-cpu-moe` until the GPU's memory is used up to its margin.

## Safety
Answers do not change. The GPU's memory fills up: leave room for what else uses it.
"""

import math

from unslow.facts.knob import Knob
from unslow.facts.snapshot import Case
from unslow.facts.units import GIB
from unslow.think.adapt.demand import read_demand
from unslow.think.adapt.placement import read_placement
from unslow.think.adapt.shape import read_shape
from unslow.think.adapt.work import Cure
from unslow.think.causes._cause import Absent, Cause, Found, Remedy, cite, free_before_load


def check(case: Case) -> Found | Absent:
    """Hold the layers whose experts were sent away against those that lack room."""
    overrides = case.runtime.tensor_overrides.value_or([])
    if not overrides:
        return Absent("no setting places tensors by name")
    if not case.model.experts.need():
        return Absent("the model has no experts")
    shape, demand = read_shape(case), read_demand(case)
    away = shape.layers - read_placement(case, shape).gpu_layers
    must_stay = max(0, math.ceil(demand.lacking / shape.layer_bytes))
    if away < 1 or must_stay >= away:
        return Absent(f"the experts of {away:.0f} layers are on the CPU, and {must_stay} lack room")
    cure = Cure(vram_bytes=demand.available)
    why = "remove the setting: everything fits" if not must_stay else f"only {must_stay} layers lack room"
    return Found(
        because=f"{' '.join(overrides)} keeps experts on the CPU; the whole model asks for "
        f"{demand.asked / GIB:.1f} GiB, and the GPU had {demand.available / GIB:.1f} GiB free",
        evidence=(cite(case, "runtime.tensor_overrides", f"{must_stay} layers lack room"), *free_before_load(case)),
        cure=cure,
        remedies=(Remedy(Knob.EXPERTS_ON_CPU.to(must_stay or None, why), cure),),
    )


CAUSE = Cause(
    title="A setting keeps experts on the CPU",
    phase="decode",
    needs=("machine.gpus", "runtime.tensor_overrides", "model.experts"),
    check=check,
    gpu_only=True,
)
