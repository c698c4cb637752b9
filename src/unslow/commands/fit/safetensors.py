"""The answer for vLLM and Transformers, which load safetensors."""

from collections.abc import Iterator
from typing import NamedTuple

from unslow import __version__
from unslow.catalog.devices import find_device
from unslow.catalog.weight_parts import Part, find_scheme, packed_storage, parts_of_shape, total_bytes
from unslow.commands._command_lines import commands_for
from unslow.commands._hardware import find_memory
from unslow.commands.fit import FitRequest
from unslow.commands.models.find import FoundShape, find_shape
from unslow.facts.errors import UserError
from unslow.facts.knob import Knob
from unslow.facts.model import Model
from unslow.facts.snapshot import Case
from unslow.facts.values import reported_fact
from unslow.look.system import System
from unslow.think.case.view import CaseView
from unslow.think.fit.answers import FITS, rule_of_thumb
from unslow.think.fit.report import FitReport, ModelShown, WayShown
from unslow.think.fit.safetensors import FitAnswer, transformers_answer, vllm_answer
from unslow.think.hardware import Hardware, Room
from unslow.think.memory import transformers, vllm
from unslow.think.plan.vllm.choices import FP8_CACHE, MOST_SHARE, PACKS_AT_LOAD
from unslow.think.speed.question import has_links

DEFAULT_CONTEXT = 8192
_FEWER_REQUESTS = (256, 64, 16)  # Of 1024 by default on a large card, whose logits the profiling run holds all at once
_MUCH_SMALLER = 0.9


def hf_answer(system: System, request: FitRequest) -> FitReport:
    """Whether the model fits, as the runtime counts."""
    found = find_shape(system, request.model, request.quant, request.runtime)
    hardware = find_memory(system, request.devices, request.ram_bytes)
    return fit_report(request, found, hardware)


def fit_report(request: FitRequest, found: FoundShape, hardware: Hardware) -> FitReport:
    """Whether a model that was found fits these memories."""
    trained = found.shape.positions or DEFAULT_CONTEXT
    usual = trained if request.runtime == "vllm" else min(DEFAULT_CONTEXT, trained)
    context = usual if request.context is None else request.context or trained
    if request.runtime == "vllm":
        return _vllm_report(request, found, hardware, context)
    settings = transformers.TransformersSettings(
        prompt_tokens=max(1, context - 1),
        batch=request.parallel or 1,
        attention={"on": "flash", "off": "eager"}.get(request.flash_attention, "sdpa"),
        dtype_bytes=found.dtype_bytes,
    )
    shown: dict[str, str | int | bool] = {
        "context": context, "slots": settings.batch, "kv_unified": False, "attention": settings.attention,
        "kv_type": "f32" if found.dtype_bytes == 4 else "bf16", "cache": settings.cache,  # noqa: PLR2004
    }  # fmt: skip
    answer = transformers_answer(found.shape, found.parts, settings, hardware.rooms, hardware.host_room)
    return _report(request, found, answer, shown, hardware)


def _vllm_report(request: FitRequest, found: FoundShape, hardware: Hardware, context: int) -> FitReport:
    """Without a context that was asked for, the longest one that fits is answered for."""
    rooms = hardware.rooms
    if not rooms:
        raise UserError("vLLM's memory use is known for GPUs only", 'name one: --device "RTX 4090"')
    device = find_device(rooms[0].name, rooms[0].capacity_bytes)
    loaded = found if request.quant else found.loaded_by_vllm()  # a type that was asked for is told to vLLM too
    settings = vllm.VllmSettings(
        max_model_len=context,
        gpu_memory_utilization=request.gpu_memory_utilization,
        max_num_seqs=request.parallel or 0,
        max_num_batched_tokens=request.batch or 0,
        packing=found.packing,
        kv_cache_dtype="auto" if request.kv_type in ("f16", "bf16") else request.kv_type,
        dtype_bytes=loaded.dtype_bytes,
        small_batches=any("A100" in room.name for room in rooms),
        linked=device is None or has_links(device),
    )
    tried = _VllmTrial(loaded, tuple(loaded.parts), settings, rooms, shortens=request.context is None)
    answer = tried.answer()
    shown: dict[str, str | int | bool] = {
        "context": answer.context, "kv_type": settings.kv_cache_dtype, "tensor_parallel": len(rooms),
        "gpu_memory_utilization": f"{settings.utilization:g}", "slots": request.parallel or 1, "kv_unified": True,
    }  # fmt: skip
    family = device.family if device else ""
    ways = () if FITS[answer.verdict] else tuple(_vllm_ways(tried, answer.max_context, family))
    return _report(request, found, answer, shown, hardware, tried.command(), ways)


