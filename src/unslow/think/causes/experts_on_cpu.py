"""The CPU computes experts of a mixture, more of them than the GPU's memory requires.

## Why it is slow
A mixture of experts reads only a few of its experts for each token, but where those few are in RAM, the CPU computes
them. All layers still count as "on the GPU": `offloaded 49/49` says nothing about experts that an override sent
elsewhere. Where the mixture is larger than the GPU's memory, whole layers on the CPU are the worst way to divide it:
attention and the shared parts, which every token reads, leave the GPU with them.

Guides say that the active parameters decide how much GPU memory a mixture takes, but all experts need memory: the
total sets the memory, the active part the speed.

## How to confirm
The command line has `--cpu-moe`, `--n-cpu-moe` or an `--override-tensor` to the CPU whose pattern matches the names of
experts (`blk.0.ffn_up_exps.weight`); the model buffers on the CPU are far larger than the token table; and the GPU had
room for more. Or the model is a mixture (its name has `A3B` or similar), larger than the GPU's memory, and runs on the
CPU in whole layers.

## What it is not
A dense model with layers on the CPU: that is a spill. Nor just as many experts as the GPU has no room for: that is the
best split.

## How to fix
Remove the setting where everything fits, else keep all layers on the GPU and only the experts that do not fit on the
CPU: lower the number until the GPU's memory is used up to its margin.
- llama.cpp: `--n-cpu-moe N` instead of `--cpu-moe` or `-ot exps=CPU`; without any of them it fits the layers itself
- Ollama: take `LLAMA_ARG_N_CPU_MOE`, `LLAMA_ARG_CPU_MOE` and `LLAMA_ARG_OVERRIDE_TENSOR` out of its environment
- LM Studio: "Number of layers for which to force MoE weights onto CPU" lower
- KoboldCpp: `--moecpu N` lower

## Safety
Answers do not change. The GPU's memory fills up: leave room for what else uses it.
"""

from unslow.facts.account import Topic
from unslow.facts.knob import Knob
from unslow.facts.values import GIB, Known
from unslow.think.case.cure import Cure
from unslow.think.case.gpus import SURELY_FREE
from unslow.think.case.group import if_known
from unslow.think.case.memory import Demand
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, Cause, Found, Route, Suspected, all_of, finding
from unslow.think.physics.placement import COMPUTE_BUFFER_BYTES

BY_LAYERS = ("weights_spill_to_ram", "gpu_layers_set_too_low", "model_outside_envelope", "gpu_backend_not_loaded")
"""What a mixture explains that runs on the CPU in whole layers."""


def tensor_overrides(case: CaseView) -> Found | Absent | None:
    """The layers whose experts a setting sends to the CPU, against those that do not fit."""
    case.need("runtime.placement.tensor_overrides")
    sent = case.placement.sent_to_cpu
    if sent.others and not sent.experts and not case.placement.split:
        return Absent("a setting sends tensors to the CPU, but no experts")
    if not sent.experts and not sent.unread:
        return None if case.memory.is_mixture else Absent("no setting sends experts to the CPU")
    if not case.model.experts.need():
        return Absent("the model has no experts")
    demand, vram, weights = if_known(case.memory.demand), case.vram.total_bytes, case.model.weights_bytes.get()
    if demand is None and vram is not None and weights is not None:  # by what is surely free on such a GPU
        demand = Demand(weights + COMPUTE_BUFFER_BYTES, 0.0, SURELY_FREE * vram)
    demand = demand or case.memory.demand()
    away, stay = case.placement.expert_layers_on_host, case.memory.experts_without_room(demand.lacking)
    # By the size of a card alone, half of the experts must fit before it counts
    most = away if case.vram.available_is_known else away / 2
    if away < 1 or stay.layers >= most:
        case.memory.demand()  # only what was really free may rule it out
        return Absent(f"the experts of {away:.0f} layers are on the CPU, and {stay.words}")
    overrides = case.placement.overrides_sending("experts") or case.placement.overrides_sending("unread")
    return finding(
        case,
        f"{' '.join(overrides) or 'a setting'} keeps experts on the CPU; the whole model needs "
        f"{demand.asked / GIB:.1f} GiB, and the GPU had {demand.available / GIB:.1f} GiB free",
        case.cite("runtime.placement.tensor_overrides", stay.words),
        case.vram.cite_free_before_load,
        cure=Cure(vram_bytes=demand.available, experts_on_gpu=True),
        fixes=[
            Knob.EXPERTS_ON_CPU.to(stay.setting, stay.words if stay.layers else "remove the setting: everything fits")
        ],
        explains=("weights_spill_to_ram",) if case.narrative.is_report else None,
    )


