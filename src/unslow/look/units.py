"""Which service of systemd starts a process, by its control group."""

from unslow.facts.values import Fact, failed, not_found, reported
from unslow.look.at_hand import NO_UNIT, Unit
from unslow.look.processes import Process, read_process
from unslow.look.system import System

_MANAGER = "systemd"
_OF_USER = "user@"


def read_unit(system: System, pid: int) -> Unit:
    """The service whose first process this is; none for what a shell or another process of a service started."""
    process = read_process(system, pid)
    unit = parse_unit(process.text("cgroup"))
    return unit if unit.name and read_process(system, process.parent_pid()).name == _MANAGER else NO_UNIT


def unit_fact(process: Process) -> Fact[str]:
    """The same as a fact: the service, or who started it instead."""
    source = f"/proc/{process.pid}/cgroup"
    text = process.text("cgroup")
    if not text:
        return failed(f"{source} can't be read")
    unit, parent = parse_unit(text), read_process(process.system, process.parent_pid()).name
    if unit.name and parent in (_MANAGER, ""):  # whose name may not be recorded
        return reported(unit.words, source)
    return not_found(f"{source}: in no service of systemd" + (f"; {parent} started it" if parent else ""))


def parse_unit(text: str) -> Unit:
    """The innermost service in a control group; a scope, such as that of a session or a container, is none."""
    path = text.strip().splitlines()[-1].rpartition(":")[2] if text.strip() else ""
    parts = path.split("/")
    services = [part for part in parts if part.endswith(".service") and not part.startswith(_OF_USER)]
    if not services or any(part.endswith(".scope") for part in parts):
        return NO_UNIT
    return Unit(services[-1], of_user=any(part.startswith(_OF_USER) for part in parts))
