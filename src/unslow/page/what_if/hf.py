"""The memory of vLLM and Transformers: a share of every card, or what a device map puts there."""

from collections.abc import Mapping
from functools import partial
from typing import NamedTuple

import msgspec

from unslow.catalog.runtimes import vllm_release
from unslow.commands.fit import FitRequest
from unslow.commands.fit.safetensors import DEFAULT_CONTEXT, fit_report
from unslow.commands.models.find import FoundShape, shape_by_name
from unslow.commands.plan import PlanRequest
from unslow.commands.plan.safetensors import cards_of_case, find_hf_model, told_model, version_of
from unslow.facts.errors import UserError
from unslow.facts.values import Unknown
from unslow.look.system import System
from unslow.page.view import MemoryPart, MemoryView, WhatIf
from unslow.page.what_if import memory_view
from unslow.page.what_if.gguf import host_bar, parts_of
from unslow.page.what_if.running import expected_range, other_programs_on
from unslow.show.units import rate
from unslow.think.case.view import CaseView
from unslow.think.hardware import Hardware
from unslow.think.plan.vllm.choices import RECENT

_RUNTIMES = {"vLLM": "vllm", "Transformers": "transformers"}
_VLLM_CACHES = {"auto": 2.0, "fp8": 1.0}  # What it can be told, and the bytes of a number
_MOST_CONTEXT, _MOST_SLOTS = 2**27, 256


class HfSubject(NamedTuple):
    """A model on cards, as it runs or would."""

    request: FitRequest
    found: FoundShape
    hardware: Hardware
    others: tuple[tuple[memory_view.OtherProgram, ...], ...]
    runs: bool = False


def hf_memory_of(system: System | None, case: CaseView) -> memory_view.Memory | Unknown:
    """Of what runs, or why it is unknown."""
    name = case.runtime.name.value_or("")
    if name not in _RUNTIMES:
        why = f"the memory layout of {name or 'this runtime'} is unknown"
        return Unknown(why, "`unslow fit MODEL` covers llama.cpp, vLLM and Transformers")
    cards = cards_of_case(case)
    if isinstance(cards, Unknown):
        return cards
    found = _model(system, case, _RUNTIMES[name])
    if isinstance(found, Unknown):
        return found
    try:
        memory = hf_memory(subject := _hf_subject(case, found, cards))
    except UserError as error:  # impossible numbers
        return Unknown(error.message, error.hint)
    now = memory.view.now
    if now.verdict not in ("fits", "tight"):
        return memory
    decode, prefill = expected_range(case.speed.predict()), expected_range(case.speed.predict_prefill())
    said = f"{now.summary}; {rate(decode.low)} to {rate(decode.high)} tok/s expected" if decode else now.summary
    now = msgspec.structs.replace(now, summary=said, decode_tokens_per_s=decode, prefill_tokens_per_s=prefill)
    return memory_view.Memory(msgspec.structs.replace(memory.view, now=now), partial(_answer, subject))


def _model(system: System | None, case: CaseView, runtime: str) -> FoundShape | Unknown:
    """By its files if they are here, by its name, or by what the server reports."""
    try:
        if system is not None:
            return find_hf_model(system, PlanRequest(runtime=runtime), case)
        name = case.model.name.value_or("") or case.model.path.value_or("")
        by_name = shape_by_name(name, case.model.quant.value_or(""))
    except UserError as error:
        return Unknown(error.message, error.hint)
    told = by_name or told_model(case)
    return told or Unknown("the catalog has no model of this name", "run unslow where the model's files are")


