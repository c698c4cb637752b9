"""A model on a device that a user names, as a subject of what-if questions: no server has to run."""

from unslow.app.fit.gguf_answer import find_setup
from unslow.app.fit.gguf_settings import lines_of
from unslow.app.plan.machines import planned_hardware
from unslow.app.view.memory_choices import Asked
from unslow.app.view.memory_llama import Subject, asked_now, knobs_of
from unslow.app.view.memory_price import Priced
from unslow.commands.fit import FitRequest
from unslow.commands.plan import PlanRequest
from unslow.facts.errors import UserError
from unslow.facts.values import Unknown
from unslow.look.system import System
from unslow.think.hardware import Hardware
from unslow.think.memory.llama_cpp.hyper import hyper_of
from unslow.think.memory.llama_cpp.settings import Settings
from unslow.think.setup import Setup


def named_subject(system: System, request: FitRequest) -> Subject | Unknown:
    """The subject; UserError where there is no such model or device, or llama.cpp would not start so."""
    request, found, setup = find_setup(system, request)
    if not setup.hardware.rooms and setup.hardware.host_room is None:
        return Unknown("how much memory the host has is not known", "say so: --ram 64GB")
    now, notes = asked_now(found, setup), setup.hardware.memory_notes
    hardware = _with_speed(system, request, setup)
    experts = request.n_cpu_moe if hyper_of(found.blueprint).experts else 0

    def command(asked: Asked, settings: Settings) -> str:
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
