"""What memory holds, and what it would hold with other settings: made once, then asked again and again."""

import math
from collections.abc import Callable, Mapping, Sequence

from unslow.commands.fit import FitRequest
from unslow.commands.fit.gguf import find_setup, lines_of
from unslow.commands.plan import PlanRequest
from unslow.commands.plan.gguf import planned_hardware
from unslow.facts.errors import UserError
from unslow.facts.snapshot import Case
from unslow.facts.values import Unknown
from unslow.look.system import System
from unslow.page.what_if.gguf import GgufAnswers, Priced, Subject, asked_now, knobs_of
from unslow.page.what_if.memory_view import (
    AskedSettings,
    KnobName,
    cache_choices,
    context_choices,
    layer_choices,
    parse_settings,
    quant_choices,
    slot_choices,
)
from unslow.page.what_if.running import Now, cache_types, expected_of, now_of, seen_subject, startable
from unslow.think.case.runtime import runs_ggml
from unslow.think.hardware import Hardware
from unslow.think.memo import one_judgement
from unslow.think.memory.llama_cpp.hyperparameters import hyper_of
from unslow.think.memory.llama_cpp.settings import Settings
from unslow.think.physics.placement import element_bytes
from unslow.think.setup import Setup
from unslow.think.view import Choice, MemoryView, Slider, WhatIf


def named_subject(system: System, request: FitRequest) -> Subject | Unknown:
    """The subject; UserError where there is no such model or device, or llama.cpp would not start so."""
    request, found, setup = find_setup(system, request)
    if not setup.hardware.rooms and setup.hardware.host_room is None:
        return Unknown("how much memory the host has is not known", "say so: --ram 64GB")
    now, notes = asked_now(found, setup), setup.hardware.memory_notes
    hardware = _with_speed(system, request, setup)
    experts = request.n_cpu_moe if hyper_of(found.blueprint).experts else 0

    def command(asked: AskedSettings, settings: Settings) -> str:
        return "\n".join(lines_of(request, found._replace(requantised=asked.quant != now.quant), settings))

    return Subject(
        found,
        setup._replace(hardware=hardware) if hardware else setup,
        now,
        knobs_of(setup),
        priced=Priced(hardware.processors.cores, whole_first=experts) if hardware else None,
        unified=bool(request.kv_unified) and request.runtime != "ollama",
        command=command,
        notes=(*found.notes, *notes),
    )


def _with_speed(system: System, request: FitRequest, setup: Setup) -> Hardware | None:
    """The hardware with its speed; None where nobody knows that, or where single tensors are moved."""
    if request.override_tensor:
        return None
    try:
        asked = PlanRequest(model=request.model, devices=request.devices, ram_bytes=request.ram_bytes)
        hardware = planned_hardware(system, asked, setup.blueprint)
    except UserError:  # a memory of a size alone has no speed
        return None
    if isinstance(hardware, Unknown) or len(hardware.rooms) != len(setup.hardware.rooms):
        return None
    return hardware._replace(rooms=setup.hardware.rooms, host_room=setup.hardware.host_room, pinned=False)


_LABELS: dict[KnobName, str] = {
    "context": "Context of each conversation",
    "gpu_layers": "Layers on the GPU",
    "kv_type": "Type of the KV cache",
    "quant": "Quant of the weights",
    "slots": "Conversations at a time",
}
_ONE_CONTEXT = "Context"  # Where there is one conversation, or all share what there is


class Memory:
    """The memory of one subject, with sliders."""

    def __init__(
        self, now: WhatIf, sliders: Sequence[Slider], answer: Callable[[Mapping[str, str]], WhatIf], source: str
    ) -> None:
        self._now, self._sliders, self._answer, self._source = now, tuple(sliders), answer, source

    def view(self) -> MemoryView:
        return MemoryView(now=self._now, sliders=self._sliders, source=self._source)

    def what_if(self, settings: Mapping[str, str]) -> WhatIf:
        """With these settings, and those of now for the rest; UserError where they can't be."""
        asked = parse_settings(self._sliders, settings)
        return self._now if asked == self._now.settings else self._answer(asked)

    def ready(self) -> tuple[WhatIf, ...]:
        """Every answer to one slider moved alone: for a file that can ask nobody."""
        places = [(slider, choice.value) for slider in self._sliders for choice in slider.choices]
        return tuple(self.what_if({slider.knob: value}) for slider, value in places if value != slider.value)


