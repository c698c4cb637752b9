"""What a runtime says that it holds, against what its machine shows."""

from collections.abc import Sequence

from unslow.facts.machine import Gpu, Machine
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Contradiction, Statement
from unslow.facts.units import MIB
from unslow.facts.values import Known
from unslow.look.contradictions.stated import stated, statement

_HELD_SHARE = 0.7  # of what was planned; drivers round up, never so far down
_NOTABLE_BYTES = 256 * MIB


def device_contradictions(runtimes: Sequence[Runtime], machine: Machine) -> list[Contradiction]:
    """Threads against the processors that may be used, and planned bytes against those on the device."""
    state = stated(runtimes, "state")
    return [c for c in (_threads(runtimes, machine), None if _away(state) else _vram(runtimes, machine)) if c]


def _away(state: Known[str] | None) -> bool:
    return state is not None and state.value in ("asleep", "failed")


def _threads(runtimes: Sequence[Runtime], machine: Machine) -> Contradiction | None:
    threads, allowed = stated(runtimes, "threads"), machine.cpu.allowed_cpus
    if threads is None or not isinstance(allowed, Known) or threads.value <= allowed.value:
        return None
    return Contradiction(
        about="threads",
        statements=(
            statement(threads, lambda n: f"{n} threads"),
            statement(allowed, lambda n: f"{n} processors may be used"),
        ),
        meaning="the threads take turns",
    )


def _vram(runtimes: Sequence[Runtime], machine: Machine) -> Contradiction | None:
    planned, seen = _planned(runtimes), _held(runtimes, machine)
    if _is_elsewhere(runtimes, machine):
        return None
    if planned is None or seen is None or planned.value < _NOTABLE_BYTES or seen.value >= _HELD_SHARE * planned.value:
        return None
    return Contradiction(
        about="vram",
        statements=(
            Statement(says=f"{planned.value} bytes on GPUs", source=planned.source),
            Statement(says=f"{seen.value} bytes of GPU memory are used", source=seen.source),
        ),
        meaning="the driver keeps a part of it in system memory, or the runtime's account is not of what it holds now",
    )


def _planned(runtimes: Sequence[Runtime]) -> Known[int] | None:
    buffers, size = stated(runtimes, "buffers"), stated(runtimes, "size_vram_bytes")
    if buffers:
        held = sum(buffer.bytes for buffer in buffers.value if buffer.on_gpu)
        return Known(held, buffers.origin, buffers.source)
    return size


def _is_elsewhere(runtimes: Sequence[Runtime], machine: Machine) -> bool:
    """Whether a device that holds some of it is none of the GPUs that were listed, such as one beside NVIDIA's."""
    buffers, devices = stated(runtimes, "buffers"), stated(runtimes, "devices")
    names = [gpu.name.value.casefold() for gpu in machine.gpus.value_or(()) if isinstance(gpu.name, Known)]
    if not buffers or not devices or not names:
        return False
    holding = {buffer.device for buffer in buffers.value if buffer.on_gpu}
    titles = [d.description.casefold() for d in devices.value if d.name in holding and d.description]
    return any(not any(name in title or title in name for name in names) for title in titles)


def _held(runtimes: Sequence[Runtime], machine: Machine) -> Known[int] | None:
    """What the process holds; where no driver names it (a container has other numbers), all that is used at most."""
    gpus, pid = machine.gpus, stated(runtimes, "pid")
    if not isinstance(gpus, Known) or not gpus.value:
        return None
    own = [held for gpu in gpus.value for held in _of_process(gpu, pid.value if pid else None)]
    if own:
        return Known(sum(fact.value for fact in own), own[0].origin, own[0].source)
    known = [gpu.vram_used_bytes for gpu in gpus.value if isinstance(gpu.vram_used_bytes, Known)]
    if len(known) < len(gpus.value):
        return None
    return Known(sum(fact.value for fact in known), known[0].origin, known[0].source)


def _of_process(gpu: Gpu, pid: int | None) -> list[Known[int]]:
    processes = gpu.processes.value_or([])
    return [p.vram_bytes for p in processes if p.pid == pid and isinstance(p.vram_bytes, Known)]
