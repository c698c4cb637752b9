"""A model on a device that a user names, as a subject of what-if questions: no server has to run."""

from unslow.app.fit.gguf_settings import lines_of, settings_of
from unslow.app.fit.models import find_gguf_model
from unslow.app.fit.request import Request
from unslow.app.fit.rooms import find_rooms, room_notes
from unslow.app.plan.machines import find_hardware
from unslow.app.plan.request import PlanRequest
from unslow.app.view.memory_choices import Asked
from unslow.app.view.memory_llama import Subject, context_now
from unslow.app.view.memory_price import Priced
from unslow.facts.blueprint import Blueprint
from unslow.facts.errors import UserError
from unslow.facts.values import Unknown
from unslow.look.system import System
from unslow.think.memory.llama_cpp.hyper import hyper_of
from unslow.think.memory.llama_cpp.refusals import refusal
from unslow.think.memory.llama_cpp.settings import Settings

_USUAL_TRAINED = 8192


def named_subject(system: System, request: Request) -> Subject | Unknown:
    """The subject; UserError where there is no such model or device, or llama.cpp would not start so."""
    found = find_gguf_model(system, request.model, request.quant)
    rooms, host = find_rooms(system, request.devices, request.ram_bytes)
    if request.tensor_split and len(request.tensor_split) != len(rooms):
        raise UserError(f"--tensor-split has {len(request.tensor_split)} shares for {len(rooms)} GPUs", "one for each")
    trained = found.blueprint.count("context_length", _USUAL_TRAINED) or _USUAL_TRAINED
    base = settings_of(request, trained, rooms, found.settings)
    if why := refusal(hyper_of(found.blueprint), base):
        raise UserError(f"llama.cpp does not start so: {why}", "see --kv-type, --flash-attention and --parallel")
    if not rooms and host is None:
        return Unknown("how much memory the host has is not known", "say so: --ram 64GB")
    everything = found.blueprint.count("block_count") + 1
    now = Asked(
        context=context_now(base),
        gpu_layers=(everything if base.gpu_layers < 0 else min(base.gpu_layers, everything)) if rooms else 0,
        kv_type=base.cache_types,
        quant=found.quant if found.quant not in ("", "?") else "as it is",
        slots=base.slots,
    )

    def command(asked: Asked, settings: Settings) -> str:
        return "\n".join(lines_of(request, found._replace(requantised=asked.quant != now.quant), settings))

    return Subject(
        found, tuple(rooms), host, base, now,
        knobs=("context", *(("gpu_layers",) if rooms else ()), "kv_type", "quant", "slots"),
        priced=_priced(system, request, found.blueprint, len(rooms)),
        unified=bool(request.kv_unified) and request.runtime != "ollama",
        command=command,
        notes=(*found.notes, *room_notes(rooms, host)),
    )  # fmt: skip


def _priced(system: System, request: Request, plan: Blueprint, gpus: int) -> Priced | None:
    """None where nobody knows how fast the devices are, or where single tensors are moved."""
    if request.override_tensor:
        return None
    try:
        found = find_hardware(system, PlanRequest(request.model, request.devices, request.ram_bytes), plan)
    except UserError:  # a memory of a size alone has no speed
        return None
    if isinstance(found, Unknown) or len(found[0].rooms) != gpus:
        return None
    hardware = found[0]._replace(pinned=False)
    return Priced(hardware, hardware.processors.cores, whole_first=request.n_cpu_moe if hyper_of(plan).experts else 0)
