"""A setting keeps layers off a GPU that has room for them.

## Why it is slow
The CPU computes the layers that the setting leaves out, from RAM, ten to fifty times slower each than the GPU. Such a
setting is often copied from a guide for another card, or was right for an earlier model or context.

Guides say that fewer layers on the GPU can be faster, but that is so only where the driver pages GPU memory (Windows);
otherwise each layer on the GPU is a gain, and an 8B model has 33 of them, not 64.

## How to confirm
The command line, the environment or the Modelfile sets fewer GPU layers than the model has, while the GPU has room for
at least one more; or an `--override-tensor` sends parts of layers to the CPU (which `offloaded 33/33` does not show),
while all of them fit.

## What it is not
A number that fills the memory: then the model spills, and removing the setting changes nothing.

## How to fix
Remove the setting: the runtime then places as many layers as fit. Or set it to the number that fits:
- llama.cpp: without `-ngl` (and `LLAMA_ARG_N_GPU_LAYERS`); builds before 7407 need `-ngl 99`; without `--device none`,
  and without an `-ot` for weights that every token reads, such as `-ot attn=CPU`
- Ollama: without `num_gpu` in the Modelfile, the request or `/set parameter`
- LM Studio: the GPU offload slider at its maximum, `lms load KEY --gpu max`
- vLLM, SGLang: without `--cpu-offload-gb`
- Transformers: `device_map="cuda"`; KoboldCpp: `--gpulayers -1`

## Safety
Answers do not change. The GPU's memory fills up: leave room for what else uses it.
"""

from unslow.facts.account import Topic
from unslow.facts.knob import Knob
from unslow.facts.values import GIB, Known, Origin
from unslow.think.case.cure import EVERYTHING, Cure
from unslow.think.case.device import is_integrated
from unslow.think.case.group import missing
from unslow.think.case.physics import USABLE
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, Cause, Found, Route, Suspected, all_of, finding

TOO_FEW = 4  # Layers: a GPU that holds only these is hardly worth using
ALL_THAT_FIT = "all layers, or as many as fit"


def tensor_overrides(case: CaseView) -> Found | None:
    """Overrides that send parts of layers to the CPU though all layers fit; experts are another cause."""
    sent = case.placement.sent_to_cpu
    if not sent.others or sent.experts or case.gpus.visible_to_runtime is False:
        return None
    shape, (available, room) = case.memory.shape, case.vram.likely_room
    if case.memory.fitting_placement(shape, available).gpu_layers < shape.layers:
        return None
    overrides = " ".join(case.placement.overrides_sending("others"))
    return finding(
        case,
        f"{overrides} keeps parts of layers on the CPU; {room} all of them",
        case.cite("runtime.placement.tensor_overrides", "all layers fit"),
        case.vram.cite_free_before_load,
        cure=Cure(vram_bytes=available),
        fixes=[Knob.EXPERTS_ON_CPU.to(None, "remove the setting: all layers fit")],
    )


def no_number_set(case: CaseView) -> Absent | Suspected | None:
    """Whether anything sets the number of GPU layers at all."""
    if case.placement.decided_layers:
        return None
    if (split := case.placement.split) and case.engine.settings_unread:
        because = f"{split.words}, and the settings could not be read"
        return Suspected(because, "runtime.process.command", "{command_line}")
    if case.runtime.placement.cpu_offload_bytes.get() or case.placement.gpu_layers_unset:
        raise missing("the number of GPU layers", CAUSE.ask)
    return Absent("nothing sets the number of GPU layers")


def number_against_room(case: CaseView) -> Found | Absent | None:
    """The number of GPU layers that was set, against the number that fits."""
    if not (decided := case.placement.decided_layers):
        return None
    asked, by_device = decided.number, decided.fact == "runtime.placement.device_set"
    if not by_device and case.gpus.visible_to_runtime is False:
        return Absent("the runtime sees no GPU, so the setting has no effect")
    total = case.memory.shape.layers + 1
    if asked >= total:
        return Absent(f"{asked} layers set, the model has {total}")
    if asked == total - 1 and case.placement.leaves_out_output:
        return Absent("all layers except the output are on the GPU")
    available, room = case.vram.likely_room
    fitting = case.memory.layers_that_fit(available)
    if fitting <= asked:
        _ = case.vram.available_bytes  # only what was really free may rule it out
        return Absent(f"{asked} layers set, {fitting} fit")
    change = Knob.GPU_LAYERS.to(fitting, f"{fitting} of {total} layers fit")
    if by_device:
        change = Knob.DEVICE.to(None, "remove the setting: it disables the GPU")
    elif decided.fact == "runtime.placement.gpu_layers_set" and fitting == total:
        change = Knob.GPU_LAYERS.to(None, "remove the setting: all layers fit")
    return finding(
        case,
        f"{decided.words} keeps {total - asked} of {total} layers on the CPU; {room} {fitting}",
        case.cite(decided.fact, f"{total} layers, {fitting} of them fit"),
        case.vram.cite_free_before_load,
        cure=Cure(vram_bytes=available),
        fixes=[change],
    )


