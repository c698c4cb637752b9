"""The processes of LM Studio, and where they keep their things."""

import re
from collections.abc import Sequence

from unslow.facts.values import Fact, estimated, reported
from unslow.look.json_fields import at
from unslow.look.llama_server.process import is_server
from unslow.look.processes import Process, outermost, read_processes, started_by, words_of
from unslow.look.stores import lm_studio as store
from unslow.look.stores import read_surroundings
from unslow.look.system import Answer, LookError, System

DEFAULT_PORT = 1234
_APPS = ("LM Studio", "lm-studio", "llmster")
_WORKERS = ("node", "llama-server")
_HOME = re.compile(r"^(/.{0,400}?/(?:\.lmstudio|\.cache/lm-studio))/")
_CONFIG = ".internal/http-server-config.json"
_SMALL = 65536


def find(processes: Sequence[Process]) -> list[Process]:
    """The app or the daemon; the many processes that they start are theirs, unless nothing else is to be seen."""
    return outermost([process for process in processes if _is_own(process)], processes)


def _is_own(process: Process) -> bool:
    if process.name.startswith(_APPS):
        return True
    return process.name in _WORKERS and bool(_home_in(words_of(process.command())))


def servers_of(process: Process) -> list[Process]:
    """The llama-servers that it started; it may be one itself."""
    family = [process, *started_by(process, read_processes(process.system))]
    return [member for member in family if is_server(member)]


def read_homes(system: System, process: Process | None = None) -> list[str]:
    """Where it may keep its things: by the program that runs, else where it does so by default."""
    found = ""
    if process is not None:
        found = _home_in([process.program().value_or(""), *words_of(process.command())[:1]])
    try:
        homes = store.homes(system, read_surroundings(system))
    except LookError:
        homes = []
    return list(dict.fromkeys([*([found] if found else []), *homes]))


def read_port(system: System, homes: Sequence[str]) -> Fact[int]:
    """Where its server listens, by its own settings; the usual port without them."""
    for home in homes:
        path = f"{home}/{_CONFIG}"
        try:
            settings = Answer(200, system.read_bytes(path, _SMALL)).json()
        except LookError:
            continue
        port = at(settings, "port")
        if type(port) is int and 0 < port < 2**16:
            return reported(port, path)
    return estimated(DEFAULT_PORT, "default of LM Studio")


def _home_in(paths: Sequence[str]) -> str:
    return next((found[1] for path in paths if (found := _HOME.match(path))), "")
