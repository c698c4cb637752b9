"""Which service of systemd starts a process, by its control group."""

from unslow.look.at_hand import NO_UNIT, Unit
from unslow.look.processes import read_process
from unslow.look.system import System

_MANAGER = "systemd"
_OF_USER = "user@"


def read_unit(system: System, pid: int) -> Unit:
    """The service whose first process this is; none for what a shell or another process of a service started."""
    process = read_process(system, pid)
    unit = parse_unit(process.text("cgroup"))
    return unit if unit.name and read_process(system, process.parent_pid()).name == _MANAGER else NO_UNIT


def parse_unit(text: str) -> Unit:
    """The innermost service in a control group; a scope, such as that of a session or a container, is none."""
    path = text.strip().splitlines()[-1].rpartition(":")[2] if text.strip() else ""
    parts = path.split("/")
    services = [part for part in parts if part.endswith(".service") and not part.startswith(_OF_USER)]
    if not services or any(part.endswith(".scope") for part in parts):
        return NO_UNIT
    return Unit(services[-1], of_user=any(part.startswith(_OF_USER) for part in parts))
