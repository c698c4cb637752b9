"""A setting keeps layers off a GPU that has room for them.

## Why it is slow
The layers that the setting leaves out are computed by the CPU from RAM, ten to fifty times slower each than on the
GPU. Such a setting is often copied from a guide for another card, or was right for an earlier model or context.

Guides say that fewer layers on the GPU can be faster, but that is so only where the driver pages GPU memory (Windows);
else each layer on the GPU is a gain, and a model of 8B has 33 of them, not 64.

## How to confirm
The command line, the environment or the Modelfile names a number of GPU layers below all of them, while the GPU has
room for at least one more; or an `--override-tensor` sends parts of layers to the CPU (`offloaded 33/33` then says
nothing of them), while all of them fit.

## What it is not
A number that is all the memory holds: then the model spills, and removing the setting changes nothing.

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

import re

from unslow.facts.account import Remark, Topic
from unslow.facts.knob import Knob
from unslow.facts.snapshot import Case
from unslow.facts.values import GIB, Known, MissingFactError, Origin
from unslow.think.case.demand import fitting_placement, missing, read_shape
from unslow.think.case.gpus import SURELY_FREE, has_no_gpu, is_apple, is_integrated, vram_total_bytes
from unslow.think.case.narrative import (
    is_report,
    names_phase,
    places_layers_itself,
    remarks_on,
    settings_unread,
    tells_only_of_slowness,
)
from unslow.think.case.overrides import overrides_of, sent_away
from unslow.think.case.placement import ALL_LAYERS, leaves_out_the_output, seen_split
from unslow.think.case.slowness import lost_against
from unslow.think.case.vram import available_vram_bytes, gpus_of, runtime_sees_gpu, whole_on_gpu
from unslow.think.case.work import EVERYTHING, USABLE, Cure
from unslow.think.causes._cause import Absent, Cause, Found, Remedy, Suspected, check_by
from unslow.think.causes._facts import cite, cite_remarks, free_before_load

TOO_FEW = 4  # Layers: a card on which no more than these fit is no reason to use it
_OLD_PROGRAM = re.compile(r"(?:^|/)(?:main|server)(?:\.exe)?$")
"""What llama.cpp's programs were called until June 2024, long before it placed layers by itself."""


def _by_tensors(case: Case) -> Found | None:
    """Parts of layers that a setting sends to the CPU by name, though all layers fit; experts are another cause."""
    sent = sent_away(case)
    if not sent.others or sent.experts or runtime_sees_gpu(case) is False:
        return None
    shape, (available, seen) = read_shape(case), _room(case)
    room = fitting_placement(case, shape, available, case.runtime.context_length.value_or(4096))
    if room.gpu_layers < shape.layers:
        return None
    cure, named = Cure(vram_bytes=available), " ".join(overrides_of(case, "others"))
    return Found(
        because=f"{named} keeps parts of layers on the CPU; {_in_words(case, available, seen=seen)} all of them",
        evidence=(cite(case, "runtime.tensor_overrides", "all layers fit"), *free_before_load(case)),
        cure=cure,
        remedies=(Remedy(Knob.EXPERTS_ON_CPU.to(None, "remove the setting: all layers fit"), cure),),
    )


def _by_weights_kept_away(case: Case) -> Found | None:
    """Weights that vLLM and its kin are told to keep in the host's memory, and fetch over the link for every token."""
    away = case.runtime.cpu_offload_bytes.value_or(0)
    if not away or not (tells_of_speed(case) or (lost_against(case, EVERYTHING) or 1.0) > 1):
        return None
    weights, room = case.model.weights_bytes.value_or(0), vram_total_bytes(case) or 0.0
    if weights and room and weights > USABLE * room:
        return None  # without the setting it would not start
    fits = f"; the GPUs have {room / GIB:.0f} GiB for {weights / GIB:.0f} GiB of weights" if 0 < weights < room else ""
    cure = EVERYTHING if fits else None
    return Found(
        because=f"a setting keeps {away / GIB:.0f} GiB of weights in the host's memory for each GPU, to be fetched for "
        f"every token{fits}",
        evidence=(cite(case, "runtime.cpu_offload_bytes", "0 where all of it fits"),),
        cure=cure,
        remedies=(Remedy(Knob.GPU_LAYERS.to(None, "remove the offload: what fits belongs on the GPU"), cure),),
    )


