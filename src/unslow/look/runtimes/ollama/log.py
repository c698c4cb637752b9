"""The log of a running Ollama: the journal of its unit, a file, or that of its container; and its last load.

The file is the one that the output of its process goes to; on a Mac and under Windows, where processes are hidden, the
one that the app always writes.
"""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from unslow.facts.merge import overlaid
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Subject
from unslow.facts.values import Fact, Known, Unknown, first_known, not_found, reported_fact
from unslow.look.command_line import name_of_path
from unslow.look.logs import llama_cpp, ollama
from unslow.look.logs.ollama_options import asked_facts
from unslow.look.logs.stream import clean_line
from unslow.look.models.stores import read_surroundings
from unslow.look.processes import Process
from unslow.look.system import LookError, System, unknown

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
_START = re.compile(r"starting (?:llama-server|llama server|runner)\"? cmd=|failed to load model metadata")
_ENDS = re.compile(r"started in |Listening on|inference compute|vram-based")
_OF_SERVER = (
    "version", "environment", "devices", "gpu_refused", "keep_alive_s", "max_loaded_models", "context_default",
    "warnings", "loads", "fit", "fit_margin_bytes",
)  # fmt: skip


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
    why: Unknown = not_found("no log of its output was found", HOW_TO_GET)
    for reader in (_output_file, _journal, _container):
        try:
            log = reader(process)
        except LookError as error:
            why = unknown(error, HOW_TO_GET)
            continue
        if log and log.lines:
            return log
    return Log(why, [])


def _output_file(process: Process) -> Log | None:
    for path in process.outputs()[:1]:
        lines = _read_lines(process.system, f"/proc/{process.pid}/root{path}")  # a container has files of its own
        return Log(reported_fact(path, f"/proc/{process.pid}/fd"), lines, name_of_path(path))
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
    return Log(reported_fact(" ".join(command[:3]), f"/proc/{process.pid}/cgroup"), lines, "journal")


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
    return Log(reported_fact(f"docker logs {short}", f"/proc/{process.pid}/cgroup"), lines, "journal of the container")


def _output(process: Process, command: list[str]) -> list[str]:
    """What a command prints; docker passes both of a container's outputs on."""
    done = process.system.run(command, 10.0)
    if done.status != 0:
        message = done.stderr.strip().splitlines()
        raise LookError(f"{command[0]}: {message[-1][:200] if message else f'status {done.status}'}")
    text = f"{done.stdout}\n{done.stderr}" if command[0] == "docker" else done.stdout
    return [clean_line(line.encode()) for line in text.split("\n")]


def read_app_log(system: System) -> Log:
    """The log that the app keeps for this user, or why there is none to read."""
    why: Unknown = not_found("no log in the app's log folder", HOW_TO_GET)
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
            return Log(reported_fact(path, "where the app keeps it"), _read_lines(system, path), name_of_path(path))
        except LookError as error:
            why = unknown(error, HOW_TO_GET)
    return Log(why, [])


def server_facts(log: Log, environment: Fact[dict[str, str]]) -> Runtime:
    """What is true of the server whatever it has loaded: its log from the last start on, and its variables."""
    reader = ollama.DIALECT.start()
    for index, line in enumerate(log.lines):
        if any(needle in line for needle in ollama.DIALECT.needles):
            reader.take(line, log.where(index))
    logged = reader.log_facts(log.name).subject.runtime
    facts: dict[str, Any] = {name: logged.fact(name) for name in _OF_SERVER}
    variables = first_known(environment, logged.process.environment)
    if isinstance(variables, Known):
        facts |= asked_facts(variables.value, variables.source)
    return Runtime().with_facts(**{**facts, "environment": variables})


def last_load(log: Log, model: str = "", port: str | None = None) -> range:
    """The lines of the last load of a file, or of any; with the port of its process, which no other has, of that."""
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


def parse_load(log: Log, part: range) -> Subject:
    """What the log says of a load, by Ollama and by llama.cpp, whose lines are the exact ones."""
    readers = [ollama.DIALECT.start(), llama_cpp.DIALECT.start()]
    for index in part:
        for reader in readers:
            reader.take(log.lines[index], log.where(index))
    outer, inner = (reader.log_facts(log.name).subject for reader in readers)
    names = ["loads", "device_used"]
    if outer.runtime.state.value_or("") == "failed":  # a process that was killed has no last words
        names += ["state", *(["load_error"] if not isinstance(inner.runtime.memory.load_error, Known) else [])]
    kept = {name: fact for name in names if isinstance(fact := outer.runtime.fact(name), Known)}
    return Subject(
        runtime=overlaid(outer.runtime, inner.runtime).with_facts(**kept),
        model=overlaid(outer.model, inner.model),
        run=overlaid(outer.run, inner.run),
        contradictions=outer.contradictions,
    )
