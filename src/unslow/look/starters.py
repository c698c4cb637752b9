"""What starts a server: the files of its unit, its service in a compose file, or the script that is its parent."""

import re
from typing import NamedTuple

import msgspec

from unslow.look.at_hand import Unit
from unslow.look.processes import read_process, words_of
from unslow.look.system import LookError, System
from unslow.look.system.door import read_text

_CONTAINER = re.compile(r"(?:docker[-/]|libpod-|/docker/)([0-9a-f]{64})")
_LABELS = "com.docker.compose.project.config_files", "com.docker.compose.service"
_SHELLS = ("sh", "bash", "dash", "zsh", "ksh", "ash")
_MOST_FILES = 64


class UnitText(NamedTuple):
    """A file of a unit and its text."""

    path: str
    text: str


class Composed(NamedTuple):
    """Where compose has a service from."""

    file: str
    service: str


def read_unit_files(system: System, unit: Unit) -> list[UnitText]:
    """The unit and its drop-ins in the order in which they hold, as systemd says; LookError where it does not."""
    scope = ["--user"] if unit.of_user else []
    done = system.run(["systemctl", *scope, "show", unit.name, "--property=FragmentPath", "--property=DropInPaths"])
    said = dict(line.split("=", 1) for line in done.stdout.splitlines() if "=" in line)
    if done.status or not said.get("FragmentPath"):
        raise LookError(f"systemctl does not say where {unit.name} is: {(done.stderr or 'no file').strip()[:200]}")
    paths = [said["FragmentPath"], *said.get("DropInPaths", "").split()]
    return [UnitText(path, read_text(system, path)) for path in paths[:_MOST_FILES]]


def read_composed(system: System, pid: int) -> Composed:
    """The compose file and the service of a container; LookError where docker does not say."""
    container = _CONTAINER.search(read_process(system, pid).text("cgroup"))
    if not container:
        raise LookError("its control group names no container of docker")
    done = system.run(["docker", "inspect", "--format", "{{json .Config.Labels}}", container[1]])
    try:
        labels = msgspec.json.decode(done.stdout or "{}", type=dict[str, str] | None) or {}
    except msgspec.MsgspecError as error:
        raise LookError("docker does not show the labels of the container") from error
    file, service = (labels.get(label, "") for label in _LABELS)
    if done.status or not service or not file or "," in file:
        raise LookError("docker names no single compose file of the container")
    return Composed(file, service)


def read_script(system: System, pid: int) -> str:
    """The script whose shell started the process; empty where it is not to be seen."""
    parent = read_process(system, read_process(system, pid).parent_pid())
    words = words_of(parent.command())
    if len(words) < 2 or words[0].rpartition("/")[2].lstrip("-") not in _SHELLS or words[1].startswith("-"):  # noqa: PLR2004
        return ""
    folder = parent.folder().value_or("")
    return words[1] if words[1].startswith("/") else f"{folder}/{words[1]}" if folder else ""
