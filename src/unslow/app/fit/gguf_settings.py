"""The settings of llama.cpp that a request means, and the knobs that mean the same."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from unslow.app.commands import commands_for
from unslow.app.fit.models import Found
from unslow.commands.fit import FitRequest
from unslow.facts.errors import UserError
from unslow.facts.knob import Change, Knob
from unslow.facts.model import Model
from unslow.facts.placed import Place, labelled
from unslow.facts.snapshot import Case
from unslow.facts.units import GIB
from unslow.facts.values import NOT_LOOKED, reported
from unslow.think.hardware import Room
from unslow.think.memory.llama_cpp.settings import Settings, ollama_micro_batch

DEFAULT_CONTEXT = 8192
SERVER_SLOTS = 4
"""What llama-server takes by default, with one cache for all of them."""
BATCH, MICRO_BATCH = 2048, 512
_OLLAMA_CONTEXTS = ((47 * GIB, 262144), (23 * GIB, 32768), (0, 4096))
"""Of all GPUs' memory together, and the context that Ollama then takes by itself, since 0.15.5 (server/routes.go)."""
_PLAIN_TYPES = ("f32", "f16", "bf16")
_FLASH = {"on": True, "off": False, "auto": None}


def settings_of(request: FitRequest, trained: int, rooms: Sequence[Room], own: Mapping[str, Any]) -> Settings:
    """With the runtime's defaults where the request says nothing; `own` is what Ollama's store has set."""
    ollama = request.runtime == "ollama"
    slots = request.parallel or (1 if ollama else SERVER_SLOTS)
    unified = request.parallel is None if request.kv_unified is None else request.kv_unified
    asked = default_context(request.runtime, trained, rooms, own) if request.context is None else request.context
    context = asked or trained
    usual = int(own.get("num_batch", 0)) or ollama_micro_batch(context) if ollama else MICRO_BATCH
    micro_batch = request.ubatch or usual
    return Settings(
        context=context * slots if ollama else context,
        batch=request.batch or (micro_batch if ollama else max(BATCH, micro_batch)),
        micro_batch=micro_batch,
        slots=slots,
        unified=unified and not ollama,
        key_type=request.kv_type.upper(),
        value_type=(request.kv_type_v or request.kv_type).upper(),
        flash_attention=_FLASH[request.flash_attention],
        outputs=slots if request.outputs is None else request.outputs,
        gpu_layers=-1 if request.gpu_layers is None else request.gpu_layers,
        cache_on_gpu=request.kv_offload,
        offload_ops=request.op_offload,
        full_windows=request.swa_full,
        experts_on_cpu=request.n_cpu_moe,
        overrides=_overrides(request.override_tensor, len(rooms)),
        split=request.tensor_split,
    )


def default_context(runtime: str, trained: int, rooms: Sequence[Room], own: Mapping[str, Any]) -> int:
    """Where nobody asks for one; for Ollama what the model's Modelfile says, else what all GPUs' memory allows.

    Ollama cuts what is longer than the model was trained for (llm/server.go).
    """
    if runtime != "ollama":
        return min(DEFAULT_CONTEXT, trained)
    memory = sum(room.capacity_bytes for room in rooms)
    usual = next(tokens for least, tokens in _OLLAMA_CONTEXTS if memory >= least)
    return min(int(own.get("num_ctx", 0)) or usual, trained)


def _overrides(patterns: tuple[str, ...], devices: int) -> tuple[tuple[str, str], ...]:
    """PATTERN=DEVICE as llama.cpp writes it, with the devices as numbers."""
    places = {"CPU": devices, **{f"CUDA{n}": n for n in range(devices)}}
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


def setting_notes(request: FitRequest, settings: Settings, trained: int, *, experts: bool, gpus: bool) -> list[str]:
    """What a user should know of the settings."""
    notes = []
    if request.ubatch and request.batch is None and request.ubatch > BATCH:
        notes.append(f"a micro-batch of {request.ubatch} needs a batch as large (-b {request.ubatch}): counted so")
    if settings.slot_context > trained:
        notes.append(f"the model was trained for {trained:,} tokens; a slot has {settings.slot_context:,}")
    if request.n_cpu_moe and not experts:
        notes.append("--n-cpu-moe has no effect: the model has no experts")
    if request.gpu_layers and not gpus:
        notes.append("--gpu-layers has no effect: there is no GPU")
    return notes


