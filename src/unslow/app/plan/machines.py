"""The machine that a plan is for, as the search takes it: from the devices that a user names, or from this one."""

from unslow.app.plan.request import PlanRequest
from unslow.app.predict.cases import THIS_YEAR, backend_of, setting_of
from unslow.app.predict.places import Place, find_place, usual_threads
from unslow.app.predict.request import Request
from unslow.facts.blueprint import Blueprint
from unslow.facts.gpu_lists import computing
from unslow.facts.machine import Gpu, Machine
from unslow.facts.values import Unknown
from unslow.look.system import System
from unslow.think.adapt.host_question import core_flops_of
from unslow.think.physics.pcie import link_bytes_per_s
from unslow.think.plan.llama_cpp.hardware import Hardware, Processors, may_pin
from unslow.think.speed.chips import cpu_chip, gpu_chip, has_peers
from unslow.think.speed.question import USUAL_LINK

_USUAL_LANES = 16
_USUAL_SLOT = (4, _USUAL_LANES)
"""The generation and the lanes of a desktop since 2019, for devices that are not here to be asked."""


def find_hardware(system: System, request: PlanRequest, plan: Blueprint) -> tuple[Hardware, Place] | Unknown:
    """The machine, or why its speed can't be told."""
    asked = Request(
        model=request.model or "", devices=request.devices, ram_bytes=request.ram_bytes, threads=request.threads,
        ram_bandwidth=request.ram_bandwidth,
    )  # fmt: skip
    place = find_place(system, asked, unlike=True)
    if isinstance(place, Unknown):
        return place
    place = _with_own_processors(place, request)
    backend = backend_of(place.device, asked)
    setting = setting_of(plan, place, asked, backend)
    if backend != "cpu" and not place.rooms:
        why = f"how much memory the {place.device.name} has was not said"
        return Unknown(why, f'name its size, as in --device "{place.named or place.device.name} 32GB", or give --ram')
    rooms = () if backend == "cpu" else place.rooms
    return Hardware(
        rooms=rooms,
        chips=tuple(map(gpu_chip, place.devices)) or (gpu_chip(place.device),) * len(rooms),
        setting=setting,
        processors=processors_of(place, measured=request.ram_bandwidth is None),
        host_setting=setting._replace(backend="cpu", family=setting.family if backend == "cpu" else "", device=""),
        host_room=place.host_room,
        link_bytes_per_s=_link(place.machine),
        pinned=may_pin(backend, place.host_room, sum(tensor.bytes for tensor in plan.tensors)),
        year=THIS_YEAR,
        peers=all(map(has_peers, place.devices or (place.device,))),
    ), place


def _with_own_processors(place: Place, request: PlanRequest) -> Place:
    """The place with the processors that were named in place of the usual host's."""
    if place.machine is not None or place.device.kind != "cpu":
        return place
    chip = cpu_chip(place.device, float(request.threads or 0))
    if request.ram_bandwidth:
        chip = chip._replace(bytes_per_s=request.ram_bandwidth)
    return place._replace(host=chip)


def processors_of(place: Place, *, measured: bool = True) -> Processors:
    """The cores that may be used, and what they read: as measured here, unless the user says how fast that is."""
    threads = int(float(place.host.threads))
    core = float(place.host.flops_per_s) / max(1.0, float(place.host.threads))
    if place.machine is None:
        return Processors(threads, float(place.host.bytes_per_s), core_flops_per_s=core)
    cpu, memory, given = place.machine.cpu, place.machine.memory, float(place.host.bytes_per_s)
    return Processors(
        cores=usual_threads(cpu),
        bytes_per_s=memory.read_bytes_per_s.value_or(given) if measured else given,
        one_core_bytes_per_s=memory.read_one_core_bytes_per_s.value_or(0.0) if measured else 0.0,
        core_flops_per_s=core_flops_of(cpu),
        logical=cpu.allowed_cpus.value_or(cpu.logical_cpus.value_or(0)),
    )


def threads_by_itself(machine: Machine | None) -> int:
    """How many llama.cpp takes where nobody says: one for each physical core, whatever limits are set."""
    if machine is None:
        return 0
    cpu = machine.cpu
    return cpu.performance_cores.value_or(0) or cpu.physical_cores.value_or(cpu.logical_cpus.value_or(0))


def _link(machine: Machine | None) -> float:
    """What the slowest link between host and GPU copies when awake."""
    gpus = computing(machine.gpus.value_or(())) if machine else ()
    return min((_link_of(gpu) for gpu in gpus), default=link_bytes_per_s(*_USUAL_SLOT))


def _link_of(gpu: Gpu) -> float:
    generation = gpu.pcie_generation_max.value_or(gpu.pcie_generation.value_or(0))
    lanes = gpu.pcie_width.value_or(gpu.pcie_width_max.value_or(_USUAL_LANES))
    return link_bytes_per_s(generation, lanes) if generation else USUAL_LINK
