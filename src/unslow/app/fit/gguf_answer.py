"""The answer for llama.cpp, and for Ollama, which runs it."""

import re

from unslow import __version__
from unslow.app.fit.models import Found, as_quant, find_gguf_model
from unslow.app.fit.request import Request
from unslow.app.fit.rooms import find_rooms
from unslow.catalog.mixes import mixes_from_large_to_small
from unslow.facts.errors import UserError
from unslow.look.system import System
from unslow.think.fit import llama_cpp
from unslow.think.fit.report import FitReport, ModelShown, QuantShown
from unslow.think.fit.rooms import Room
from unslow.think.fit.rule_of_thumb import rule_of_thumb
from unslow.think.memory.llama_cpp.hyper import Hyper
from unslow.think.memory.llama_cpp.refusals import refusal
from unslow.think.memory.llama_cpp.settings import Settings

DEFAULT_CONTEXT = 8192
_SERVER_SLOTS = 4
"""What llama-server takes by default, with one cache for all of them."""
_BATCH, _MICRO_BATCH = 2048, 512
_ROUGH = 0.05
"""How far the size of a quant may be from its usual bits for each weight."""
_FLASH = {"on": True, "off": False, "auto": None}


def gguf_answer(system: System, request: Request) -> FitReport:
    """Whether the model fits, as llama.cpp counts."""
    found = find_gguf_model(system, request.model, request.quant)
    rooms, host = find_rooms(system, request.devices, request.ram_bytes)
    if request.tensor_split and len(request.tensor_split) != len(rooms):
        raise UserError(f"--tensor-split has {len(request.tensor_split)} shares for {len(rooms)} GPUs", "one for each")
    settings, notes = _settings(request, found, rooms)
    margin = llama_cpp.DEFAULT_MARGIN_BYTES if request.margin_bytes is None else request.margin_bytes
    if why := refusal(Hyper(found.blueprint), settings):
        raise UserError(f"llama.cpp does not start with these settings: {why}", "change --kv-type or --flash-attention")
    question = llama_cpp.Question(found.blueprint, rooms, host, settings, margin).settled()
    return _report(request, found, question, (*found.notes, *notes, *_estimate_note(question)))


def _estimate_note(question: llama_cpp.Question) -> tuple[str, ...]:
    why = question.memory().estimated
    return (f"compute buffers are estimated: {why}",) if why else ()


def _settings(request: Request, found: Found, rooms: list[Room]) -> tuple[Settings, tuple[str, ...]]:
    trained = found.blueprint.count("context_length", DEFAULT_CONTEXT)
    slots = request.parallel or (1 if request.runtime == "ollama" else _SERVER_SLOTS)
    unified = request.parallel is None if request.kv_unified is None else request.kv_unified
    micro_batch = request.ubatch or _MICRO_BATCH
    context = request.context or min(DEFAULT_CONTEXT, trained)
    if request.runtime == "ollama":
        unified, context = False, context * slots
    settings = Settings(
        context=context,
        batch=request.batch or max(_BATCH, micro_batch),
        micro_batch=micro_batch,
        slots=slots,
        unified=unified,
        key_type=request.kv_type.upper(),
        value_type=(request.kv_type_v or request.kv_type).upper(),
        flash_attention=_FLASH[request.flash_attention],
        outputs=slots if request.outputs is None else request.outputs,
        gpu_layers=-1 if request.gpu_layers is None else request.gpu_layers,
        cache_on_gpu=request.kv_offload,
        offload_ops=request.op_offload,
        full_windows=request.swa_full,
        experts_on_cpu=request.n_cpu_moe,
        overrides=_overrides(request.override_tensor, rooms),
        split=request.tensor_split,
    )
    return settings, _setting_notes(request, settings, trained)


