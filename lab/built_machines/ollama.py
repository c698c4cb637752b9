"""Ollama in a built world: its server, the llama-server that it starts for a model, its answers and its log."""

import json
from typing import NamedTuple

from lab.built_machines.llama_server import URL as LLAMA_URL
from lab.built_machines.llama_server import Server, answers_of, lines_of
from lab.built_machines.world import World

PID, CHILD = 1897, 1898
URL = "http://127.0.0.1:11434"
PORT = "55359"
LOG = "/var/log/ollama/server.log"
BLOB = "/usr/share/ollama/.ollama/models/blobs/sha256-" + "ab" * 32
STAMP = "time=2026-01-01T10:{minute:02d}:00.000Z level=INFO source="


class Load(NamedTuple):
    """One load of the model, as requests asked for it."""

    context: int
    seconds: float
    request_s: float
    """How long the request took that asked for it."""
    hour: str = "10"
    other: bool = False
    """Whether it was that of another model."""


def serve_ollama(
    world: World, server: Server, loads: tuple[Load, ...], name: str = "llama3.1:8b", **details: str
) -> World:
    """The world with Ollama 0.33 in it, which has loaded the model so many times."""
    words = _command(server, loads[-1].context)
    _add_process(world, PID, "ollama", ("/usr/local/bin/ollama", "serve"), 1, server.cpus)
    _add_process(world, CHILD, "llama-server", words, PID, server.cpus)
    on_gpu = server.layers_on_gpu / server.shape.layers
    size = round((server.shape.file_mib + server.shape.kv_mib(server.context)) * 2**20)
    model = {"name": name, "size": size, "size_vram": round(size * on_gpu), "context_length": server.context}
    described = {
        "format": "gguf",
        "family": "llama",
        "parameter_size": "8.0B",
        "quantization_level": "Q4_K_M",
        **details,
    }
    shown = {"modelfile": f"FROM {BLOB}\n", "parameters": f"num_ctx    {server.context}", "details": described}
    answers = {"GET /api/ps": {"models": [{**model, "details": described}]}, "POST /api/show": shown}
    answers["GET /api/version"] = {"version": "0.33.0"}
    http = {ask.replace(" /", f" {URL}/"): json.dumps(answer) for ask, answer in answers.items()}
    child = {ask.replace(LLAMA_URL, f"http://127.0.0.1:{PORT}"): text for ask, text in answers_of(server).items()}
    gguf = {f"gguf /proc/{CHILD}/root{BLOB}": server.shape.gguf(BLOB)}
    world.add({f"/proc/{PID}/root{LOG}": _log(server, loads)}, http=http | child, asks=gguf)
    return world.add(links={f"/proc/{PID}/fd/1": LOG, f"/proc/{PID}/fd/2": LOG})


def _command(server: Server, context: int) -> tuple[str, ...]:
    """The command line with which Ollama starts a llama-server."""
    return (
        "/usr/lib/ollama/llama-server", "--model", BLOB, "--port", PORT, "--host", "127.0.0.1", "--no-webui",
        "--offline", "-c", str(context), "-np", "1",
        "--log-verbosity", "4", "--no-log-prefix", "--no-log-timestamps", "--metrics",
        "--flash-attn", "auto", "-b", "512", "-ub", "512", "-t", str(server.threads),
    )  # fmt: skip


def _add_process(world: World, pid: int, name: str, words: tuple[str, ...], parent: int, cpus: int) -> None:
    proc = f"/proc/{pid}"
    world.add(
        {
            f"{proc}/comm": f"{name}\n",
            f"{proc}/cmdline": "".join(f"{word}\0" for word in words),
            f"{proc}/environ": "OLLAMA_HOST=127.0.0.1:11434\0",
            f"{proc}/status": f"Name:\t{name}\nPid:\t{pid}\nPPid:\t{parent}\nCpus_allowed_list:\t0-{cpus - 1}\n",
            f"{proc}/cgroup": "0::/system.slice/llama.service\n",
        },
        links={f"{proc}/cwd": "/usr/share/ollama"},
    )


def _log(server: Server, loads: tuple[Load, ...]) -> str:
    """What the server says of itself, then each load with the lines of its llama-server."""
    head = STAMP.format(minute=0)
    lines = [
        f'{head}routes.go:1951 msg="server config" env="map[OLLAMA_KEEP_ALIVE:5m0s]"',
        f'{head}routes.go:2008 msg="Listening on 127.0.0.1:11434 (version 0.33.0)"',
    ]
    for minute, load in enumerate(loads, 1):
        head, last = STAMP.format(minute=minute), load is loads[-1]
        run = server._replace(context=load.context, answered=server.answered if last else server.answered[:1])
        words = " ".join(_command(server, load.context))
        lines.append(f'{head}llama_server.go:433 msg="starting llama-server" cmd="{words}"')
        lines += [line.partition(" ")[2] for line in lines_of(run)]
        lines.append(f'{head}llama_server.go:1362 msg="llama-server started in {load.seconds:.2f} seconds"')
        stamp = f"2026/01/01 - 10:{minute:02d}:30"
        lines.append(f'[GIN] {stamp} | 200 | {load.request_s:>12.6f}s |       127.0.0.1 | POST     "/api/chat"')
    return "".join(f"{line}\n" for line in lines)
