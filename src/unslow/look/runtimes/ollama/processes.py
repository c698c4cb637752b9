"""The processes of Ollama, the server and one more for each model, and the log of the server."""

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

from unslow.facts.values import Fact, Known, Unknown, estimated, not_found, reported
from unslow.look.command_line import name_of_path
from unslow.look.logs.stream import clean_line
from unslow.look.models.stores import read_surroundings
from unslow.look.processes import Process, read_processes, started_by, words_of
from unslow.look.runtimes._gguf_process import is_server
from unslow.look.system import LookError, System, unknown
from unslow.look.system.http import reachable_host

DEFAULT_URL = "http://127.0.0.1:11434"
_NAMES = ("ollama",)
_OLDEST_RUNNER = "ollama_llama_se"  # the kernel keeps fifteen letters of ollama_llama_server

Kind = Literal["llama-server", "runner", "mlx"]


class Child(NamedTuple):
    """A process that runs one model."""

    process: Process
    kind: Kind
    model: str  # The file, or for MLX the name of the model
    port: str


def find(processes: Sequence[Process]) -> list[Process]:
    """Every `ollama serve`; what it started belongs to it."""
    own = [p for p in processes if p.name.startswith(_NAMES) and not p.name.startswith(_OLDEST_RUNNER)]
    return [process for process in own if "serve" in words_of(process.command())[1:3]]


def children_of(process: Process) -> list[Child]:
    """The processes with models, by their pids; those that only look for GPUs hold none."""
    found = []
    for child in started_by(process, read_processes(process.system)):
        words = words_of(child.command())
        kind: Kind
        if is_server(child):
            kind = "llama-server"
        elif child.name.startswith(_OLDEST_RUNNER) or (child.name.startswith(_NAMES) and "runner" in words[1:2]):
            kind = "mlx" if "--mlx-engine" in words else "runner"
        else:
            continue
        if model := _after(words, "--model"):
            found.append(Child(child, kind, model, _after(words, "--port")))
    return found


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
    url = f"{scheme}://{reachable_host(name)}:{port}"
    return f"{url}/{path.strip('/')}" if path.strip("/") else url


# The log of a running Ollama: the journal of its unit, a file, or that of its container.
# The file is the one that the output of its process goes to; on a Mac and under Windows, where nobody sees a process,
# the one that the app always writes.

HOW_TO_GET = (
    "read the journal as a member of the group systemd-journal, or give the log: `journalctl -u ollama --no-pager`; "
    "on a Mac ~/.ollama/logs/server.log, on Windows %LOCALAPPDATA%\\Ollama\\server.log, else `docker logs`"
)
LAST_LINES = 20_000
HEAD_BYTES = 2 * 1024**2
TAIL_BYTES = 2 * 1024**2
_STARTS = r"server config|Listening on|inference compute|vram-based default context"
_UNIT = re.compile(r"/([\w@.:\\-]{1,120}\.service)\b")
_CONTAINER = re.compile(r"\b([0-9a-f]{64})\b")
_START = re.compile(r"starting (?:llama-server|llama server|runner)\"? cmd=")
_ENDS = re.compile(r"started in |Listening on|inference compute|vram-based")


class Log(NamedTuple):
    """Lines of a log, each with its place."""

    path: Fact[str]
    lines: Sequence[str]
    name: str = "log"

    def where(self, index: int) -> str:
        """The place of a line, counted from the end where the lines are the last of more."""
        return f"{self.name}:{index - len(self.lines) if self.name.startswith('journal') else index + 1}"


def read_log(process: Process) -> Log:
    """The log of a server, or why there is none to read."""
    why: Unknown = not_found("its output goes to no log that was found", HOW_TO_GET)
    for reader in (_output_file, _journal, _container):
        try:
            log = reader(process)
        except LookError as error:
            why = unknown(error, HOW_TO_GET)
            continue
        if log and log.lines:
            return log
    return Log(why, [])