def _setting_notes(request: Request, settings: Settings, trained: int) -> tuple[str, ...]:
    notes = []
    if request.ubatch and request.batch is None and request.ubatch > _BATCH:
        notes.append(f"llama.cpp cuts a micro-batch of {request.ubatch} to its batch: give it -b {request.ubatch} too")
    if settings.slot_context > trained:
        notes.append(f"the model was trained for {trained:,} tokens; a slot has {settings.slot_context:,}")
    return tuple(notes)


def _overrides(patterns: tuple[str, ...], rooms: list[Room]) -> tuple[tuple[str, str], ...]:
    """PATTERN=DEVICE as llama.cpp writes it, with the devices as numbers."""
    places = {"CPU": len(rooms), **{f"CUDA{n}": n for n in range(len(rooms))}}
    pairs = []
    for text in ",".join(patterns).split(",") if patterns else ():
        pattern, equals, device = text.rpartition("=")
        if not equals or device.upper() not in places:
            raise UserError(f"{text!r} is no override", f"write PATTERN=DEVICE, with one of {', '.join(places)}")
        try:
            re.compile(pattern)
        except re.error as error:
            raise UserError(f"{pattern!r} is no pattern: {error}", "it is a regular expression") from error
        pairs.append((pattern, str(places[device.upper()])))
    return tuple(pairs)


def _report(request: Request, found: Found, question: llama_cpp.Question, notes: tuple[str, ...]) -> FitReport:
    devices, host = llama_cpp.shown_needs(question)
    everything = found.blueprint.count("block_count") + 1
    layers = everything if question.settings.gpu_layers < 0 else min(question.settings.gpu_layers, everything)
    fits = all(d.fits for d in devices) and host.fits is not False
    needed = sum(d.total_bytes for d in (*devices, host))
    room = sum(r.usable_bytes for r in question.rooms) if question.rooms else None
    return FitReport(
        unslow_version=__version__,
        model=_model_shown(found),
        runtime=request.runtime,
        settings=_settings_shown(question.settings),
        fits=fits,
        devices=devices,
        host=host,
        gpu_layers=layers if question.rooms else 0,
        all_gpu_layers=everything,
        max_gpu_layers=llama_cpp.most_layers(question),
        max_context=llama_cpp.most_context(question),
        kv=llama_cpp.shown_cache(question),
        next_quant=None if fits else _next_quant(found, question),
        rule_of_thumb=rule_of_thumb(found.parameters, found.quant, room, needed),
        notes=notes,
    )


def _next_quant(found: Found, question: llama_cpp.Question) -> QuantShown | None:
    """The largest usual quant below this one with which everything fits on the devices."""
    weights = sum(t.bytes for t in found.blueprint.tensors)
    bits = 8 * weights / max(1, found.parameters)
    lacking = -question.left()
    enough = 1 - (lacking - _ROUGH * weights) / weights  # by the bits alone; only those near it are made up to the byte
    smaller = [m.name for m in mixes_from_large_to_small() if m.bits_per_weight < bits * min(1, enough)]
    return llama_cpp.smaller_quant(question, smaller, lambda quant: as_quant(found.blueprint, quant))


def _model_shown(found: Found) -> ModelShown:
    plan = found.blueprint
    return ModelShown(
        name=found.name, architecture=plan.architecture, quant=found.quant, source=found.source,
        parameters=found.parameters, weights_bytes=sum(t.bytes for t in plan.tensors), file_bytes=plan.file_bytes,
        layers=plan.count("block_count"), context_trained=plan.count("context_length"),
    )  # fmt: skip


def _settings_shown(settings: Settings) -> dict[str, str | int | bool]:
    return {
        "context": settings.whole_context,
        "context_per_slot": settings.slot_context,
        "slots": settings.slots,
        "kv_unified": settings.unified,
        "kv_type": settings.key_type.lower(),
        "kv_type_v": settings.value_type.lower(),
        "batch": settings.used_batch,
        "ubatch": settings.used_micro_batch,
        "outputs": settings.most_outputs,
        "flash_attention": {True: "on", False: "off", None: "auto"}[settings.flash_attention],
        "kv_offload": settings.cache_on_gpu,
    }
