"""What memory holds, and what it would hold with other settings: made once, then asked again and again."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from unslow.facts.values import Unknown
from unslow.look.system import System
from unslow.page.view import Choice, MemoryView, WhatIf
from unslow.page.what_if import memory_view
from unslow.page.what_if.gguf import GgufAnswers
from unslow.page.what_if.running import cache_types, expected_of, now_of, seen_subject
from unslow.think.case.view import CaseView
from unslow.think.memo import one_judgement
from unslow.think.physics.placement import element_bytes


@one_judgement()
def memory_of(system: System | None, case: CaseView) -> memory_view.Memory | Unknown:
    """Of what runs, or ran; `system` is the machine that it runs on, None where that is elsewhere."""
    if case.engine.runs_ggml is False:
        from unslow.page.what_if.hf import hf_memory_of  # noqa: PLC0415 (most never need it)

        return hf_memory_of(system, case)
    subject = seen_subject(system, case)
    if isinstance(subject, Unknown):
        return subject
    answers = GgufAnswers(subject)
    answers.subject = subject._replace(expected=expected_of(case, answers.price_now()))
    subject.command(subject.now._replace(slots=subject.now.slots + 1), subject.base)  # what it takes is loaded by then
    now, source = now_of(case, answers)
    return gguf_memory(answers, now, source, cache_types(case, subject.found, subject.base))


def gguf_memory(answers: GgufAnswers, now: WhatIf, source: str, kinds: Sequence[str]) -> memory_view.Memory:
    """With sliders from `now` on; `kinds` are the types that the cache may have."""

    def answer(settings: Mapping[str, str]) -> WhatIf:
        counts = ("context", "gpu_layers", "slots")
        asked: dict[str, Any] = {knob: int(value) if knob in counts else value for knob, value in settings.items()}
        return answers.answer(stand._replace(**asked))

    subject = answers.subject
    stand, plan = subject.now, subject.found.blueprint
    is_shared = subject.base.unified and subject.base.slots > 1  # whether several conversations share one context now
    sizes = {kind: element_bytes(kind) for kind in {*kinds, stand.kv_type.partition("/")[0]}}
    weights, trained = plan.weights_bytes, plan.count("context_length", stand.context)
    parameters = subject.found.parameters or sum(math.prod(tensor.shape) for tensor in plan.tensors)
    choices: dict[memory_view.KnobName, tuple[Choice, ...]] = {
        "context": memory_view.context_choices(stand.context, trained or stand.context),
        "gpu_layers": memory_view.layer_choices(subject.layer_total),
        "kv_type": memory_view.cache_choices(stand.kv_type, kinds, sizes),
        "quant": memory_view.quant_choices(stand.quant, 8 * weights / max(1, parameters)),
        "slots": memory_view.slot_choices(stand.slots, shared=is_shared),
    }
    one_context = "Context" if is_shared or stand.slots == 1 else ""
    sliders = tuple(
        memory_view.slider(knob, str(getattr(stand, knob)), places, one_context if knob == "context" else "")
        for knob, places in choices.items()
        if knob in subject.knobs
    )
    return memory_view.Memory(MemoryView(now=now, sliders=sliders, source=source), answer)
