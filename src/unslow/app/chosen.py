"""Which of the subjects a TARGET means: those at a URL, or those of a process."""

from urllib.parse import urlsplit

from unslow.app.runtimes import read_at
from unslow.facts.errors import UserError
from unslow.facts.snapshot import Snapshot, Subject
from unslow.look.processes import Process, read_processes, started_by
from unslow.look.system import LookError, System
from unslow.look.system.http import is_loopback

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
    if mine := mine or _of_children(system, seen, pid):
        return mine
    raise UserError(
        f"process {pid} is no runtime that can be seen, or has no model loaded", "`unslow` alone finds the running ones"
    )


def _of_children(system: System, seen: Snapshot, pid: int) -> tuple[Subject, ...]:
    try:
        processes = read_processes(system)
    except LookError:
        return ()
    children = {child.pid for child in started_by(Process(system, pid, ""), processes)}
    return tuple(s for s in seen.subjects if s.runtime.pid.value_or(None) in children)
