"""Where an Ollama that runs here, or that systemd starts, keeps its models: its variables are not those of a shell."""

import re
import shlex
from collections.abc import Iterator

from unslow.look.system import LookError, System
from unslow.look.system.door import read_text

_UNITS = "/etc/systemd/system"
_SET = re.compile(r"^\s*Environment=(.*)$", re.MULTILINE)
_SMALL = 65536


def served_places(system: System) -> list[str]:
    """The folders of models of Ollama's servers, as far as they can be told."""
    return [*_of_units(system), *_of_processes(system)]


def parse_unit(text: str) -> str:
    """The folder that a unit of systemd sets; the last one counts."""
    words = (word.partition("=") for line in _SET.findall(text) for word in _words(line))
    return {name: value for name, _, value in words}.get("OLLAMA_MODELS", "")


def _words(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError:  # a quote without its partner
        return []


def _of_units(system: System) -> Iterator[str]:
    folder = f"{_UNITS}/ollama.service.d"
    try:
        extra = [f"{folder}/{name}" for name in system.list_dir(folder) if name.endswith(".conf")]
    except LookError:
        extra = []
    for path in (f"{_UNITS}/ollama.service", *extra):
        if found := parse_unit(_text(system, path)):
            yield found


def _of_processes(system: System) -> Iterator[str]:
    try:
        pids = [name for name in system.list_dir("/proc") if name.isdecimal()]
    except LookError:
        return
    for pid in pids:
        if _text(system, f"/proc/{pid}/comm").strip() == "ollama":
            yield from _of_process(system, pid)


def _of_process(system: System, pid: str) -> Iterator[str]:
    words = _text(system, f"/proc/{pid}/environ").split("\0")
    variables = {name: value for name, _, value in (word.partition("=") for word in words)}
    home = variables.get("HOME") or _home(system, _text(system, f"/proc/{pid}/status"))
    if place := variables.get("OLLAMA_MODELS") or (home and f"{home}/.ollama/models"):
        yield place


def _home(system: System, status: str) -> str:
    """The home folder of the user whose process has this status."""
    user = re.search(r"^Uid:\s+(\d+)", status, re.MULTILINE)
    lines = (line.split(":") for line in _text(system, "/etc/passwd").splitlines())
    fields = 7  # passwd(5)
    return next((line[5] for line in lines if user and len(line) == fields and line[2] == user[1]), "")


def _text(system: System, path: str) -> str:
    try:
        return read_text(system, path, _SMALL)
    except LookError:
        return ""
