"""Transformers: inside one's own program by `unslow.watch`, or as `transformers serve`."""

import os
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import msgspec

from unslow.facts.merge import overlaid
from unslow.facts.model import Model
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Subject
from unslow.facts.values import Fact, not_supported, reported
from unslow.look.command_line import COMMAND
from unslow.look.kernel.processors import read_own_pid
from unslow.look.models.safetensors import model_facts, read_checkpoint
from unslow.look.openai_api import Server, parse_model_list
from unslow.look.processes import Process, words_of
from unslow.look.runtimes.transformers.commands import commands_for
from unslow.look.runtimes.transformers.in_process import NAME, describe, subject_of
from unslow.look.server_answers import value_at
from unslow.look.system import LookError, System, try_look
from unslow.look.system.http import LOCAL_HOST, is_port, reachable_host

__all__ = ["NAME", "PORTS", "RANK", "commands_for", "find", "read", "read_model", "read_url"]
PORTS = (8000,)
RANK = 7
_SIGNS = frozenset({"/load_model", "/reset", "/v1/responses"})
"""Addresses that `transformers serve` has and other servers with OpenAI's interface lack."""
_TOLD = {
    "attention": "attn-implementation",
    "quantization": "quantization",
    "weights_type": "dtype",
    "device_set": "device",
}
"""Facts by the options that tell them."""
_UNTOLD = not_supported(
    "`transformers serve` does not say it", "use `with unslow.watch(model):` in a program of your own"
)


def find(processes: Sequence[Process]) -> list[Process]:
    """Every `transformers serve`; other programs that use Transformers look like any Python."""
    found = []
    for process in processes:
        if process.name.startswith(("python", "transformers")):
            words = words_of(process.command())
            places = [n for n, word in enumerate(words[:4]) if word.rpartition("/")[2] == "transformers"]
            if any(words[n + 1 : n + 2] == ["serve"] for n in places):
                found.append(process)
    return found


def read(process: Process, api_key: str) -> tuple[Subject, ...]:
    """The server of a process, by its command line and its answers."""
    words = words_of(process.command())
    options: dict[str, str] = {}
    for at, word in enumerate(words):
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            following = words[at + 1] if at + 1 < len(words) else ""
            options[name] = value if equals else "on" if following.startswith("-") or not following else following
    host, port = options.get("host", ""), options.get("port", "")
    url = f"http://{LOCAL_HOST if host == 'localhost' else reachable_host(host)}:{port if is_port(port) else PORTS[0]}"
    subjects = read_url(process.system, url, api_key) or (Subject(runtime=_runtime(url)),)
    compiled = "compile" in options or options.get("cb-use-cuda-graph") == "on"
    told: dict[str, Any] = {
        "eager": reported(not compiled, COMMAND),
        "command": reported(words, COMMAND),
        "pid": reported(process.pid, "/proc"),
        "container": process.container(),
    }
    for fact, option in _TOLD.items():
        if options.get(option):
            told[fact] = reported(options[option], f"{COMMAND}: {options[option]}")
    model = _forced_model(words, process)
    return tuple(
        msgspec.structs.replace(
            subject, runtime=msgspec.structs.replace(subject.runtime, **told), model=overlaid(subject.model, model)
        )
        for subject in subjects
    )


def read_url(system: System, url: str, api_key: str) -> tuple[Subject, ...] | None:
    """The server at a URL; asking it for a model would load that model, so only its list is read."""
    server = Server(system, url, api_key)
    paths = value_at(try_look(None, server.json, "/openapi.json"), "paths")
    if not isinstance(paths, dict) or not paths.keys() >= _SIGNS:
        return None
    name: Fact[str] = _UNTOLD
    with suppress(LookError):  # without a cache of the hub it can't list any
        source = f"{server.url}/v1/models"
        models = parse_model_list(server.json("/v1/models"), source) or []
        if len(models) == 1:
            name = reported(models[0].name, source)
    return (Subject(runtime=_runtime(url), model=Model(name=name)),)


def _forced_model(words: list[str], process: Process) -> Model:
    """The one model that the server was told to serve, with its files where they can be read."""
    at = words.index("serve") + 1 if "serve" in words else len(words)
    name = words[at] if at < len(words) and not words[at].startswith("-") else ""
    if not name:
        return Model()
    folder = name if name.startswith("/") else f"{process.folder().value_or('')}/{name}"
    facts = try_look(Model(), lambda: model_facts(read_checkpoint(process.system, folder), name))
    return overlaid(facts, Model(name=reported(name, COMMAND)))


def _runtime(url: str) -> Runtime:
    facts: dict[str, Any] = dict.fromkeys(
        ("gpu_layers", "buffers", "attention", "weights_type", "threads", "busy_slots", "state"), _UNTOLD
    )
    return Runtime(name=reported(NAME, url), url=reported(url, "given"), **facts)


def read_model(system: System, model: Any) -> Subject:
    """A model that lives in this process, as it describes itself."""
    described = system.ask("transformers model", lambda: describe(model))
    pid = try_look(None, read_own_pid, system)  # of the process that was recorded; systems without /proc have none
    return subject_of(described, pid or os.getpid())
