"""The cards that a plan for vLLM or Transformers is for: those that a user names, or those that a server runs on."""

from unslow.app.hardware import HardwareRequest, find_hardware
from unslow.catalog.devices import find_device
from unslow.commands.plan import PlanRequest
from unslow.facts.machine import Gpu
from unslow.facts.snapshot import Case
from unslow.facts.values import Known, Unknown
from unslow.look.system import System
from unslow.think.adapt.own_process import is_own
from unslow.think.adapt.several_gpus import copies_of, has_fast_links
from unslow.think.adapt.vram import gpus_of, gpus_used
from unslow.think.hardware import Hardware, Room, host_room_of, room_of_gpu
from unslow.think.physics.pcie import link_bytes_per_s

NO_GPU = "no GPU was found, or none whose memory and speed are known"
_HINT = "name the GPU: --device 'RTX 4090'"
_OF_ANOTHER = "for a GPU name the model too: `unslow plan MODEL --runtime {word} --device 'RTX 4090'`"
"""What runs has its own devices: another one is not asked for by its address."""


def named_cards(system: System, request: PlanRequest) -> Hardware | Unknown:
    """The cards that the flags name, or this machine's."""
    asked = HardwareRequest(
        request.devices, ram_bytes=request.ram_bytes, ram_bandwidth=request.ram_bandwidth, runtime=request.runtime
    )
    cards = find_hardware(system, asked)
    if isinstance(cards, Unknown):
        return cards
    if cards.device.kind == "cpu" or not cards.rooms:
        return Unknown(NO_GPU, _HINT)
    here = Case(machine=cards.machine) if cards.machine else None
    linked = bool(here and has_fast_links(here))
    return cards._replace(linked=linked, link_bytes_per_s=_slot(gpus_of(here)) if here else 0.0)


def cards_of_case(case: Case) -> Hardware | Unknown:
    """The cards of the machine that a server runs on, without what the server itself holds.

    Where it runs several copies of the model, each on cards of its own, the cards are those of one.
    """
    gpus, name = gpus_of(case), case.runtime.name.value_or("it")
    other = _OF_ANOTHER.format(word=name.lower())
    if case.runtime.device_used.value_or("") == "cpu":
        return Unknown(f"{name} computes on the CPU here, and a plan for it is one for GPUs", other)
    kinds = {find_device(gpu.name.value_or(""), int(gpu.vram_total_bytes.value_or(0))) for gpu in gpus}
    if len(kinds) > 1:
        gpus = gpus_used(case)
        kinds = {find_device(gpu.name.value_or(""), int(gpu.vram_total_bytes.value_or(0))) for gpu in gpus}
    device = next(iter(kinds)) if len(kinds) == 1 else None
    rooms = [room for gpu in gpus if (room := _room(case, gpu))]
    if device is None or not device.memory_bytes_per_s or len(rooms) != len(gpus):
        names = ", ".join(dict.fromkeys(gpu.name.value_or("?") for gpu in gpus))
        return Unknown(f"{names}: unlike, or not in the catalogue" if gpus else NO_GPU, other)
    copies = copies_of(case)
    notes: tuple[str, ...] = ()
    if copies > 1:
        rooms = rooms[: max(1, len(rooms) // copies)]
        notes = (f"it runs {copies} copies of the model: the plan is for one of them and its share of the users",)
    return Hardware(
        tuple(rooms),
        host_room_of(case.machine.memory),
        devices=(device,) * len(rooms),
        linked=bool(has_fast_links(case)),
        link_bytes_per_s=_slot(gpus),
        notes=notes,
    )


def _slot(gpus: tuple[Gpu, ...]) -> float:
    """What the slot with the fewest lanes carries."""
    known = [g for g in gpus if isinstance(g.pcie_width, Known) and isinstance(g.pcie_generation_max, Known)]
    return min((link_bytes_per_s(g.pcie_generation_max.need(), g.pcie_width.need()) for g in known), default=0.0)


def _room(case: Case, gpu: Gpu) -> Room | None:
    room = room_of_gpu(gpu, case.machine.memory) if isinstance(gpu.vram_total_bytes, Known) else None
    if room is None:
        return None
    return room._replace(others_bytes=max(0, room.others_bytes - _own(case, gpu, room.capacity_bytes)))


def _own(case: Case, gpu: Gpu, total: int) -> int:
    """What the server holds of a card: as the driver lists it, else the share that it was told to take."""
    listed = [p for p in gpu.processes.value_or([]) if is_own(case, p, on_gpu=True)]
    sizes = [int(p.vram_bytes.value) for p in listed if isinstance(p.vram_bytes, Known)]
    if sizes:
        return sum(sizes)
    share = case.runtime.gpu_memory_fraction
    weights = sum(b.bytes for b in case.runtime.buffers.value_or([]) if b.on_gpu)
    uses = gpu in gpus_used(case) and case.runtime.state.value_or("loaded") == "loaded"
    return (round(total * share.value) if isinstance(share, Known) else weights) if uses else 0
