"""A software renderer: the CPU posing as a GPU. What the runtime puts on one is on the host."""

from typing import NamedTuple

import msgspec

from unslow.facts.machine import Machine
from unslow.facts.runtime import Runtime
from unslow.facts.values import Known, not_found
from unslow.think.case.device import SOFTWARE, is_gpu, title


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
    alone = bool(listed) and not any(map(is_gpu, listed))
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
    buffers, facts = runtime.memory.buffers, dict[str, object]()
    names = {d.name for d in runtime.placement.devices.value_or([]) if SOFTWARE.search(title(d))}
    if isinstance(buffers, Known):
        held = [msgspec.structs.replace(b, on_gpu=b.on_gpu and b.device not in names) for b in buffers.value]
        facts["buffers"] = msgspec.structs.replace(buffers, value=held)
    if renderer.alone and runtime.placement.gpu_layers.value_or(0):
        facts["gpu_layers"] = not_found(f"they are on {renderer.name}, which is the CPU")
    return runtime.with_facts(**facts) if facts else runtime


def without_renderers(machine: Machine) -> Machine:
    """The machine without the software renderers that were taken for GPUs, as a log lists them."""
    gpus = machine.gpus
    own = tuple(gpu for gpu in gpus.value_or(()) if not SOFTWARE.search(gpu.name.value_or("")))
    if not isinstance(gpus, Known) or len(own) == len(gpus.value):
        return machine
    left = msgspec.structs.replace(gpus, value=own) if own else not_found("only a software renderer was listed")
    return msgspec.structs.replace(machine, gpus=left)