def lines_of(
    request: FitRequest, found: Found, settings: Settings, *, tight: bool = False, without_gpus: bool = False
) -> tuple[str, ...]:
    """What to type to run the model so, by the writer of the runtime's commands that every verb has."""
    source, ollama = found.source, request.runtime == "ollama"
    is_file = not found.requantised and Path(source).suffix == ".gguf" and "://" not in source
    name = found.name_in_ollama(request.model) if ollama else ""
    changes = _changes(request, settings, tight=tight)
    if without_gpus and not ollama:  # for which a number of 0 layers means the same
        changes.append(Knob.DEVICE.to("none"))
    if ollama and is_file:
        changes = [Knob.MODEL_FILE.to(str(Path(source).absolute())), *changes]
    model = Model(
        name=reported(name, "given") if name else NOT_LOOKED,
        path=reported(source if is_file else "MODEL.gguf", "given"),
    )
    spelled = commands_for(changes, Case(model=model), name=request.runtime)
    left = (f"{change.knob.replace('_', ' ')} {change.value}: {why}" for change, why in spelled.left_out)
    return (*spelled.lines, *(labelled(Place.HAND, f"not in these lines: {what}") for what in left))


def _changes(request: FitRequest, settings: Settings, *, tight: bool) -> list[Change]:
    """All that memory was counted with and the runtime does not do by itself; `tight` leaves nothing to its fit."""
    ollama = request.runtime == "ollama"
    return [
        Knob.CONTEXT_LENGTH.to(settings.context),
        *_slots(settings, ollama=ollama),
        *([Knob.LOGICAL_BATCH.to(settings.batch)] if settings.batch != BATCH and not ollama else []),
        *([Knob.BATCH.to(settings.micro_batch)] if settings.micro_batch != MICRO_BATCH or ollama else []),
        *_cache(request, settings),
        *_placement(request, settings, tight=tight),
        *([Knob.OP_OFFLOAD.to(False)] if not settings.offload_ops else []),  # noqa: FBT003
    ]


def _slots(settings: Settings, *, ollama: bool) -> list[Change]:
    if (settings.slots, settings.unified) == ((1, False) if ollama else (SERVER_SLOTS, True)):
        return []
    shared = [Knob.KV_UNIFIED.to(True)] if settings.unified and settings.slots > 1 else []  # noqa: FBT003
    return [Knob.PARALLEL.to(settings.slots), *shared]


def _cache(request: FitRequest, settings: Settings) -> list[Change]:
    key, value = settings.key_type.lower(), settings.value_type.lower()
    changes = [Knob.KV_CACHE_TYPE.to(key)] if key != "f16" or value != key else []
    changes += [Knob.VALUE_CACHE_TYPE.to(value)] if value != key else []
    if request.flash_attention != "auto" or value not in _PLAIN_TYPES:
        changes.append(Knob.FLASH_ATTENTION.to(request.flash_attention != "off"))
    if not settings.cache_on_gpu:
        changes.append(Knob.KV_OFFLOAD.to(False))  # noqa: FBT003
    return [*changes, Knob.PROMPT_CACHE.to("swa-full")] if settings.full_windows else changes


def _placement(request: FitRequest, settings: Settings, *, tight: bool) -> list[Change]:
    changes = [Knob.GPU_LAYERS.to(settings.gpu_layers)] if settings.gpu_layers >= 0 or tight else []
    if tight and request.runtime != "ollama":  # whose number of layers turns its fit off
        changes.append(Knob.FIT.to(False))  # noqa: FBT003
    if settings.experts_on_cpu:
        changes.append(Knob.EXPERTS_ON_CPU.to(settings.experts_on_cpu))
    overrides = request.override_tensor or tuple(f"{pattern}=CPU" for pattern, _ in settings.overrides)
    if overrides:
        changes.append(Knob.TENSOR_OVERRIDE.to(",".join(overrides)))
    if settings.split:
        changes.append(Knob.TENSOR_SPLIT.to(",".join(f"{share:g}" for share in settings.split)))
    return changes
