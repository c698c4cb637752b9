"""Experts of a mixture are computed by the CPU, more of them than the GPU's memory asks for.

## Why it is slow
A mixture of experts reads only a few of its experts for each token, but those few lie in RAM then, and the CPU
computes them. All layers count as "on the GPU" all the same: `offloaded 49/49` says nothing about experts that an
override sent elsewhere. Where the mixture is larger than the GPU's memory, whole layers on the CPU are the worst way
to divide it: attention and the shared parts, which every token reads, leave the GPU with them.

Guides say that the active parameters decide how much GPU memory a mixture takes, but all experts have to lie
somewhere: the total sets the memory, the active part the speed.

## How to confirm
The command line has `--cpu-moe`, `--n-cpu-moe` or an `--override-tensor` to the CPU whose pattern is found in the names
of experts (`blk.0.ffn_up_exps.weight`); the model buffers on the CPU are far larger than the token table; and the GPU
had room for more. Or the model is a mixture (its name has `A3B` or the
like), larger than the GPU's memory, and runs on the CPU in whole layers.

## What it is not
A dense model with layers on the CPU: that is a spill. Nor experts for which the GPU has no room, in the number that
has to stay outside: that is the best there is.

## How to fix
Remove the setting where everything fits, else keep all layers on the GPU and only as many experts on the CPU as lack
room: lower the number until the GPU's memory is used up to its margin.
- llama.cpp: `--n-cpu-moe N` instead of `--cpu-moe` or `-ot exps=CPU`; without any of them it fits by itself
- Ollama: take `LLAMA_ARG_N_CPU_MOE`, `LLAMA_ARG_CPU_MOE` and `LLAMA_ARG_OVERRIDE_TENSOR` out of its environment
- LM Studio: "Number of layers for which to force MoE weights onto CPU" lower
- KoboldCpp: `--moecpu N` lower

## Safety
Answers do not change. The GPU's memory fills up: leave room for what else uses it.
"""

import math
from typing import NamedTuple

from unslow.facts.account import Topic
from unslow.facts.knob import Knob
from unslow.facts.snapshot import Case
from unslow.facts.values import GIB, Known, MissingFactError
from unslow.think.case.demand import ACTIVE_PART, Demand, is_mixture, read_demand, read_shape
from unslow.think.case.gpus import SURELY_FREE, is_unified, vram_total_bytes
from unslow.think.case.narrative import experiment_on, is_report, lost_since_a_version, names_phase, remarks_on
from unslow.think.case.overrides import layers_without_experts, overrides_of, sent_away
from unslow.think.case.placement import Split, cpu_computes, read_placement, seen_split
from unslow.think.case.vram import available_vram_bytes, buffers_of
from unslow.think.case.work import Cure
from unslow.think.causes._cause import Absent, Cause, Found, Remedy, Suspected, check_by
from unslow.think.causes._facts import cite, cite_comparison, cite_remarks, free_before_load, if_known, need
from unslow.think.physics.placement import COMPUTE_BUFFER_BYTES, Shape

_ALL_ON_CPU = {
    "gpu_layers_set": "a setting keeps all layers on the CPU",
    "gpu_layers": "all layers are on the CPU",
    "vram_share": "the whole model is on the CPU",
}
"""How the CPU comes to compute whole layers, by the fact that is then 0."""
FEWEST_BITS = 4.0  # Of a weight, where only the number of parameters is known: a usual quant is hardly smaller


def _by_buffers(case: Case) -> Found | None:
    """Layers that count as on the GPU while most of their bytes lie on the host: whoever sent them, it is experts."""
    if isinstance(case.runtime.tensor_overrides, Known) or not is_mixture(case) or seen_split(case):
        return None
    shape, counted = read_shape(case), case.runtime.gpu_layers.value_or(0)
    away = min(shape.layers, counted) - read_placement(case, shape).with_experts
    host = sum(b.bytes for b in buffers_of(case, "model", on_gpu=False)) - case.model.token_table_bytes.value_or(0)
    if away < 1 or host < shape.layer_bytes:
        return None
    demand = read_demand(case)  # the runtime's own sum leaves out what was sent away
    demand = demand._replace(asked=max(demand.asked, case.model.weights_bytes.value_or(0) + COMPUTE_BUFFER_BYTES))
    stay = _must_stay(shape, demand.lacking)
    if stay.layers >= away:
        return None
    cure = Cure(vram_bytes=demand.available, experts_on_gpu=True)
    return Found(
        because=f"{counted} layers count as on the GPU, yet {host / GIB:.1f} GiB of their weights lie on the host; the "
        f"whole model asks for {demand.asked / GIB:.1f} GiB, and the GPU had {demand.available / GIB:.1f} GiB free",
        evidence=(cite(case, "runtime.buffers", stay.words), cite(case, "runtime.gpu_layers"), *free_before_load(case)),
        cure=cure,
        remedies=(Remedy(Knob.EXPERTS_ON_CPU.to(stay.layers or None if stay.exact else None, stay.words), cure),),
    )