def buffers_on_host(case: CaseView) -> Found | None:
    """Weights in host buffers though all layers count as on the GPU: whatever sent them there, they are experts."""
    if isinstance(case.runtime.placement.tensor_overrides, Known) or not case.memory.is_mixture or case.placement.split:
        return None
    shape, counted = case.memory.shape, case.runtime.placement.gpu_layers.get()
    held = case.placement.read(shape).with_experts
    host = sum(b.bytes for b in case.vram.buffers("model", on_gpu=False)) - (case.model.token_table_bytes.get() or 0)
    if counted is None or (away := min(shape.layers, counted) - held) < 1 or host < shape.layer_bytes:
        return None
    demand = case.memory.demand()  # of all weights: the runtime's own sum leaves out what was sent to the host
    demand = demand._replace(asked=max(demand.asked, case.memory.weights_bytes + COMPUTE_BUFFER_BYTES))
    stay = case.memory.experts_without_room(demand.lacking)
    if stay.layers >= away:
        return None
    return finding(
        case,
        f"{counted} layers count as on the GPU, but {host / GIB:.1f} GiB of their weights are on the host; the whole "
        f"model needs {demand.asked / GIB:.1f} GiB, and the GPU had {demand.available / GIB:.1f} GiB free",
        case.cite("runtime.memory.buffers", stay.words),
        "runtime.placement.gpu_layers",
        case.vram.cite_free_before_load,
        cure=Cure(vram_bytes=demand.available, experts_on_gpu=True),
        fixes=[Knob.EXPERTS_ON_CPU.to(stay.setting, stay.words)],
    )


def all_on_gpu(case: CaseView) -> Absent | None:
    """Whether buffers, counts or the memory of the process show all experts on the GPU."""
    is_read = isinstance(case.runtime.placement.tensor_overrides, Known) and case.memory.is_mixture
    return Absent("all experts are on the GPU") if is_read and case.placement.cpu_computes is False else None


def weights_against_vram(case: CaseView) -> Found | Absent | None:
    """A mixture larger than the GPU's memory that is divided by whole layers."""
    if not case.memory.is_mixture:
        return Absent("the model is not a mixture of experts") if case.model.experts.get() == 0 else None
    if case.gpus.is_unified or case.placement.sent_to_cpu.of_layers or case.narrative.blames_version:
        return None
    where, vram, weights = case.placement.split_or_all_on_cpu, case.vram.total_bytes, case.memory.least_weights_bytes
    if not where or not vram or not weights:
        return None
    if weights < vram:
        is_set = isinstance(case.runtime.placement.gpu_layers_set, Known)
        return None if is_set else Absent("the whole model would fit: another cause")
    return finding(
        case,
        f"{where.words}, and the model is a mixture of experts of about {weights / GIB:.0f} GiB on {vram / GIB:.0f} "
        "GiB of GPU memory: only experts should be on the CPU, everything else of all layers on the GPU",
        where.fact,
        "model.name" if isinstance(case.model.name, Known) else "model.experts",
        fixes=[Knob.EXPERTS_ON_CPU.to(None, "all layers on the GPU, and on the CPU only the experts that do not fit")],
        explains=BY_LAYERS,
    )


def said_by_person(case: CaseView) -> Found | Suspected | None:
    """A person who sends experts to the CPU, and sees free GPU memory, a waiting GPU, or a difference in a trial."""
    said = case.narrative.remarks_on(Topic.EXPERTS_ON_CPU)
    is_other_phase = case.narrative.names_phase("prefill", "first_token", "load")
    if not said or is_other_phase or case.narrative.remarks_on(Topic.COPIES_TO_GPU) or not case.memory.is_mixture:
        return None
    room = case.narrative.remarks_on(Topic.VRAM_FREE)
    waits = case.narrative.remarks_on(Topic.GPU_UNUSED, Topic.GPU_IDLE)
    trial = case.narrative.experiment_on(Topic.EXPERTS)
    # All weights fit on the GPU, whatever a desktop holds there
    weights, surely_free = case.memory.weights_bytes, SURELY_FREE * (case.vram.total_bytes or 0.0)
    has_room = room or (weights and weights + COMPUTE_BUFFER_BYTES < surely_free)
    if not has_room and not waits and trial is None:
        return Suspected(said[0].text, "machine.gpus.0.vram_free_bytes", CAUSE.ask)
    return finding(
        case,
        f"the CPU computes experts, and {'the GPU has room for more' if has_room else 'the GPU waits for it'}: "
        f"{said[0].text}",
        case.narrative.cite_remarks((*said[:1], *room[:1], *waits[:1])),
        [case.narrative.cite_comparison(trial)] if trial else (),
        fixes=[Knob.EXPERTS_ON_CPU.to(None, "on the CPU only the experts that do not fit on the GPU")],
        explains=BY_LAYERS,
    )


CAUSE = Cause(
    title="Experts are computed by the CPU",
    phase="decode",
    needs=all_of(
        "model.experts or model.name",
        "runtime.placement.tensor_overrides or runtime.placement.gpu_layers or runtime.memory.vram_share or "
        "runtime.placement.gpu_layers_set or account.remarks",
    ),
    routes=(
        Route("counted", tensor_overrides),
        Route("log", buffers_on_host),
        Route("log", all_on_gpu),
        Route("counted", weights_against_vram),
        Route("told", said_by_person),
    ),
    on_gpu=True,
    ggml_only=True,
    gpu_only=True,
    explains=("weights_spill_to_ram", "prefill_pcie_bound"),
    ask="{command_line}, and {placement}",
)
