"""Who else is on this machine: their servers are never touched, and a GPU is shared only where the user says so."""

import os

from unslow.facts.errors import UserError
from unslow.facts.gpu_lists import computing
from unslow.facts.machine import Machine
from unslow.facts.snapshot import Snapshot
from unslow.facts.units import GIB

_NOTED = GIB
"""Of a GPU's memory: a desktop and its browser hold less, and do not compute for long."""
_PREFIX = "LLAMA_ARG_"


def others_on_gpu(machine: Machine) -> list[str]:
    """Programs that hold much memory of a GPU that computes."""
    found: dict[int, str] = {}
    for gpu in computing(machine.gpus.value_or(())):
        for process in gpu.processes.value_or([]):
            if process.vram_bytes.value_or(0) >= _NOTED:
                found[process.pid] = f"{process.name.value_or('a program')} ({process.pid})"
    return list(found.values())


def servers_of(snapshot: Snapshot) -> list[str]:
    """The model servers that run here."""
    named = [(s.runtime.name.value_or("a server"), s.runtime.url.value_or("")) for s in snapshot.subjects]
    return list(dict.fromkeys(f"{name} at {url}" if url else name for name, url in named))


def company(snapshot: Snapshot, *, allowed: bool) -> tuple[str, ...]:
    """What to say of others; UserError where the GPU is not free and nobody said that this is all right."""
    has_gpu = bool(computing(snapshot.machine.gpus.value_or(())))
    servers, programs = servers_of(snapshot), others_on_gpu(snapshot.machine)
    busy = [*servers, *programs] if has_gpu else []
    if busy and not allowed:
        hint = "stop them, or measure beside them with --yes: their memory is not to be had, and they slow it down"
        raise UserError(f"others use this machine's GPU: {', '.join(busy)}", hint)
    seen = [*servers, *(programs if has_gpu else ())]
    notes = [f"measured while others were running: {', '.join(seen)}"] if seen else []
    return (*notes, *own_variables())


def own_variables() -> tuple[str, ...]:
    """Settings of llama.cpp in this program's environment, which every server started here inherits."""
    names = sorted(name for name in os.environ if name.startswith(_PREFIX))
    return (f"set for all candidates by the environment: {', '.join(names)}",) if names else ()