def _by_words(case: Case) -> Found | Suspected | None:
    """A setting that sends experts to the CPU, and somebody who sees room on the GPU or the CPU held up by them."""
    said = remarks_on(case, Topic.EXPERTS_ON_CPU)
    other_phase = names_phase(case, "prefill", "first_token", "load") or remarks_on(case, Topic.COPIES_TO_GPU)
    if not said or other_phase or not is_mixture(case):
        return None
    room, held = remarks_on(case, Topic.VRAM_FREE), remarks_on(case, Topic.GPU_UNUSED, Topic.GPU_IDLE)
    tried = experiment_on(case, Topic.EXPERTS)
    # All of the model fits on the GPU, whatever else a desktop holds there
    weights, vram = case.model.weights_bytes.value_or(0), vram_total_bytes(case) or 0.0
    fits = bool(weights) and weights + COMPUTE_BUFFER_BYTES < SURELY_FREE * vram
    if not room and not held and tried is None and not fits:
        return Suspected(said[0].text, "machine.gpus.0.vram_free_bytes", CAUSE.ask)
    shown = (
        *cite_remarks(case, (*said[:1], *room[:1], *held[:1])),
        *((cite_comparison(case, tried),) if tried else ()),
    )
    why = "the GPU has room for more of them" if room or fits else "the GPU waits for the CPU"
    return Found(
        because=f"experts are computed by the CPU, and {why}: {said[0].text}",
        evidence=shown,
        remedies=(Remedy(Knob.EXPERTS_ON_CPU.to(None, "only as many on the CPU as lack room on the GPU")),),
        explains=("weights_spill_to_ram", "gpu_layers_set_too_low", "model_outside_envelope", "gpu_backend_not_loaded"),
    )


def _by_setting(case: Case) -> Found | Absent | None:
    """The layers whose experts were sent away, against those that lack room."""
    need(case, "runtime.tensor_overrides")
    sent = sent_away(case)
    if sent.others and not sent.experts and not seen_split(case):
        return Absent("a setting sends tensors to the CPU, and no experts among them")
    if not sent.experts and not sent.unread:
        return None if is_mixture(case) else Absent("no setting sends experts to the CPU")
    if not case.model.experts.need():
        return Absent("the model has no experts")
    shape, demand = read_shape(case), _demand(case)
    away, stay = _away(case, shape), _must_stay(shape, demand.lacking)
    # By the label of a card alone, half of the experts must fit before it is said
    most = away if if_known(available_vram_bytes, case) is not None else away / 2
    if away < 1 or stay.layers >= most:
        read_demand(case)  # only what was really free may rule it out
        return Absent(f"the experts of {away:.0f} layers are on the CPU, and {stay.words}")
    cure = Cure(vram_bytes=demand.available, experts_on_gpu=True)
    why = stay.words if stay.layers else "remove the setting: everything fits"
    overrides = overrides_of(case, "experts") or overrides_of(case, "unread")
    return Found(
        because=f"{' '.join(overrides) or 'a setting'} keeps experts on the CPU; the whole model asks for "
        f"{demand.asked / GIB:.1f} GiB, and the GPU had {demand.available / GIB:.1f} GiB free",
        evidence=(cite(case, "runtime.tensor_overrides", stay.words), *free_before_load(case)),
        cure=cure,
        remedies=(Remedy(Knob.EXPERTS_ON_CPU.to(stay.layers or None if stay.exact else None, why), cure),),
        explains=("weights_spill_to_ram",) if is_report(case) else None,
    )


class _Stay(NamedTuple):
    """Layers whose experts have no room on the GPU, in words too; at least so many where it is not exact."""

    layers: int
    words: str
    exact: bool = True


