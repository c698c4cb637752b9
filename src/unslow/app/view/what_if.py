"""What memory holds, and what it would hold with other settings: made once, then asked again and again."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence

from unslow.app.view.memory_choices import (
    Asked,
    KnobName,
    cache_choices,
    context_choices,
    layer_choices,
    parsed,
    quant_choices,
    slot_choices,
)
from unslow.app.view.memory_llama import LlamaAnswers, Subject
from unslow.app.view.memory_named import named_subject
from unslow.app.view.memory_now import Now, expected_of, now_of
from unslow.app.view.memory_seen import SeenSubject, cache_types, seen_subject, startable
from unslow.commands.fit import FitRequest
from unslow.facts.snapshot import Case
from unslow.facts.values import Unknown
from unslow.look.system import System
from unslow.think.adapt.remembered import one_judgement
from unslow.think.adapt.runtime_family import runs_ggml
from unslow.think.physics.kv_cache import element_bytes
from unslow.think.view.report import Choice, MemoryView, Slider, WhatIf

_NAMED_CACHE_TYPES = ("F16", "Q8_0", "Q4_0")
_LABELS: dict[KnobName, str] = {
    "context": "Context of each conversation",
    "gpu_layers": "Layers on the GPU",
    "kv_type": "Type of the KV cache",
    "quant": "Quant of the weights",
    "slots": "Conversations at a time",
}
_ONE_CONTEXT = "Context"
"""Where there is one conversation, or all share what there is."""


class Memory:
    """The memory of one subject, with sliders."""

    def __init__(
        self, now: WhatIf, sliders: Sequence[Slider], answer: Callable[[Mapping[str, str]], WhatIf], source: str
    ) -> None:
        self._now, self._sliders, self._answer, self._source = now, tuple(sliders), answer, source

    def view(self) -> MemoryView:
        """What is now, and the sliders."""
        return MemoryView(now=self._now, sliders=self._sliders, source=self._source)

    def what_if(self, settings: Mapping[str, str]) -> WhatIf:
        """With these settings, and those of now for the rest; UserError where they can't be."""
        asked = parsed(self._sliders, settings)
        return self._now if asked == self._now.settings else self._answer(asked)

    def ready(self) -> tuple[WhatIf, ...]:
        """Every answer to one slider moved alone: for a file that can ask nobody."""
        return tuple(self.what_if({knob: value}) for knob, value in self._places())

    def _places(self) -> Iterator[tuple[str, str]]:
        for slider in self._sliders:
            yield from ((slider.knob, choice.value) for choice in slider.choices if choice.value != slider.value)


@one_judgement()
def memory_of(system: System | None, case: Case) -> Memory | Unknown:
    """Of what runs, or ran; `system` is the machine that it runs on, None where that is elsewhere."""
    if runs_ggml(case) is False:
        from unslow.app.view.memory_hf import hf_memory_of  # noqa: PLC0415 (most never need it)

        found = hf_memory_of(system, case)
        return found if isinstance(found, Unknown) else Memory(*found)
    seen = seen_subject(system, case)
    return seen if isinstance(seen, Unknown) else _of_seen(case, seen)


def memory_for(system: System, request: FitRequest) -> Memory | Unknown:
    """Of a model on a device, as `unslow fit` is asked for it; UserError where there is no such thing."""
    if request.runtime in ("vllm", "transformers"):
        from unslow.app.view.memory_hf import hf_memory_for  # noqa: PLC0415 (most never need it)

        found = hf_memory_for(system, request)
        return found if isinstance(found, Unknown) else Memory(*found)
    with one_judgement():
        subject = named_subject(system, request)
    if isinstance(subject, Unknown):
        return subject
    answers = LlamaAnswers(subject)
    kinds = startable(subject.found, subject.base, _NAMED_CACHE_TYPES)
    source = "by its tensors, laid out as llama.cpp does"
    return _memory(answers, Now(answers.answer(subject.now), source), kinds)


def _of_seen(case: Case, seen: SeenSubject) -> Memory:
    subject, answers = seen.subject, LlamaAnswers(seen.subject)
    answers.subject = subject._replace(expected=expected_of(case, answers.price_now()))
    subject.command(subject.now._replace(slots=subject.now.slots + 1), subject.base)  # what it takes is loaded by then
    now = now_of(case, seen.gpus, answers)
    return _memory(
        answers, now._replace(source=now.source or seen.source), cache_types(case, subject.found, subject.base)
    )


def _memory(answers: LlamaAnswers, now: Now, kinds: Sequence[str]) -> Memory:
    def answer(settings: Mapping[str, str]) -> WhatIf:
        return answers.answer(_asked(answers.subject.now, settings))

    return Memory(now.what, _sliders(answers.subject, kinds), answer, now.source)


def _asked(now: Asked, settings: Mapping[str, str]) -> Asked:
    return Asked(
        context=int(settings.get("context", now.context)),
        gpu_layers=int(settings.get("gpu_layers", now.gpu_layers)),
        kv_type=settings.get("kv_type", now.kv_type),
        quant=settings.get("quant", now.quant),
        slots=int(settings.get("slots", now.slots)),
    )


def _sliders(subject: Subject, kinds: Sequence[str]) -> list[Slider]:
    now, plan = subject.now, subject.found.blueprint
    sizes = {kind: element_bytes(kind) for kind in {*kinds, now.kv_type.partition("/")[0]}}
    weights = sum(tensor.bytes for tensor in plan.tensors)
    choices: dict[KnobName, tuple[Choice, ...]] = {
        "context": context_choices(now.context, plan.count("context_length", now.context) or now.context),
        "gpu_layers": layer_choices(subject.everything),
        "kv_type": cache_choices(now.kv_type, kinds, sizes),
        "quant": quant_choices(now.quant, 8 * weights / max(1, subject.found.parameters or _elements(subject))),
        "slots": slot_choices(now.slots, shared=subject.is_shared),
    }
    labels = {**_LABELS, "context": _ONE_CONTEXT} if subject.is_shared or now.slots == 1 else _LABELS
    return [
        Slider(knob=knob, label=labels[knob], value=str(getattr(now, knob)), choices=places)
        for knob, places in choices.items()
        if knob in subject.knobs
    ]


def _elements(subject: Subject) -> int:
    return sum(math.prod(tensor.shape) for tensor in subject.found.blueprint.tensors)