def _hf_subject(case: CaseView, found: FoundShape, cards: Hardware) -> HfSubject:
    runtime = case.runtime
    trained = found.shape.positions or DEFAULT_CONTEXT
    kind = str(runtime.cache.type_k.value_or("auto")).lower()
    context = int(runtime.context.length.value_or(trained))
    slots = int(runtime.scheduling.max_sequences.value_or(0))
    usual = vllm_release(version_of(case, RECENT)).utilization
    share = float(runtime.memory.gpu_memory_fraction.value_or(usual))
    request = FitRequest(
        model=found.name,
        runtime=_RUNTIMES[runtime.name.value_or("")],
        context=max(1, min(context, _MOST_CONTEXT)),
        kv_type="fp8" if kind.startswith("fp8") else "auto",
        parallel=min(slots, _MOST_SLOTS) or None,
        gpu_memory_utilization=share if 0 < share <= 1 else usual,
    )
    others = tuple(other_programs_on(case, gpu) for gpu in case.gpus.usable[: len(cards.rooms)])
    runs = runtime.state.value_or("loaded") != "failed"
    return HfSubject(request, found, cards, others, runs)


def hf_memory(subject: HfSubject) -> memory_view.Memory:
    """What its cards hold, with sliders."""
    request, trained = subject.request, subject.found.shape.positions or DEFAULT_CONTEXT
    usual = fit_report(request, subject.found, subject.hardware).settings["context"]
    context, slots = request.context or int(usual), request.parallel or 1
    sliders = [memory_view.slider("context", str(context), memory_view.context_choices(context, trained))]
    if request.runtime == "vllm":
        kind = request.kv_type if request.kv_type in _VLLM_CACHES else "auto"
        sliders.append(memory_view.slider("kv_type", kind, memory_view.cache_choices(kind, _VLLM_CACHES, _VLLM_CACHES)))
    if request.parallel or request.runtime != "vllm":  # how many vLLM takes by itself hangs on its version
        sliders.append(memory_view.slider("slots", str(slots), memory_view.slot_choices(slots)))
    answer = partial(_answer, subject)
    known = "files" if "/" in subject.found.source else "catalog entry"
    view = MemoryView(
        now=answer({one.knob: one.value for one in sliders}),
        sliders=tuple(sliders),
        source=f"the model's {known}, sized as {request.runtime} does",
    )
    return memory_view.Memory(view, answer)


def _answer(subject: HfSubject, settings: Mapping[str, str]) -> WhatIf:
    slots = int(settings.get("slots", 0))
    request = subject.request._replace(
        context=int(settings["context"]),
        kv_type=settings.get("kv_type", subject.request.kv_type),
        parallel=slots or None,
    )
    report = fit_report(request, subject.found, subject.hardware)
    if subject.runs and report.fits and request.runtime == "vllm":
        devices = []
        for shown in report.devices:  # a running vLLM holds its whole share: the rest of it is KV cache
            held = {"kv_bytes": shown.kv_bytes + (shown.free_bytes or 0), "free_bytes": 0, "margin_bytes": 0}
            total = shown.total_bytes + (shown.free_bytes or 0)
            devices.append(msgspec.structs.replace(shown, **held, total_bytes=total))
        report = msgspec.structs.replace(report, devices=tuple(devices))
    layers = memory_view.LayerCount(report.gpu_layers, report.all_gpu_layers)
    # A card whose engine takes a share of it may lack room for a request though something is free
    bars = []
    for room, shown, others in zip(subject.hardware.rooms, report.devices, subject.others, strict=True):
        asked = memory_view.AskedBytes(parts_of(shown), max(0, shown.reserve_bytes - room.reserve_bytes))
        bar = memory_view.bar_of(room, asked, others)
        if bar.fits != shown.fits:
            name, short = "missing for one request of this length", shown.lacking_bytes
            lacking = (MemoryPart(kind="lacking", name=name, bytes=short),) if short and bar.fits else ()
            parts = (*bar.parts, *lacking)
            bar = msgspec.structs.replace(bar, fits=shown.fits, parts=parts)
        bars.append(bar)
    if report.host.total_bytes:
        bars.append(host_bar(subject.hardware.host_room, parts_of(report.host)))
    return WhatIf(
        settings=dict(settings),
        bars=tuple(bars),
        verdict=report.verdict,
        summary=memory_view.what_if_summary(report.verdict, report.devices, report.host, layers, None),
        command=report.command,
        notes=tuple(dict.fromkeys((*report.notes, *subject.hardware.notes))),
    )