def read_app_log(system: System) -> Log:
    """The log that the app keeps for this user, or why there is none to read."""
    why: Unknown = not_found("no log lies where the app keeps it", HOW_TO_GET)
    try:
        # Where the app of each system writes its log; rotated ones beside it tell of earlier servers
        around = read_surroundings(system)
        local = around.variable("LOCALAPPDATA")
        windows = [f"{local}\\Ollama\\server.log"] if local else []
        paths = [*windows, f"{around.home}/.ollama/logs/server.log"]
    except LookError as error:
        return Log(unknown(error, HOW_TO_GET), [])
    for path in paths:
        try:
            return Log(reported(path, "where the app keeps it"), _read_lines(system, path), name_of_path(path))
        except LookError as error:
            why = unknown(error, HOW_TO_GET)
    return Log(why, [])


def _output_file(process: Process) -> Log | None:
    for path in process.outputs()[:1]:
        lines = _read_lines(process.system, f"/proc/{process.pid}/root{path}")  # a container has files of its own
        return Log(reported(path, f"/proc/{process.pid}/fd"), lines, name_of_path(path))
    return None


def _read_lines(system: System, place: str) -> list[str]:
    """The lines of a file; of a long one those of its start and its end."""
    head = system.read_head(place, HEAD_BYTES)
    lines = head.split(b"\n")
    if len(head) == HEAD_BYTES:
        tail = system.read_tail(place, TAIL_BYTES)
        lines = [*lines[:-1], *tail.split(b"\n")[1:]]
    return [clean_line(line) for line in lines]


def _journal(process: Process) -> Log | None:
    """The last lines of its unit; where they do not reach back to the server's start, that too."""
    unit = parse_unit(process.text("cgroup"))
    if not unit:
        return None
    command = ["journalctl", *unit, "--no-pager", "-o", "cat"]
    lines = _output(process, [*command, "-n", str(LAST_LINES)])
    if lines and not any("inference compute" in line for line in lines):
        lines = [*_output(process, [*command, "-n", "40", "-g", _STARTS]), *lines]
    return Log(reported(" ".join(command[:3]), f"/proc/{process.pid}/cgroup"), lines, "journal")


def parse_unit(cgroup: str) -> list[str]:
    """The option of journalctl for the unit of a control group; none for a shell of a user."""
    units = _UNIT.findall(cgroup)
    if not units or units[-1].startswith("user@"):
        return []
    return ["--user-unit" if "/user.slice/" in cgroup else "-u", units[-1]]


def _container(process: Process) -> Log | None:
    found = _CONTAINER.search(process.text("cgroup"))
    if not found:
        return None
    short = found[1][:12]
    lines = _output(process, ["docker", "logs", "--tail", str(LAST_LINES), short])
    return Log(reported(f"docker logs {short}", f"/proc/{process.pid}/cgroup"), lines, "journal of the container")


def _output(process: Process, command: list[str]) -> list[str]:
    """What a command prints; docker passes both of a container's outputs on."""
    done = process.system.run(command, 10.0)
    if done.status != 0:
        message = done.stderr.strip().splitlines()
        raise LookError(f"{command[0]}: {message[-1][:200] if message else f'status {done.status}'}")
    text = f"{done.stdout}\n{done.stderr}" if command[0] == "docker" else done.stdout
    return [clean_line(line.encode()) for line in text.split("\n")]


def last_load(log: Log, model: str = "", port: str | None = None) -> range:
    """The lines of the last load of a file, or of any; where its process is known, of the load by that.

    A process is known by its port, which no other has at the time.
    """
    starts = [index for index, line in enumerate(log.lines) if _START.search(line)]
    own = [index for index in starts if model in log.lines[index].replace("\\\\", "\\")]
    if port is not None:
        own = [index for index in own if port and re.search(rf"--port {re.escape(port)}\b", log.lines[index])]
    if not own:
        return range(0)
    start, end = own[-1], next((index for index in starts if index > own[-1]), len(log.lines))
    # what Ollama says before it starts the process belongs to the load: free memory, the choice of a GPU
    while start > 0 and " level=" in log.lines[start - 1] and not _ENDS.search(log.lines[start - 1]):
        start -= 1
    return range(start, end)
