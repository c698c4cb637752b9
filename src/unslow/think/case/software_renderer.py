"""A software renderer: the CPU posing as a GPU. What the runtime puts on one is on the host."""

import re
from typing import NamedTuple

import msgspec

from unslow.facts.runtime import Runtime, SeenDevice
from unslow.facts.values import Known, not_found
from unslow.think.case.device import is_gpu

SOFTWARE = re.compile(
    r"llvmpipe|lavapipe|swiftshader|physical_device_type_cpu|device type is cpu|microsoft basic render", re.IGNORECASE
)


class Renderer(NamedTuple):
    """What it is called, the fact that says so, and whether the runtime has no other device."""

    name: str
    fact: str
    alone: bool


def find_renderer(runtime: Runtime) -> Renderer | None:
    """The software renderer that the runtime computes on; None where it only lists one beside a GPU."""
    placed = runtime.placement
    listed = placed.devices.value_or([])
    software = {d.name: d for d in listed if SOFTWARE.search(title(d))}
    alone = bool(listed) and not any(is_gpu(d) and d.name not in software for d in listed)
    if isinstance(placed.software_renderer, Known):
        return Renderer(placed.software_renderer.value, "runtime.placement.software_renderer", alone or not listed)
    used = placed.device_used.value_or("")
    if SOFTWARE.search(used) or used in software:
        name = title(software[used]) if used in software else used
        return Renderer(name, "runtime.placement.device_used", alone or not listed)
    held = {b.device for b in runtime.memory.buffers.value_or([]) if b.kind == "model"}
    on_it = [d for name, d in software.items() if name in held or alone]
    return Renderer(title(on_it[0]), "runtime.placement.devices", alone) if on_it else None


def on_the_host(runtime: Runtime) -> Runtime:
    """The runtime with what is on a software renderer where it really is; as it is without one."""
    renderer = find_renderer(runtime)
    if renderer is None:
        return runtime
    devices, buffers = runtime.placement.devices, runtime.memory.buffers
    facts: dict[str, object] = {}
    names = {d.name for d in devices.value_or([]) if SOFTWARE.search(title(d))}
    if isinstance(devices, Known):
        listed = [msgspec.structs.replace(d, library="cpu") if d.name in names else d for d in devices.value]
        facts["devices"] = msgspec.structs.replace(devices, value=listed)
    if isinstance(buffers, Known):
        held = [msgspec.structs.replace(b, on_gpu=b.on_gpu and b.device not in names) for b in buffers.value]
        facts["buffers"] = msgspec.structs.replace(buffers, value=held)
    if renderer.alone and runtime.placement.gpu_layers.value_or(0):
        facts["gpu_layers"] = not_found(f"they are on {renderer.name}, which is the CPU")
    return runtime.with_facts(**facts) if facts else runtime


def title(device: SeenDevice) -> str:
    """Its name and what the runtime says of it."""
    return f"{device.name} {device.description}".strip()
