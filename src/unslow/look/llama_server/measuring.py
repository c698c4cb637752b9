"""What a measurement must know of a server to be a good guest."""

from typing import Any, NamedTuple

from unslow.facts.runtime import Runtime
from unslow.facts.values import Known
from unslow.look.llama_server.address import read_api_key
from unslow.look.openai_api.server import OK, Server
from unslow.look.processes import Process
from unslow.look.system import LookError, System


class FreeSlots(NamedTuple):
    """Slots that hold no conversation, so that measuring on them pushes none out; and how many work for others."""

    unused: tuple[int, ...] = ()
    busy: int = 0


def read_key_of(system: System, runtime: Runtime) -> str:
    """The API key that the server itself was started with, where its process can be read; empty otherwise."""
    return read_api_key(Process(system, runtime.pid.value, "")) if isinstance(runtime.pid, Known) else ""


def read_unused_slot(server: Server) -> int | None:
    """A slot that has held no conversation yet, so that measuring on it pushes none out; None where there is none."""
    try:
        answer = server.ask("/slots")
        return parse_unused_slot(answer.json()) if answer.status == OK else None
    except LookError:
        return None


def read_free_slots(server: Server) -> FreeSlots:
    """What /slots says now; nothing where the server does not tell."""
    try:
        answer = server.ask("/slots")
        return parse_free_slots(answer.json()) if answer.status == OK else FreeSlots()
    except LookError:
        return FreeSlots()


def read_used_slots(server: Server) -> int:
    """How many slots hold a conversation; 0 where the server does not tell."""
    try:
        answer = server.ask("/slots")
        return parse_used_slots(answer.json()) if answer.status == OK else 0
    except LookError:
        return 0


def parse_used_slots(slots: Any) -> int:
    """Slots with a task that did more than measure."""
    known = [slot for slot in slots if isinstance(slot, dict)] if isinstance(slots, list) else []
    return sum(1 for slot in known if "id_task" in slot and not _only_measured(slot))


def parse_unused_slot(slots: Any) -> int | None:
    """The last slot without a task, or with one that only measured; llama-server names a task where there was one."""
    return next(reversed(parse_free_slots(slots).unused), None)


def parse_free_slots(slots: Any) -> FreeSlots:
    """The slots that hold no conversation, and how many are at work."""
    known = [slot for slot in slots if isinstance(slot, dict)] if isinstance(slots, list) else []
    idle = [slot for slot in known if not slot.get("is_processing")]
    free = [slot.get("id") for slot in idle if "id_task" not in slot or _only_measured(slot)]
    return FreeSlots(tuple(number for number in free if isinstance(number, int)), len(known) - len(idle))


def _only_measured(slot: dict[str, Any]) -> bool:
    """Whether the last task ran past the end of its answer: benchmarks do, conversations don't."""
    parameters = slot.get("params")
    return isinstance(parameters, dict) and parameters.get("ignore_eos") is True