class _VllmTrial(NamedTuple):
    """A model under vLLM with settings on cards, and how to start it so."""

    found: FoundShape
    parts: tuple[Part, ...]
    settings: vllm.VllmSettings
    rooms: tuple[Room, ...]
    shortens: bool = False

    def answer(self) -> FitAnswer:
        """Whether it fits."""
        return vllm_answer(self.found.shape, self.parts, self.settings, self.rooms, shortens=self.shortens)

    def in_format(self, word: str) -> "_VllmTrial":
        """With the weights in another format."""
        scheme = find_scheme(word)
        parts = tuple(parts_of_shape(self.found.shape, packed_storage(scheme)))
        return self._replace(parts=parts, settings=self.settings._replace(packing=scheme.packing.name, dtype_bytes=2))

    def command(self, model: str = "") -> str:
        """With what differs from vLLM's defaults, and the length, which decides whether it starts; empty if nothing."""
        answer, settings = self.answer(), self.settings
        if not FITS[answer.verdict]:
            return ""
        changes = (
            Knob.CONTEXT_LENGTH.to(answer.context),
            Knob.SPLIT_MODE.to(len(self.rooms) if len(self.rooms) > 1 else None),
            Knob.MEMORY_SHARE.to(settings.gpu_memory_utilization),
            Knob.WEIGHTS_TYPE.to("float32" if settings.dtype_bytes > 2 else None),  # noqa: PLR2004 (bytes of 16 bits)
            Knob.KV_CACHE_TYPE.to(None if settings.kv_cache_dtype == "auto" else settings.kv_cache_dtype),
            Knob.PARALLEL.to(settings.max_num_seqs or None),
            Knob.BATCH.to(settings.max_num_batched_tokens or None),
        )
        checkpoint = Model(path=reported_fact(model or self.found.checkpoint, "given"))
        asked = [change for change in changes if change.value is not None]
        return "\n".join(commands_for(asked, CaseView(Case(model=checkpoint)), name="vllm").lines)


def _vllm_ways(tried: _VllmTrial, most_context: int | None, family: str) -> Iterator[WayShown]:
    """What would fit instead, each tried out, the mildest first; `family` is the chip's."""
    settings, now = tried.settings, tried.settings.utilization
    shorter = tried._replace(settings=settings._replace(max_model_len=most_context or settings.max_model_len))
    shares = (n / 100 for n in range(round(100 * now) + 1, round(100 * MOST_SHARE) + 1))
    larger = [tried._replace(settings=settings._replace(gpu_memory_utilization=share)) for share in shares]
    small = tried._replace(settings=settings._replace(kv_cache_dtype="fp8"))
    ways = [(f"a context of {most_context:,} tokens", shorter.command())] if most_context else []
    more = next(((one.settings.utilization, command) for one in larger if (command := one.command())), None)
    ways += [(f"{more[0]:.0%} of each GPU instead of {now:.0%}", more[1])] if more else []
    fewer = ((n, tried._replace(settings=settings._replace(max_num_seqs=n)).command()) for n in _FEWER_REQUESTS)
    if not settings.max_num_seqs and (served := next(((n, line) for n, line in fewer if line), None)):
        ways.append((f"at most {served[0]} concurrent requests: the sampler reserves less memory", served[1]))
    if settings.kv_bytes > 1 and family in FP8_CACHE:
        ways.append(("the same context with an FP8 KV cache", small.command()))
    formats = (("FP8", "an FP8 checkpoint"), ("AWQ", "a 4-bit checkpoint (AWQ or GPTQ)"))
    usable = ((word, what) for word, what in formats if word != "FP8" or family in PACKS_AT_LOAD)
    coarser = ((word, what, tried.in_format(word)) for word, what in usable)
    less = _MUCH_SMALLER * total_bytes(tried.parts)
    coarse = ((what, one.command(f"MODEL-{word}")) for word, what, one in coarser if total_bytes(one.parts) < less)
    ways += [next((way for way in coarse if way[1]), ("", ""))]
    cards = [n for n in (2, 4, 8) if n > len(tried.rooms) and tried.found.shape.heads % n == 0]
    several = ((n, tried._replace(rooms=(tried.rooms[0],) * n).command()) for n in cards)
    ways += [next(((f"{n} of these GPUs, tensor parallel", command) for n, command in several if command), ("", ""))]
    return (WayShown(what=what, command=command) for what, command in ways if command)


def _report(
    request: FitRequest, found: FoundShape, answer: FitAnswer, shown: dict[str, str | int | bool], hardware: Hardware,
    command: str = "", ways: tuple[WayShown, ...] = (),
) -> FitReport:  # fmt: skip
    everything, rooms = found.shape.layers + 1, hardware.rooms
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
        command=command,
        ways=ways,
        notes=(*answer.notes, *found.notes, *Hardware(rooms).memory_notes),
    )  # fmt: skip
