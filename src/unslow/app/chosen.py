"""Which of the subjects a TARGET means: those at a URL, or those of a process."""

from urllib.parse import urlsplit

from unslow.app.runtimes import read_at
from unslow.facts.errors import UserError
from unslow.facts.snapshot import Snapshot, Subject
from unslow.look.processes import Process, read_process, read_processes, started_by
from unslow.look.system import LookError, System
from unslow.look.system.http import is_loopback

_FIRST = 1
"""The process that started all others, which says nothing of which is meant."""
_LAST_PORT = 65535
_NOBODY = "does a server such as llama-server or Ollama run there, and is this the address of its API?"


def chosen(system: System, seen: Snapshot, url: str | None, target: str | None, api_key: str) -> tuple[Subject, ...]:
    """The subjects that a target means; without one, all that were seen."""
    if url:
        # a process tells more than a URL, so what was seen as one comes first
        mine = tuple(s for s in seen.subjects if is_at(s, url))
        return mine or at_url(system, url, api_key)
    return seen.subjects if target is None else _of_process(system, seen, int(target))


def is_at(subject: Subject, url: str) -> bool:
    """Whether a subject answers at a URL, itself or through what stands before it."""
    front = subject.runtime.front.value_or("").rpartition(" ")[2]
    return _place(url) in (_place(subject.runtime.url.value_or("")), _place(front))


def _place(url: str) -> tuple[str, str, int | None, str]:
    """A URL without the ways in which the same loopback address can be written."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    return parts.scheme, "loopback" if is_loopback(host) else host, parts.port, parts.path.rstrip("/")


def at_url(system: System, url: str, api_key: str) -> tuple[Subject, ...]:
    """The subjects of the server at a URL; UserError where there is none, or it has loaded nothing."""
    try:
        subjects = read_at(system, url, api_key)
    except LookError as error:
        raise UserError(error.why, error.how_to_get or _NOBODY) from error
    if not subjects:
        raise UserError(f"the server at {url} has no model loaded", "load one, or send it a first request")
    return subjects


def _of_process(system: System, seen: Snapshot, pid: int) -> tuple[Subject, ...]:
    """The subjects of a process or of its children, as Ollama and routers have them."""
    mine = tuple(s for s in seen.subjects if s.runtime.pid.value_or(None) == pid)
    if mine := mine or (() if pid == _FIRST else _of_children(system, seen, pid)):
        return mine
    port = pid if pid <= _LAST_PORT else 8080
    hint = f"`unslow` alone finds what runs; a server is named by its port like this: 127.0.0.1:{port}"
    raise UserError(_why_none(system, seen, pid), hint)


def _why_none(system: System, seen: Snapshot, pid: int) -> str:
    """What a process is that no subject was made of."""
    process = read_process(system, pid)
    if not process.name:
        return f"there is no process {pid} that can be seen from here"
    start = f"process {pid}: "
    told = [why for probe in seen.probes for why in probe.error.split("; ") if why.startswith(start)]
    if told:
        return f"process {pid} ({process.name}) could not be read: {told[0].removeprefix(start)}"
    return f"process {pid} ({process.name}) is no runtime that unslow knows, or has no model loaded"


def _of_children(system: System, seen: Snapshot, pid: int) -> tuple[Subject, ...]:
    try:
        processes = read_processes(system)
    except LookError:
        return ()
    children = {child.pid for child in started_by(Process(system, pid, ""), processes)}
    return tuple(s for s in seen.subjects if s.runtime.pid.value_or(None) in children)