@one_judgement()
def memory_of(system: System | None, case: Case) -> Memory | Unknown:
    """Of what runs, or ran; `system` is the machine that it runs on, None where that is elsewhere."""
    if runs_ggml(case) is False:
        from unslow.page.what_if.hf import hf_memory_of  # noqa: PLC0415 (most never need it)

        found = hf_memory_of(system, case)
        return found if isinstance(found, Unknown) else Memory(*found)
    seen = seen_subject(system, case)
    if isinstance(seen, Unknown):
        return seen
    subject, answers = seen.subject, GgufAnswers(seen.subject)
    answers.subject = subject._replace(expected=expected_of(case, answers.price_now()))
    subject.command(subject.now._replace(slots=subject.now.slots + 1), subject.base)  # what it takes is loaded by then
    now = now_of(case, seen.gpus, answers)
    kinds = cache_types(case, subject.found, subject.base)
    return _memory(answers, now._replace(source=now.source or seen.source), kinds)


def memory_for(system: System, request: FitRequest) -> Memory | Unknown:
    """Of a model on a device, as `unslow fit` is asked for it; UserError where there is no such thing."""
    if request.runtime in ("vllm", "transformers"):
        from unslow.page.what_if.hf import hf_memory_for  # noqa: PLC0415 (most never need it)

        found = hf_memory_for(system, request)
        return found if isinstance(found, Unknown) else Memory(*found)
    with one_judgement():
        subject = named_subject(system, request)
    if isinstance(subject, Unknown):
        return subject
    answers = GgufAnswers(subject)
    kinds = startable(subject.found, subject.base, ("F16", "Q8_0", "Q4_0"))
    source = "by its tensors, laid out as llama.cpp does"
    return _memory(answers, Now(answers.answer(subject.now), source), kinds)


def _memory(answers: GgufAnswers, now: Now, kinds: Sequence[str]) -> Memory:
    def answer(settings: Mapping[str, str]) -> WhatIf:
        stands = answers.subject.now
        asked = AskedSettings(
            context=int(settings.get("context", stands.context)),
            gpu_layers=int(settings.get("gpu_layers", stands.gpu_layers)),
            kv_type=settings.get("kv_type", stands.kv_type),
            quant=settings.get("quant", stands.quant),
            slots=int(settings.get("slots", stands.slots)),
        )
        return answers.answer(asked)

    return Memory(now.what, _sliders(answers.subject, kinds), answer, now.source)


def _sliders(subject: Subject, kinds: Sequence[str]) -> list[Slider]:
    now, plan = subject.now, subject.found.blueprint
    sizes = {kind: element_bytes(kind) for kind in {*kinds, now.kv_type.partition("/")[0]}}
    weights = sum(tensor.bytes for tensor in plan.tensors)
    parameters = subject.found.parameters or sum(math.prod(tensor.shape) for tensor in plan.tensors)
    choices: dict[KnobName, tuple[Choice, ...]] = {
        "context": context_choices(now.context, plan.count("context_length", now.context) or now.context),
        "gpu_layers": layer_choices(subject.everything),
        "kv_type": cache_choices(now.kv_type, kinds, sizes),
        "quant": quant_choices(now.quant, 8 * weights / max(1, parameters)),
        "slots": slot_choices(now.slots, shared=subject.is_shared),
    }
    labels = {**_LABELS, "context": _ONE_CONTEXT} if subject.is_shared or now.slots == 1 else _LABELS
    return [
        Slider(knob=knob, label=labels[knob], value=str(getattr(now, knob)), choices=places)
        for knob, places in choices.items()
        if knob in subject.knobs
    ]
