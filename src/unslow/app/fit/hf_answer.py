"""The answer for vLLM and Transformers, which load safetensors."""

from collections.abc import Sequence

from unslow import __version__
from unslow.app.fit.hf_models import FoundShape, find_shape
from unslow.app.fit.request import Request
from unslow.app.fit.rooms import find_rooms, room_notes
from unslow.facts.errors import UserError
from unslow.look.system import System
from unslow.think.fit.report import FitReport, ModelShown
from unslow.think.fit.rooms import Room
from unslow.think.fit.rule_of_thumb import rule_of_thumb
from unslow.think.fit.shown import FITS
from unslow.think.fit.transformers import transformers_answer
from unslow.think.fit.vllm import Answer, vllm_answer
from unslow.think.memory.parts import total_bytes
from unslow.think.memory.transformers import settings as transformers
from unslow.think.memory.vllm import settings as vllm

DEFAULT_CONTEXT = 8192


def hf_answer(system: System, request: Request) -> FitReport:
    """Whether the model fits, as the runtime counts."""
    found = find_shape(system, request.model, request.quant)
    rooms, host = find_rooms(system, request.devices, request.ram_bytes)
    return answered(request, found, rooms, host)


def answered(request: Request, found: FoundShape, rooms: Sequence[Room], host: Room | None) -> FitReport:
    """Whether a model that was found fits these memories."""
    trained = found.shape.positions or DEFAULT_CONTEXT
    usual = trained if request.runtime == "vllm" else min(DEFAULT_CONTEXT, trained)
    context = usual if request.context is None else request.context or trained
    if request.runtime == "vllm":
        answer, shown = _vllm(request, found, rooms, context)
    else:
        answer, shown = _transformers(request, found, rooms, host, context)
    return _report(request, found, answer, shown, rooms)


def _vllm(
    request: Request, found: FoundShape, rooms: Sequence[Room], context: int
) -> tuple[Answer, dict[str, str | int | bool]]:
    if not rooms:
        raise UserError("vLLM's memory is known for GPUs only", 'name one: --device "RTX 4090"')
    settings = vllm.Settings(
        max_model_len=context,
        gpu_memory_utilization=request.gpu_memory_utilization,
        max_num_seqs=request.parallel or 0,
        max_num_batched_tokens=request.batch or 0,
        packing=found.packing,
        kv_cache_dtype="auto" if request.kv_type in ("f16", "bf16") else request.kv_type,
        dtype_bytes=found.dtype_bytes,
        small_batches=any("A100" in room.name for room in rooms),
    )
    shown: dict[str, str | int | bool] = {
        "context": context, "kv_type": settings.kv_cache_dtype, "tensor_parallel": len(rooms),
        "gpu_memory_utilization": f"{settings.utilization:g}", "slots": request.parallel or 1, "kv_unified": True,
    }  # fmt: skip
    return vllm_answer(found.shape, found.parts, settings, rooms), shown


def _transformers(
    request: Request, found: FoundShape, rooms: Sequence[Room], host: Room | None, context: int
) -> tuple[Answer, dict[str, str | int | bool]]:
    settings = transformers.Settings(
        prompt_tokens=max(1, context - 1),
        batch=request.parallel or 1,
        attention={"on": "flash", "off": "eager"}.get(request.flash_attention, "sdpa"),
        dtype_bytes=found.dtype_bytes,
    )
    shown: dict[str, str | int | bool] = {
        "context": context, "slots": settings.batch, "kv_unified": False, "attention": settings.attention,
        "kv_type": "f32" if found.dtype_bytes == 4 else "bf16", "cache": settings.cache,  # noqa: PLR2004
    }  # fmt: skip
    return transformers_answer(found.shape, found.parts, settings, rooms, host), shown


def _report(
    request: Request, found: FoundShape, answer: Answer, shown: dict[str, str | int | bool], rooms: Sequence[Room]
) -> FitReport:
    everything = found.shape.layers + 1
    room = sum(r.usable_bytes for r in rooms) if rooms else None
    return FitReport(
        unslow_version=__version__,
        model=ModelShown(
            name=found.name, architecture=found.architecture, quant=found.quant, source=found.source,
            parameters=found.parameters, weights_bytes=total_bytes(found.parts), file_bytes=0,
            layers=found.shape.layers, context_trained=found.shape.positions,
        ),
        runtime=request.runtime,
        settings=shown,
        verdict=answer.verdict,
        fits=FITS[answer.verdict],
        devices=answer.devices,
        host=answer.host,
        gpu_layers=everything if rooms else 0,
        all_gpu_layers=everything,
        max_gpu_layers=None,
        max_context=answer.max_context,
        rule_of_thumb=rule_of_thumb(found.parameters, found.quant, room, answer.needed_bytes),
        command=_command(request, shown, answer),
        notes=(*answer.notes, *found.notes, *room_notes(rooms, None)),
    )  # fmt: skip


def _command(request: Request, shown: dict[str, str | int | bool], answer: Answer) -> str:
    """How to start vLLM so; with the longest context that fits, where the one that was asked for does not."""
    if request.runtime != "vllm":
        return ""
    context = shown["context"] if FITS[answer.verdict] else answer.max_context
    if not context:
        return ""
    cards = f" --tensor-parallel-size {shown['tensor_parallel']}" if shown["tensor_parallel"] != 1 else ""
    cache = f" --kv-cache-dtype {shown['kv_type']}" if shown["kv_type"] != "auto" else ""
    return f"vllm serve MODEL --max-model-len {context}{cards}{cache}"
