"""The hardware that a plan for llama.cpp is for, as the search takes it."""

from unslow.app.hardware import HardwareRequest, find_hardware
from unslow.app.predict.cases import backend_of, setting_of
from unslow.commands.plan import PlanRequest
from unslow.commands.predict import PredictRequest
from unslow.facts.blueprint import Blueprint
from unslow.facts.values import Unknown
from unslow.look.system import System
from unslow.think.hardware import Hardware, may_pin


def planned_hardware(system: System, request: PlanRequest, plan: Blueprint) -> Hardware | Unknown:
    """The devices that a user names, or this machine's; Unknown where their speed can't be told."""
    asked = HardwareRequest(
        request.devices, ram_bytes=request.ram_bytes, ram_bandwidth=request.ram_bandwidth, threads=request.threads
    )
    hardware = find_hardware(system, asked, unlike=True)
    if isinstance(hardware, Unknown):
        return hardware
    usual = PredictRequest()
    backend = backend_of(hardware.device, usual)
    if backend == "cpu":
        hardware = hardware._replace(rooms=(), chips=())
    elif not hardware.rooms:
        why = f"how much memory the {hardware.device.name} has was not said"
        name = hardware.named or hardware.device.name
        return Unknown(why, f'name its size, as in --device "{name} 32GB", or give --ram')
    setting = setting_of(plan, hardware, usual, backend)
    return hardware._replace(
        setting=setting,
        host_setting=setting._replace(backend="cpu", family=setting.family if backend == "cpu" else "", device=""),
        pinned=may_pin(backend, hardware.host_room, sum(tensor.bytes for tensor in plan.tensors)),
    )
