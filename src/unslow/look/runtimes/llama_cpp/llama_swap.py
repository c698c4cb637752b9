"""llama-swap: a proxy that starts and stops servers, mostly llama-servers, as models are asked for.

`GET /running` lists those that run, since v100 with their command lines; it loads nothing.
"""

import shlex
from typing import Any
from urllib.parse import quote

import msgspec

from unslow.facts.merge import overlaid
from unslow.facts.model import Model
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Subject
from unslow.facts.values import Unknown, reported
from unslow.look.addresses import is_here
from unslow.look.llama_server.arguments import parse_settings, without_secrets
from unslow.look.llama_server.process import is_llama_server
from unslow.look.llama_server.server import read_server
from unslow.look.llama_server.settle import settled
from unslow.look.llama_server.told import told
from unslow.look.openai_api.server import OK, Server
from unslow.look.system import Answer, LookError

MOST_MODELS = 64


def is_swap(health: Answer) -> bool:
    """Whether /health answers as llama-swap does, in two letters and no JSON."""
    return health.status == OK and health.body.strip() == b"OK"


def read_swap(server: Server) -> tuple[Subject, ...] | None:
    """One subject for each llama-server that runs behind it; None where it is no llama-swap."""
    try:
        running = server.json("/running").get("running")
    except (LookError, AttributeError):
        return None
    if not isinstance(running, list):
        return None
    named = [m for m in running[:MOST_MODELS] if isinstance(m, dict) and isinstance(m.get("model"), str)]
    return tuple(_child(server, model) for model in named if _may_be_llama_server(command_of(model)))


def command_of(model: dict[str, Any]) -> list[str]:
    """The command line of a running model; empty where an older llama-swap keeps it to itself."""
    try:
        return shlex.split(str(model.get("cmd") or ""), comments=True)
    except ValueError:
        return []


def _may_be_llama_server(command: list[str]) -> bool:
    name = command[0].replace("\\", "/").rpartition("/")[2].removesuffix(".exe") if command else "llama-server"
    return is_llama_server(name, command)


def _child(server: Server, model: dict[str, Any]) -> Subject:
    name, command = model["model"], command_of(model)
    http = read_server(server.system, _address(server, model), server.api_key)
    subject = settled(told(parse_settings(command, {}), complete=False), http, Subject()) if command else http
    source = f"{server.url}/running"
    own = Runtime(name=reported("llama.cpp", source), front=reported(f"llama-swap at {server.url}", source))
    if command:
        own = msgspec.structs.replace(own, command=reported(without_secrets(command), source))
    known = Model(name=reported(name, source)) if isinstance(subject.model.name, Unknown) else Model()
    runtime, whole = overlaid(subject.runtime, own), overlaid(subject.model, known)
    return msgspec.structs.replace(subject, runtime=runtime, model=whole)


def _address(server: Server, model: dict[str, Any]) -> str:
    """Its own where that is on this machine; else through the proxy, which passes on to what runs already."""
    own = str(model.get("proxy") or "").rstrip("/").replace("//localhost", "//127.0.0.1")
    here = is_here(own) and is_here(server.url)
    return own if here else f"{server.url}/upstream/{quote(model['model'], safe='')}"