def _by_tiny_number(case: Case) -> Found | None:
    """So few layers that no model is well served, or none at all by a runtime that does as it is told."""
    number, counted = case.runtime.gpu_layers_set.value_or(-1), case.runtime.gpu_layers.value_or(-1)
    if is_apple(case) or has_no_gpu(case) or not tells_of_speed(case):
        return None
    if 0 < number <= TOO_FEW and case.runtime.layers.value_or(ALL_LAYERS) > 2 * number:
        return _told(case, f"a setting puts {number} layer{'s' if number > 1 else ''} on the GPU", "gpu_layers_set")
    # There is a card to use, and nobody speaks of threads, cores or the CPU alone
    cards = [gpu for gpu in gpus_of(case) if not is_integrated(gpu)]
    of_the_cpu = remarks_on(case, Topic.GPU_ABSENT, Topic.CPU_BUSY, Topic.CORES_IDLE)
    no_test = cards and not of_the_cpu and not isinstance(case.runtime.threads, Known)
    if number == 0 and tells_only_of_slowness(case) and no_test:
        return _told(case, "a setting keeps all layers off the GPU", "gpu_layers_set")
    told = isinstance(case.runtime.gpu_layers, Known) and case.runtime.gpu_layers.origin is Origin.TOLD
    by_hand = not places_layers_itself(case) or (told and "lm studio" in case.runtime.name.value_or("").lower())
    if counted == 0 and _has_gpu(case) and case.runtime.layers.value_or(0) > 1 and by_hand:
        return _told(case, "no layer is on the GPU, and this runtime puts there what it is told to", "gpu_layers")
    return None


def _by_no_number(case: Case) -> Found | Suspected | None:
    """Builds that put nothing on the GPU unless told to, started without a number."""
    said = remarks_on(case, Topic.LAYERS_UNSET)
    if is_apple(case) or places_layers_itself(case) or not tells_of_speed(case) or not _starts_without(case, said):
        return None
    if not _has_gpu(case):
        why = said[0].text if said else "no number of GPU layers was given"
        return Suspected(why, "machine.gpus", "{gpu_list}, and {placement}")
    evidence = cite_remarks(case, said) if said else (cite(case, "runtime.command", "without -ngl"),)
    return Found(
        because="it was started without a number of GPU layers, and this runtime then puts none there",
        evidence=evidence,
        remedies=(Remedy(Knob.GPU_LAYERS.to(-1, "all layers, or as many as fit")),),
    )


def _starts_without(case: Case, said: list[Remark]) -> bool:
    """Whether no number was given: in words, or by a whole command of a build that is known to be old."""
    runtime = case.runtime
    if isinstance(runtime.gpu_layers_set, Known) or runtime.gpu_layers.value_or(0) > 0 or whole_on_gpu(case):
        return False
    command = runtime.command.value_or([])
    old = bool(command) and (places_layers_itself(case) is False or bool(_OLD_PROGRAM.search(command[0])))
    return bool(said) or (old and "--list-devices" not in command and len(command) > 1)


def _has_gpu(case: Case) -> bool:
    return bool(gpus_of(case)) or bool(remarks_on(case, Topic.GPU_UNUSED)) or bool(case.runtime.devices.value_or([]))


def tells_of_speed(case: Case) -> bool:
    """Whether a person finds the generation slow, or nobody says what is."""
    return is_report(case) and not names_phase(case, "load")


def _told(case: Case, why: str, fact: str) -> Found:
    return Found(
        because=f"{why}: the rest is computed by the CPU",
        evidence=(cite(case, f"runtime.{fact}", "all layers, or as many as fit"),),
        remedies=(Remedy(Knob.GPU_LAYERS.to(-1, "all layers, or as many as fit")),),
    )


