"""Servers that were not found among the processes: known by a URL, or started by this program."""

import msgspec

from unslow.facts.merge import overlaid
from unslow.facts.model import Model
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Subject
from unslow.facts.values import reported
from unslow.look.contradictions import added
from unslow.look.llama_server.http import is_router
from unslow.look.llama_server.log_file import read_log
from unslow.look.llama_server.server import read_server, with_file
from unslow.look.llama_server.settle import settled
from unslow.look.openai_api.server import LOCKED, OK, Server, json_of
from unslow.look.runtimes.llama_cpp.llama_swap import is_swap, read_swap
from unslow.look.runtimes.llama_cpp.router import read_router
from unslow.look.system import Answer, System

_LOADING = 503


def read_url(system: System, url: str, api_key: str) -> tuple[Subject, ...] | None:
    """The server, or the servers behind a router, at a URL; None where something else answers."""
    server = Server(system, url.rstrip("/"), api_key)
    health = server.ask("/health")
    if is_swap(health):
        return read_swap(server)
    props = server.ask("/props")
    if is_router(json_of(props)):
        return read_router(server)
    return (read_server(system, server.url, api_key),) if _is_llama_server(health, props) else None


def _is_llama_server(health: Answer, props: Answer) -> bool:
    """By its settings; while they are locked or not there yet, by how it says so."""
    if props.status == OK:
        settings = json_of(props)
        return isinstance(settings, dict) and "default_generation_settings" in settings
    if props.status == _LOADING:
        return health.status == _LOADING and b"Loading model" in health.body
    status = json_of(health)
    return props.status in LOCKED and isinstance(status, dict) and status.get("status") == "ok"


def read_embedded(system: System, url: str, pid: int, version: str, log_path: str, model_path: str) -> Subject:
    """The engine that this program started."""
    subject = with_log(system, read_server(system, url), log_path)
    runtime = msgspec.structs.replace(
        subject.runtime,
        name=reported("embedded llama.cpp", "started by unslow"),
        version=reported(version, "installed package"),
        pid=reported(pid, "started by unslow"),
        embedded=True,
    )
    model = overlaid(subject.model, Model(path=reported(model_path, "written by unslow")))
    return with_file(system, msgspec.structs.replace(subject, runtime=runtime, model=model), ("",))


def with_log(system: System, subject: Subject, path: str) -> Subject:
    """The subject with what a log says, which decides what the server was like when it wrote it."""
    log = read_log(system, path)
    merged = settled(Runtime(), subject, Subject(runtime=log.runtime, model=log.model))
    runtime = msgspec.structs.replace(merged.runtime, log_path=reported(path, "given"))
    told = added(subject.contradictions, merged.contradictions)
    return msgspec.structs.replace(subject, runtime=runtime, model=merged.model, contradictions=told)
