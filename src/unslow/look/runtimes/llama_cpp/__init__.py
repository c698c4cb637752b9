"""llama.cpp's server: alone, as a router's child, or behind llama-swap; in a container or not.

It is found by its process. Its command line and its environment tell what was asked for, its API what holds now, its
log what was decided: since b9151 only with `-lv 4`. None of its answers holds the layers, the split of memory, the
cache type or the threads.
"""

from contextlib import suppress
from typing import Any
from urllib.parse import quote

import msgspec

from unslow.facts.merge import overlaid
from unslow.facts.model import Model
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Subject
from unslow.facts.values import reported_fact
from unslow.look.command_line import UNSET
from unslow.look.contradictions import added_contradictions
from unslow.look.gguf_server_flags import parse_settings, without_secrets
from unslow.look.openai_api import LOCKED, OK, Server, json_if_ok
from unslow.look.processes import Process, ProcessSigns
from unslow.look.runtimes._gguf_answers import http_subject, is_router, read_answers
from unslow.look.runtimes._gguf_process import NAMES, read_log, takes_command
from unslow.look.runtimes._gguf_process import find_servers as find
from unslow.look.runtimes._gguf_server import read_server, requested_settings, settled_subject, with_file
from unslow.look.runtimes.llama_cpp.bench import ask, score
from unslow.look.runtimes.llama_cpp.flags import COMMANDS, read_options, read_own_options
from unslow.look.runtimes.llama_cpp.swap import read_swap, with_swap_history
from unslow.look.server_answers import objects_at, value_at
from unslow.look.system import LookError, System
from unslow.look.system.http import is_local_url, is_port

NAME = "llama.cpp"
PORTS = (8080,)
RANK = 1  # /props is its own
PROCESSES = ProcessSigns(NAMES)
__all__ = [
    "COMMANDS", "NAME", "PORTS", "PROCESSES", "RANK", "ask", "find", "read", "read_options", "read_own_options",
    "read_url", "score", "takes_command", "with_log",
]  # fmt: skip
MOST_MODELS = 64
_LOADING = 503


def read(process: Process, api_key: str) -> tuple[Subject, ...]:
    """The server of a process: it holds one model, or none where it is a router."""
    subject = read_server(process.system, process, api_key)
    return (with_swap_history(process.system, subject, api_key),)


def read_url(system: System, url: str, api_key: str) -> tuple[Subject, ...] | None:
    """The server, or the servers behind a router, at a URL; None where something else answers."""
    server = Server(system, url.rstrip("/"), api_key)
    health = server.ask("/health")
    if health.status == OK and health.body.strip() == b"OK":  # llama-swap, in two letters and no JSON
        return read_swap(server)
    props = server.ask("/props")
    if is_router(json_if_ok(props)):  # one subject for each model that it has loaded; nothing is loaded by asking
        named = [model for model in objects_at(server.json("/models"), "data") if isinstance(model.get("id"), str)]
        loaded = [model for model in named if value_at(model, "status", "value") in ("loaded", "sleeping")]
        return tuple(_router_child(server, model) for model in loaded[:MOST_MODELS])
    if props.status == OK:
        own = value_at(json_if_ok(props), "default_generation_settings") is not None
    elif props.status == _LOADING:  # while its settings are not there yet, or locked, by how it says so
        own = health.status == _LOADING and b"Loading model" in health.body
    else:
        own = props.status in LOCKED and value_at(json_if_ok(health), "status") == "ok"
    return (read_server(system, server.url, api_key),) if own else None


def _router_child(server: Server, model: dict[str, Any]) -> Subject:
    words = value_at(model, "status", "args")
    command = [str(word) for word in words] if isinstance(words, list) else []
    settings = parse_settings(command, {})
    # the child itself where it is on this machine; else the router, which is told the model and not to load it
    url, query = server.url, f"?model={quote(model['id'], safe='')}&autoload=false"
    port = settings.get("port", UNSET).value
    if is_local_url(server.url) and is_port(port):
        with suppress(LookError):  # a child in a container listens where only its router can reach it
            server._replace(url=f"http://127.0.0.1:{port}").ask("/health")
            url, query = f"http://127.0.0.1:{port}", ""
    answers = read_answers(server.system, url, server.api_key, query)
    http = http_subject(answers._replace(models={"data": [model]}), reported_fact(url, f"{server.url}/models"))
    # what the router's own environment adds cannot be seen from here
    subject = settled_subject(requested_settings(settings, complete=False), http, Subject())
    own = Runtime().with_facts(
        name=reported_fact("llama.cpp", f"{server.url}/models"),
        command=reported_fact(without_secrets(command), f"{server.url}/models"),
        front=reported_fact(f"router at {server.url}", f"{server.url}/props"),
    )
    whole = msgspec.structs.replace(subject, runtime=overlaid(subject.runtime, own))
    return with_file(server.system, whole, [""]) if is_local_url(server.url) else whole


def read_embedded(system: System, url: str, pid: int, version: str, log_path: str, model_path: str) -> Subject:
    """The engine that this program started."""
    subject = with_log(system, read_server(system, url), log_path)
    runtime = subject.runtime.with_facts(
        name=reported_fact("embedded llama.cpp", "started by unslow"),
        version=reported_fact(version, "installed package"),
        pid=reported_fact(pid, "started by unslow"),
        embedded=True,
    )
    model = overlaid(subject.model, Model(path=reported_fact(model_path, "written by unslow")))
    return with_file(system, msgspec.structs.replace(subject, runtime=runtime, model=model), ("",))


def with_log(system: System, subject: Subject, path: str) -> Subject:
    """The subject with what a log says, which decides what the server was like when it wrote it."""
    log = read_log(system, path)
    merged = settled_subject(Runtime(), subject, Subject(runtime=log.runtime, model=log.model))
    runtime = merged.runtime.with_facts(log_path=reported_fact(path, "given"))
    told = added_contradictions(subject.contradictions, merged.contradictions)
    return msgspec.structs.replace(subject, runtime=runtime, model=merged.model, contradictions=told)