def _must_stay(shape: Shape, lacking: float) -> _Stay:
    """Only its experts leave with a layer: what lacks room is divided by their bytes."""
    if lacking <= 0:
        return _Stay(0, "none lacks room")
    if not shape.expert_share:
        return _Stay(
            math.ceil(lacking / shape.layer_bytes), "only as many of them as lack room belong there", exact=False
        )
    layers = math.ceil(lacking / (shape.layer_bytes * shape.expert_share))
    if layers > shape.layers:
        return _Stay(layers, "even without any of them there is no room for all layers")
    return _Stay(layers, f"only {layers} layers lack room")


def _by_place(case: Case) -> Absent | None:
    """All of it on the GPU, with nothing set apart: by what was allocated or counted, or by what the process holds."""
    if isinstance(case.runtime.tensor_overrides, Known) and is_mixture(case) and cpu_computes(case) is False:
        return Absent("all experts are on the GPU")
    return None


def _demand(case: Case) -> Demand:
    """What the whole model asks for, against what was free; of a card that is only named, what surely is."""
    try:
        return read_demand(case)
    except MissingFactError:
        vram, weights = vram_total_bytes(case), case.model.weights_bytes
        if vram is None or not isinstance(weights, Known):
            raise
        return Demand(weights.value + COMPUTE_BUFFER_BYTES, 0.0, SURELY_FREE * vram)


def _away(case: Case, shape: Shape) -> float:
    """Layers whose experts are on the CPU: by what was allocated, else by the settings."""
    try:
        return shape.layers - read_placement(case, shape).with_experts
    except MissingFactError:
        named = layers_without_experts(case, shape.layers)
        if named is None:
            raise
        return named


def _by_size(case: Case) -> Found | Absent | None:
    """A mixture that is larger than the GPU's memory and is divided by whole layers."""
    if not is_mixture(case):
        return Absent("the model is no mixture of experts") if case.model.experts.value_or(1) == 0 else None
    if is_unified(case) or sent_away(case).of_layers or lost_since_a_version(case):
        return None
    none_on_gpu = (name for name in _ALL_ON_CPU if getattr(case.runtime, name).value_or(None) == 0)
    where = seen_split(case) or next((Split(_ALL_ON_CPU[name], f"runtime.{name}") for name in none_on_gpu), None)
    # The bytes of the weights, at least: as known, by the parameters, or by the size in the name
    size = ACTIVE_PART.search(case.model.name.value_or(""))
    billions = float(size[1]) * 1e9 if size and size[1] else 0.0
    parameters = case.model.parameters.value_or(0) or billions
    vram, weights = vram_total_bytes(case), float(case.model.weights_bytes.value_or(parameters * FEWEST_BITS / 8))
    if not where or not vram or not weights:
        return None
    if weights < vram:
        return None if isinstance(case.runtime.gpu_layers_set, Known) else Absent("it would fit: another cause")
    return Found(
        because=f"{where.words}, and the model is a mixture of experts of about {weights / GIB:.0f} GiB on "
        f"{vram / GIB:.0f} GiB of GPU memory: only experts should be on the CPU, with everything else of all layers on "
        "the GPU",
        evidence=(
            cite(case, where.fact),
            cite(case, "model.name" if isinstance(case.model.name, Known) else "model.experts"),
        ),
        remedies=(
            Remedy(Knob.EXPERTS_ON_CPU.to(None, "all layers on the GPU, and experts on the CPU only as far as needed")),
        ),
        explains=("weights_spill_to_ram", "gpu_layers_set_too_low", "model_outside_envelope", "gpu_backend_not_loaded"),
    )


CAUSE = Cause(
    title="Experts are computed by the CPU",
    phase="decode",
    needs=(
        ("model.experts", "model.name"),
        (
            "runtime.tensor_overrides",
            "runtime.gpu_layers",
            "runtime.vram_share",
            "runtime.gpu_layers_set",
            "account.remarks",
        ),
    ),
    check=check_by(_by_setting, _by_buffers, _by_place, _by_size, _by_words),
    on_gpu=True,
    ggml_only=True,
    gpu_only=True,
    explains=("weights_spill_to_ram", "prefill_pcie_bound"),
    ask="{command_line}, and {placement}",
)
