"""The processes of Ollama: the server, and one more for each model."""

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

from unslow.facts.values import Fact, Known, estimated, reported
from unslow.look.addresses import seen_host
from unslow.look.llama_server.process import is_server
from unslow.look.processes import Process, read_processes, started_by, words_of

DEFAULT_URL = "http://127.0.0.1:11434"
_NAMES = ("ollama",)
_OLDEST_RUNNER = "ollama_llama_se"  # the kernel keeps fifteen letters of ollama_llama_server

Kind = Literal["llama-server", "runner", "mlx"]


class Child(NamedTuple):
    """A process that runs one model."""

    process: Process
    kind: Kind
    model: str
    """The file, or for MLX the name of the model."""
    port: str


def find(processes: Sequence[Process]) -> list[Process]:
    """Every `ollama serve`; what it started belongs to it."""
    return [process for process in processes if _serves(process)]


def _serves(process: Process) -> bool:
    if not process.name.startswith(_NAMES) or process.name.startswith(_OLDEST_RUNNER):
        return False
    words = words_of(process.command())
    return "serve" in words[1:3]


def children_of(process: Process) -> list[Child]:
    """The processes with models, by their pids; those that only look for GPUs hold none."""
    own = started_by(process, read_processes(process.system))
    return [child for p in own if (child := _child(p))]


def _child(process: Process) -> Child | None:
    words = words_of(process.command())
    kind: Kind
    if is_server(process):
        kind = "llama-server"
    elif process.name.startswith(_OLDEST_RUNNER) or (process.name.startswith(_NAMES) and "runner" in words[1:2]):
        kind = "mlx" if "--mlx-engine" in words else "runner"
    else:
        return None
    model = _after(words, "--model")
    return Child(process, kind, model, _after(words, "--port")) if model else None


def _after(words: list[str], flag: str) -> str:
    at = words.index(flag) + 1 if flag in words else len(words)
    return words[at] if at < len(words) else ""


def url_of(environment: Fact[dict[str, str]]) -> Fact[str]:
    """Where a server with this environment listens, seen from this machine."""
    text = environment.value_or({}).get("OLLAMA_HOST", "").strip()
    if not text:
        return estimated(DEFAULT_URL, "default of Ollama: no OLLAMA_HOST")
    source = environment.source if isinstance(environment, Known) else ""
    return reported(parse_host(text), f"{source}: OLLAMA_HOST")


def parse_host(text: str) -> str:
    """`0.0.0.0`, `:8080`, `box:11434`, `[::]:11434` or a URL, as a URL; a scheme changes the port that is meant."""
    scheme, separator, rest = text.partition("://")
    scheme, rest = (scheme, rest) if separator else ("http", text)
    port = {"http": "80", "https": "443"}.get(scheme, "11434") if separator else "11434"
    host, _, path = rest.partition("/")
    found = re.fullmatch(r"(\[[^\]]*\]|[^:]*)(?::(\d{1,5}))?", host)
    name, port = (found[1], found[2] or port) if found else (host, port)
    url = f"{scheme}://{seen_host(name)}:{port}"
    return f"{url}/{path.strip('/')}" if path.strip("/") else url