def offload_to_host(case: CaseView) -> Found | None:
    """Weights that a setting of vLLM or SGLang keeps in host memory, against the VRAM."""
    away = case.runtime.placement.cpu_offload_bytes.get()
    if not away or not (case.narrative.is_about_speed or (case.speed.lost_against(EVERYTHING) or 1.0) > 1):
        return None
    weights, room = case.memory.weights_bytes, case.vram.total_bytes
    if weights and room and weights > USABLE * room:
        return None  # without the setting it would not start
    sizes = f"; {weights / GIB:.0f} GiB of weights fit into {(room or 0.0) / GIB:.0f} GiB of GPU memory"
    fits = sizes if weights and room else ""
    return finding(
        case,
        f"a setting keeps {away / GIB:.0f} GiB of weights per GPU in host memory, fetched for every token{fits}",
        case.cite("runtime.placement.cpu_offload_bytes", "0 when all weights fit"),
        cure=EVERYTHING if fits else None,
        fixes=[Knob.GPU_LAYERS.to(None, "remove the offload: weights that fit belong on the GPU")],
    )


def few_layers_told(case: CaseView) -> Found | None:
    """A report of so few GPU layers, or none, that no model runs well."""
    number, layers = case.runtime.placement.gpu_layers_set.get(), case.runtime.placement.layers.get()
    if number is None or not case.narrative.is_about_speed or case.gpus.is_apple or case.gpus.has_none:
        return None
    if 0 < number <= TOO_FEW and (layers is None or layers > 2 * number):
        because = f"a setting puts only {number} layer{'s' if number > 1 else ''} on the GPU: the CPU computes the rest"
        return _left_out(case, because, "runtime.placement.gpu_layers_set")
    # There is a card to use, and no test of the CPU is described
    cards = [gpu for gpu in case.gpus.usable if not is_integrated(gpu)]
    of_the_cpu = case.narrative.remarks_on(Topic.GPU_ABSENT, Topic.CPU_BUSY, Topic.CORES_IDLE)
    is_test = not cards or of_the_cpu or isinstance(case.runtime.compute.threads, Known)
    if number == 0 and case.narrative.tells_only_of_slowness and not is_test:
        because = "a setting keeps all layers on the CPU"
        return _left_out(case, because, "runtime.placement.gpu_layers_set")
    return None


def no_layers_counted(case: CaseView) -> Found | None:
    """A report of no GPU layers, in a runtime that puts there only what a setting asks for."""
    counted, layers = case.runtime.placement.gpu_layers, case.runtime.placement.layers.get()
    if case.gpus.is_apple or case.gpus.has_none or not case.narrative.is_about_speed or not case.gpus.is_mentioned:
        return None
    is_told = isinstance(counted, Known) and counted.origin is Origin.TOLD
    by_hand = not case.engine.places_layers_itself or (is_told and "lm studio" in case.engine.name)
    if counted.get() != 0 or layers is None or layers <= 1 or not by_hand:
        return None
    because = "no layer is on the GPU, and this runtime puts there only what a setting asks for: the CPU computes them"
    return _left_out(case, because, "runtime.placement.gpu_layers")


def started_without_number(case: CaseView) -> Found | Suspected | None:
    """A build that puts nothing on the GPU unless a number is given, started without one."""
    is_old = not case.gpus.is_apple and not case.engine.places_layers_itself
    if not is_old or not case.narrative.is_about_speed or not case.placement.gpu_layers_unset:
        return None
    said = case.narrative.remarks_on(Topic.LAYERS_UNSET)
    if not case.gpus.is_mentioned:
        because = said[0].text if said else "no number of GPU layers was given"
        return Suspected(because, "machine.gpus", "{gpu_list}, and {placement}")
    return finding(
        case,
        "it was started without a number of GPU layers, and this runtime then uses no GPU",
        case.narrative.cite_remarks(said) or [case.cite("runtime.process.command", "without -ngl")],
        fixes=[Knob.GPU_LAYERS.to(-1, ALL_THAT_FIT)],
    )


def _left_out(case: CaseView, because: str, fact: str) -> Found:
    return finding(case, because, case.cite(fact, ALL_THAT_FIT), fixes=[Knob.GPU_LAYERS.to(-1, ALL_THAT_FIT)])


CAUSE = Cause(
    title="A setting keeps layers off the GPU",
    phase="decode",
    needs=all_of(
        "runtime.process.command or runtime.placement.gpu_layers_set or runtime.placement.device_set or "
        "runtime.placement.gpu_layers or runtime.placement.cpu_offload_bytes or runtime.placement.tensor_overrides or "
        "account.remarks"
    ),
    routes=(
        Route("counted", tensor_overrides),
        Route("counted", no_number_set),
        Route("counted", number_against_room),
        Route("counted", offload_to_host),
        Route("told", few_layers_told),
        Route("told", no_layers_counted),
        Route("told", started_without_number),
    ),
    explains=(
        "weights_spill_to_ram",
        "other_process_holds_vram",
        "context_larger_than_needed",
        "memory_estimate_too_careful",
    ),
    gpu_only=True,
    ask="{command_line}",
)