def _by_room(case: Case) -> Found | Absent | Suspected:
    """The number that was set against the number that fits."""
    asked, setting = _asked(case)
    if asked is None:
        # Sure where the command is known and no words speak of a setting, or where no layer was left out
        if (split := seen_split(case)) and settings_unread(case):
            return Suspected(f"{split.words}, and who set that can't be read", "runtime.command", "{command_line}")
        if case.runtime.cpu_offload_bytes.value_or(0) or _starts_without(case, remarks_on(case, Topic.LAYERS_UNSET)):
            raise missing("the number of GPU layers", CAUSE.ask)
        return Absent("nothing sets the number of GPU layers")
    if setting != "device_set" and runtime_sees_gpu(case) is False:
        return Absent("the runtime sees no GPU, so the setting has no effect")
    shape = read_shape(case)
    total = shape.layers + 1
    if asked >= total:
        return Absent(f"{asked} layers asked for, the model has {total}")
    if asked == total - 1 and leaves_out_the_output(case):
        return Absent("all layers but the output are on the GPU")
    available, seen = _room(case)
    context = case.runtime.context_length.value_or(4096)
    room = fitting_placement(case, shape, available, context)
    fitting = int(room.gpu_layers) + room.output_on_gpu
    if fitting <= asked:
        available_vram_bytes(case)  # only what was really free may rule it out
        return Absent(f"{asked} layers set, and no more than {fitting} fit")
    who = "the default of this build" if setting == "gpu_layers" else "a setting"
    change = Knob.GPU_LAYERS.to(fitting, f"{fitting} of {total} layers fit")
    if setting == "device_set":
        change = Knob.DEVICE.to(None, "remove the setting: the GPU is switched off by it")
    elif setting == "gpu_layers_set" and fitting == total:
        change = Knob.GPU_LAYERS.to(None, "remove the setting: all layers fit")
    cure = Cure(vram_bytes=available)
    return Found(
        because=f"{who} keeps {total - asked} of {total} layers on the CPU; "
        f"{_in_words(case, available, seen=seen)} {fitting}",
        evidence=(cite(case, f"runtime.{setting}", f"{total} layers, {fitting} of them fit"), *free_before_load(case)),
        cure=cure,
        remedies=(Remedy(change, cure),),
    )


def _asked(case: Case) -> tuple[int | None, str]:
    """The number of layers that was decided on, and which fact says so; None where the runtime fits them itself."""
    runtime = case.runtime
    if runtime.device_set.value_or("") == "none":
        return 0, "device_set"
    number = runtime.gpu_layers_set.value_or(None)
    # who reads out the number that the runtime itself came to has set nothing
    chosen = isinstance(runtime.gpu_layers_set, Known) and runtime.gpu_layers_set.origin is Origin.TOLD
    if chosen and number == runtime.gpu_layers.value_or(None) and places_layers_itself(case):
        return None, ""
    if number is not None and number >= 0:
        return number, "gpu_layers_set"
    if runtime.gpu_layers.value_or(None) == 0 and not places_layers_itself(case):
        return 0, "gpu_layers"  # builds without a fit leave everything on the CPU unless told otherwise
    return None, ""


def _room(case: Case) -> tuple[float, bool]:
    """What was free, and whether somebody saw it; else what is free on any card of this size that shows a desktop."""
    try:
        return available_vram_bytes(case), True
    except MissingFactError:
        total = vram_total_bytes(case)
        if total is None:
            raise
        return SURELY_FREE * total, False


def _in_words(case: Case, available: float, *, seen: bool) -> str:
    """The room as it is known: what nobody saw is not said to have been seen."""
    if seen:
        return f"the GPU had {available / GIB:.0f} GiB free, enough for"
    total = vram_total_bytes(case) or available
    return f"where nothing else fills it, a GPU of {total / GIB:.0f} GiB holds"


CAUSE = Cause(
    title="A setting keeps layers off the GPU",
    phase="decode",
    needs=(
        (
            "runtime.command",
            "runtime.gpu_layers_set",
            "runtime.device_set",
            "runtime.gpu_layers",
            "runtime.cpu_offload_bytes",
            "runtime.tensor_overrides",
            "account.remarks",
        ),
    ),
    check=check_by(_by_tensors, _by_room, _by_weights_kept_away, _by_tiny_number, _by_no_number),
    explains=(
        "weights_spill_to_ram",
        "other_process_holds_vram",
        "context_larger_than_needed",
        "memory_estimate_too_careful",
    ),
    gpu_only=True,
    ask="{command_line}",
)
