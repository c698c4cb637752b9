"""Ollama as an app on a Mac or under Windows: no process can be listed there, so its answers and its log file tell."""

import json
from typing import Any, NamedTuple

from lab.built_machines.llama_server import Server, lines_of
from lab.built_machines.ollama import URL, Load
from lab.built_machines.world import World

DIGEST, OTHER_DIGEST = "sha256-" + "ab" * 32, "sha256-" + "cd" * 32
MAC_HOME, WINDOWS_HOME = "/Users/user", "C:\\Users\\user"
LOGS = {"mac": f"{MAC_HOME}/.ollama/logs/server.log", "windows": f"{WINDOWS_HOME}\\AppData\\Local\\Ollama\\server.log"}
PROGRAMS = {
    "mac": "/Applications/Ollama.app/Contents/Resources/llama-server",
    "windows": f"{WINDOWS_HOME}\\AppData\\Local\\Programs\\Ollama\\lib\\ollama\\llama-server.exe",
}
BLOBS = {
    "mac": f"{MAC_HOME}/.ollama/models/blobs/{DIGEST}",
    "windows": f"{WINDOWS_HOME}\\.ollama\\models\\blobs\\{DIGEST}",
}
VARIABLES = {
    "OLLAMA_CONTEXT_LENGTH": "0",
    "OLLAMA_FLASH_ATTENTION": "",
    "OLLAMA_KEEP_ALIVE": "5m0s",
    "OLLAMA_KV_CACHE_TYPE": "",
    "OLLAMA_MAX_LOADED_MODELS": "0",
    "OLLAMA_NUM_PARALLEL": "1",
}
"""As the line `server config` has them where nobody set any."""
STAMP = "time=2026-01-01T{hour}:{minute:02d}:{second:02d}.000+01:00 level={level} source="


class App(NamedTuple):
    """The app, the model that it has loaded, and what its log tells around the lines of llama.cpp."""

    system: str
    name: str = "llama3.1:8b"
    family: str = "llama"
    size: str = "8.0B"
    quant: str = "Q4_K_M"
    version: str = "0.33.0"
    variables: tuple[tuple[str, str], ...] = ()
    compute: str = ""
    """The fields of the line `inference compute`."""
    remarks: tuple[str, ...] = ()
    """Lines before that one, each with its level and place in the source."""
    parameters: str = ""
    """Of the Modelfile."""
    share: float | None = None
    """Of the model that /api/ps says is on the GPU; by the layers where it says nothing else."""
    blob: str = ""
    """Where the model lies; where the app keeps it, if nobody says."""
    own_engine: tuple[str, ...] = ()
    """The lines of a load by versions before 0.30, which have no llama-server."""


def with_app(world: World, app: App, server: Server, loads: tuple[Load, ...]) -> World:
    """The world with the app in it."""
    http = {ask.replace(" /", f" {URL}/"): _body(answer) for ask, answer in _answers(app, server).items()}
    blob = _blob(app)
    home = MAC_HOME if app.system == "mac" else WINDOWS_HOME
    local = {"LOCALAPPDATA": f"{WINDOWS_HOME}\\AppData\\Local"} if app.system == "windows" else {}
    asks = {f"gguf {blob}": server.shape.gguf(blob), "surroundings of model stores": {"home": home, "variables": local}}
    return world.add({LOGS[app.system]: log_of(app, server, loads)}, http=http, asks=asks)


def _blob(app: App) -> str:
    return app.blob or BLOBS[app.system]


def _body(answer: Any) -> str:
    return answer if isinstance(answer, str) else json.dumps(answer)


def _answers(app: App, server: Server) -> dict[str, Any]:
    shape = server.shape
    share = server.layers_on_gpu / shape.layers if app.share is None else app.share
    size = round((shape.file_mib + shape.kv_mib(server.context) + 300) * 2**20)
    details = {
        "format": "gguf", "family": app.family, "parameter_size": app.size, "quantization_level": app.quant,
    }  # fmt: skip
    loaded = {
        "name": app.name, "model": app.name, "size": size, "size_vram": round(size * share),
        "context_length": server.context // server.slots, "details": details,
    }  # fmt: skip
    shown = {
        "modelfile": f"FROM {_blob(app)}\n", "parameters": app.parameters, "details": details,
        "model_info": server.shape.gguf("")["metadata"],
    }  # fmt: skip
    return {
        "GET /": "Ollama is running",
        "GET /api/version": {"version": app.version},
        "GET /api/ps": {"models": [loaded]},
        "POST /api/show": shown,
    }


def log_of(app: App, server: Server, loads: tuple[Load, ...]) -> str:
    """What the app wrote since it was started."""
    lines = [*_start(app)]
    for minute, load in enumerate(loads, 1):
        lines += _load(app, server, load, minute, last=minute == len(loads))
    return "".join(f"{line}\n" for line in lines)


def _start(app: App) -> list[str]:
    variables = " ".join(f"{name}:{value}" for name, value in (VARIABLES | dict(app.variables)).items())
    head = STAMP.format(hour="05", minute=0, second=0, level="INFO")
    said = [
        STAMP.format(hour="05", minute=0, second=1, level=level) + text for level, text in map(_levelled, app.remarks)
    ]
    return [
        f'{head}routes.go:1951 msg="server config" env="map[{variables}]"',
        f'{head}routes.go:2008 msg="Listening on 127.0.0.1:11434 (version {app.version})"',
        *said,
        f'{head}types.go:32 msg="inference compute" {app.compute}',
        f'{head}routes.go:2058 msg="vram-based default context" total_vram="8.0 GiB" default_num_ctx=4096',
    ]


def _levelled(remark: str) -> tuple[str, str]:
    level, _, text = remark.partition(" ")
    return level, text


def _load(app: App, server: Server, load: Load, minute: int, *, last: bool) -> list[str]:
    head = STAMP.format(hour=load.hour, minute=minute, second=0, level="INFO")
    run = server._replace(context=load.context, answered=server.answered if last else server.answered[:1])
    words = " ".join(_command(app, server, load.context))
    if app.system == "windows":
        words = words.replace("\\", "\\\\")
    if load.other:
        words = words.replace(DIGEST, OTHER_DIGEST)
    stamp = f"2026/01/01 - {load.hour}:{minute:02d}:30"
    request = f'[GIN] {stamp} | 200 | {load.request_s:>12.6f}s |       127.0.0.1 | POST     "/api/chat"'
    if app.own_engine:
        return [*(f"{head}{line}" for line in app.own_engine), request]
    return [
        f'{head}llama_server.go:433 msg="starting llama-server" cmd="{words}"',
        *(line.partition(" ")[2] for line in lines_of(run)),
        f'{head}llama_server.go:1362 msg="llama-server started in {load.seconds:.2f} seconds"',
        request,
    ]


def _command(app: App, server: Server, context: int) -> tuple[str, ...]:
    return (
        PROGRAMS[app.system], "--model", _blob(app), "--port", "55359", "--host", "127.0.0.1", "--no-webui",
        "--offline", "-c", str(context), "-np", str(server.slots), "--log-verbosity", "4", "--no-log-prefix",
        "--no-log-timestamps", "--metrics", "--flash-attn", "auto", "-b", "512", "-ub", "512", *server.args,
    )  # fmt: skip
