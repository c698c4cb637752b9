"""The settings of llama.cpp that a request means, and the command line that means the same."""

import re
import shlex
from collections.abc import Sequence

from unslow.app.fit.request import Request
from unslow.facts.errors import UserError
from unslow.think.fit.rooms import Room
from unslow.think.memory.llama_cpp.settings import Settings

DEFAULT_CONTEXT = 8192
SERVER_SLOTS = 4
"""What llama-server takes by default, with one cache for all of them."""
BATCH, MICRO_BATCH = 2048, 512
_FLASH = {"on": True, "off": False, "auto": None}


def settings_of(request: Request, trained: int, rooms: Sequence[Room]) -> Settings:
    """With llama-server's defaults where the request says nothing; Ollama's context is of each slot."""
    ollama = request.runtime == "ollama"
    slots = request.parallel or (1 if ollama else SERVER_SLOTS)
    unified = request.parallel is None if request.kv_unified is None else request.kv_unified
    micro_batch = request.ubatch or MICRO_BATCH
    context = min(DEFAULT_CONTEXT, trained) if request.context is None else request.context or trained
    return Settings(
        context=context * slots if ollama else context,
        batch=request.batch or max(BATCH, micro_batch),
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


def setting_notes(request: Request, settings: Settings, trained: int, *, experts: bool, gpus: bool) -> list[str]:
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


def command_of(request: Request, settings: Settings, model: str) -> str:
    """The command line that runs the model so; Ollama's settings are environment variables and a request's options."""
    if request.runtime == "ollama":
        context = settings.slot_context
        start = f"OLLAMA_CONTEXT_LENGTH={context} OLLAMA_NUM_PARALLEL={settings.slots}"
        kind = settings.key_type.lower()
        cache = f" OLLAMA_FLASH_ATTENTION=1 OLLAMA_KV_CACHE_TYPE={kind}" if kind != "f16" else ""
        return f"{start}{cache} ollama serve"
    words = ["llama-server", "-m", model, "-c", str(settings.context), *_flags(request, settings)]
    return shlex.join(words)


def _flags(request: Request, settings: Settings) -> list[str]:
    """Only what differs from llama-server's defaults."""
    usual = settings.slots == SERVER_SLOTS and settings.unified
    pairs = {
        "-np": "" if usual else str(settings.slots),
        "-b": "" if settings.batch == BATCH else str(settings.batch),
        "-ub": "" if settings.micro_batch == MICRO_BATCH else str(settings.micro_batch),
        "-ctk": "" if settings.key_type == "F16" else settings.key_type.lower(),
        "-ctv": "" if settings.value_type == "F16" else settings.value_type.lower(),
        "-fa": "" if request.flash_attention == "auto" else request.flash_attention,
        "-ngl": "" if settings.gpu_layers < 0 else str(settings.gpu_layers),
        "--n-cpu-moe": str(settings.experts_on_cpu or ""),
        "-ot": ",".join(request.override_tensor),
        "-ts": ",".join(f"{share:g}" for share in settings.split),
    }
    switches = {
        "-kvu": settings.unified and not usual and settings.slots > 1,
        "-nkvo": not settings.cache_on_gpu,
        "--swa-full": settings.full_windows,
        "--no-op-offload": not settings.offload_ops,
    }
    return [w for flag, value in pairs.items() if value for w in (flag, value)] + [
        f for f, on in switches.items() if on
    ]
