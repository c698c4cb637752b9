"""A llama-server without a model of its own: a router, which starts a server for each model that it loads."""

from typing import Any
from urllib.parse import quote

import msgspec

from unslow.facts.merge import overlaid
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Subject
from unslow.facts.values import reported
from unslow.look.addresses import is_here, is_port
from unslow.look.command_line import UNSET, Setting
from unslow.look.llama_server.arguments import parse_settings, without_secrets
from unslow.look.llama_server.http import read_answers
from unslow.look.llama_server.server import http_subject, with_file
from unslow.look.llama_server.settle import settled
from unslow.look.llama_server.told import told
from unslow.look.openai_api.server import Server
from unslow.look.system import LookError

MOST_MODELS = 64
_RUNNING = ("loaded", "sleeping")


def read_router(server: Server) -> tuple[Subject, ...]:
    """One subject for each model that the router has loaded; nothing is loaded by asking."""
    return tuple(_child(server, model) for model in loaded_models(server.json("/models")))


def loaded_models(answer: Any) -> list[dict[str, Any]]:
    """The models of /models that run now."""
    models = answer.get("data") if isinstance(answer, dict) else None
    return [model for model in models if _is_running(model)][:MOST_MODELS] if isinstance(models, list) else []


def _is_running(model: Any) -> bool:
    status = model.get("status") if isinstance(model, dict) and isinstance(model.get("id"), str) else None
    return isinstance(status, dict) and status.get("value") in _RUNNING


def command_of(model: dict[str, Any]) -> list[str]:
    """The command line that the router started a model with."""
    words = model["status"].get("args")
    return [str(word) for word in words] if isinstance(words, list) else []


def _child(server: Server, model: dict[str, Any]) -> Subject:
    command = command_of(model)
    settings = parse_settings(command, {})
    url, query = _address(server, model["id"], settings)
    answers = read_answers(server.system, url, server.api_key, query)
    http = http_subject(answers._replace(models={"data": [model]}), reported(url, f"{server.url}/models"))
    # what the router's own environment adds can't be seen from here
    subject = settled(told(settings, complete=False), http, Subject())
    own = Runtime(
        name=reported("llama.cpp", f"{server.url}/models"),
        command=reported(without_secrets(command), f"{server.url}/models"),
        front=reported(f"router at {server.url}", f"{server.url}/props"),
    )
    whole = msgspec.structs.replace(subject, runtime=overlaid(subject.runtime, own))
    return with_file(server.system, whole, [""]) if is_here(server.url) else whole


def _address(server: Server, name: str, settings: dict[str, Setting]) -> tuple[str, str]:
    """The child itself where it is on this machine; else the router, which is told the model and not to load it."""
    port = settings.get("port", UNSET).value
    if is_here(server.url) and is_port(port) and _answers(server, f"http://127.0.0.1:{port}"):
        return f"http://127.0.0.1:{port}", ""
    return server.url, f"?model={quote(name, safe='')}&autoload=false"


def _answers(server: Server, url: str) -> bool:
    """A child in a container listens where only its router can reach it."""
    try:
        server._replace(url=url).ask("/health")
    except LookError:
        return False
    return True
