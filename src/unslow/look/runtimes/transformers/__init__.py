"""Transformers: inside one's own program by `unslow.watch`, or as `transformers serve`."""

import os
from collections.abc import Sequence
from typing import Any

import msgspec

from unslow.facts.merge import overlaid
from unslow.facts.model import Model
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Subject
from unslow.facts.values import Fact, not_supported, reported
from unslow.look.kernel.processors import read_own_pid
from unslow.look.models.safetensors import model_facts, read_checkpoint
from unslow.look.openai_api import Server, read_model_list
from unslow.look.processes import Process, words_of
from unslow.look.runtimes.transformers.commands import commands_for
from unslow.look.runtimes.transformers.in_process import NAME, describe, subject_of
from unslow.look.system import LookError, System
from unslow.look.system.http import LOCAL_HOST, is_port, reachable_host

__all__ = ["NAME", "PORTS", "RANK", "commands_for", "find", "read", "read_model", "read_url"]

PORTS = (8000,)
RANK = 7

_SIGNS = frozenset({"/load_model", "/reset", "/v1/responses"})
"""Addresses that `transformers serve` has and other servers with OpenAI's interface lack."""
_UNTOLD = not_supported(
    "`transformers serve` does not say it", "use `with unslow.watch(model):` in a program of your own"
)


def read_model(system: System, model: Any) -> Subject:
    """A model that lives in this process, as it describes itself."""
    return subject_of(system.ask("transformers model", lambda: describe(model)), _own_pid(system))


def _own_pid(system: System) -> int:
    """This process, or the one that was recorded; systems without /proc have only the first."""
    try:
        return read_own_pid(system)
    except LookError:
        return os.getpid()


def find(processes: Sequence[Process]) -> list[Process]:
    """Every `transformers serve`; other programs that use Transformers look like any Python."""
    return [p for p in processes if p.name.startswith(("python", "transformers")) and _serves(words_of(p.command()))]


def _serves(words: list[str]) -> bool:
    places = [n for n, word in enumerate(words[:4]) if word.rpartition("/")[2] == "transformers"]
    return any(words[n + 1 : n + 2] == ["serve"] for n in places)


def read(process: Process, api_key: str) -> tuple[Subject, ...]:
    """The server of a process, by its command line and its answers."""
    words = words_of(process.command())
    # The flags of a command line with their values; a switch is on
    found: dict[str, str] = {}
    for at, word in enumerate(words):
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            following = words[at + 1] if at + 1 < len(words) else ""
            found[name] = value if equals else "on" if following.startswith("-") or not following else following
    options = found
    host, port = options.get("host", ""), options.get("port", "")
    url = f"http://{LOCAL_HOST if host == 'localhost' else reachable_host(host)}:{port if is_port(port) else PORTS[0]}"
    subjects = read_url(process.system, url, api_key) or (Subject(runtime=_runtime(url)),)
    told, model = _told(words, options), _forced(words, process)
    return tuple(_of_process(subject, process, told, model) for subject in subjects)


def _forced(words: list[str], process: Process) -> Model:
    """The one model that the server was told to serve, with its files where they can be read."""
    at = words.index("serve") + 1 if "serve" in words else len(words)
    name = words[at] if at < len(words) and not words[at].startswith("-") else ""
    if not name:
        return Model()
    folder = name if name.startswith("/") else f"{process.folder().value_or('')}/{name}"
    try:
        facts = model_facts(read_checkpoint(process.system, folder), name)
    except LookError:
        facts = Model()
    return overlaid(facts, Model(name=reported(name, "command line")))


def _told(words: list[str], options: dict[str, str]) -> dict[str, Any]:
    source = "command line"
    facts: dict[str, Any] = {
        "attention": options.get("attn-implementation"),
        "quantization": options.get("quantization"),
        "weights_type": options.get("dtype"),
        "device_set": options.get("device"),
    }
    known = {name: reported(value, f"{source}: {value}") for name, value in facts.items() if value}
    compiled = "compile" in options or options.get("cb-use-cuda-graph") == "on"
    return {**known, "eager": reported(not compiled, source), "command": reported(words, source)}


def _of_process(subject: Subject, process: Process, told: dict[str, Any], model: Model) -> Subject:
    runtime = msgspec.structs.replace(
        subject.runtime, pid=reported(process.pid, "/proc"), container=process.container(), **told
    )
    return msgspec.structs.replace(subject, runtime=runtime, model=overlaid(subject.model, model))


def _runtime(url: str) -> Runtime:
    """What the server does not say, with the way to learn it."""
    facts: dict[str, Any] = dict.fromkeys(
        ("gpu_layers", "buffers", "attention", "weights_type", "threads", "busy_slots", "state"), _UNTOLD
    )
    return Runtime(name=reported(NAME, url), url=reported(url, "given"), **facts)


def read_url(system: System, url: str, api_key: str) -> tuple[Subject, ...] | None:
    """The server at a URL; asking it for a model would load that model, so only its list is read."""
    server = Server(system, url, api_key)
    try:
        described = server.json("/openapi.json")
        paths = described.get("paths") if isinstance(described, dict) else None
    except LookError:
        return None
    if not isinstance(paths, dict) or not paths.keys() >= _SIGNS:
        return None
    return (Subject(runtime=_runtime(url), model=Model(name=_only_model(server))),)


def _only_model(server: Server) -> Fact[str]:
    """The model, where the server has just one to offer; without a cache of the hub it can't list any."""
    try:
        models = read_model_list(server) or []
    except LookError:
        return _UNTOLD
    return reported(models[0].name, f"{server.url}/v1/models") if len(models) == 1 else _UNTOLD
