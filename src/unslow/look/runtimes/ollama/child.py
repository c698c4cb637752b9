"""The process that runs one model, with the part of the log that tells of its load."""

import shlex
from typing import Any, NamedTuple

import msgspec

from unslow.facts.merge import overlaid
from unslow.facts.model import Model
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Subject
from unslow.facts.values import Known, not_supported, reported
from unslow.look.llama_server.process import found_server, parse_status
from unslow.look.llama_server.server import read_server
from unslow.look.logs import llama_cpp, ollama
from unslow.look.logs.ollama.runner import command_facts
from unslow.look.processes import words_of
from unslow.look.runtimes.ollama.logs import Log, Part, lines_of, load_of
from unslow.look.runtimes.ollama.processes import Child


class Seen(NamedTuple):
    """What a process shows of itself, and what its load wrote."""

    child: Child
    shown: Subject
    """The command line, the answers and the memory of the process."""
    logged: Subject
    """What was decided and allocated, by the log."""


def read_child(child: Child, log: Log) -> Seen:
    """Everything that can be seen of one process."""
    shown = _read_server(child) if child.kind == "llama-server" else _read_runner(child)
    return Seen(child, shown, parse_load(log, load_of(log, child.port, child.model)))


def _read_server(child: Child) -> Subject:
    return read_server(child.process.system, found_server(child.process))


def _read_runner(child: Child) -> Subject:
    """Ollama's own runner answers no questions; MLX has neither layers nor a file of GGUF."""
    process = child.process
    command = process.command()
    status = parse_status(process.text("status"), f"/proc/{process.pid}/status")
    facts: dict[str, Any] = {
        **command_facts(shlex.join(words_of(command)), f"/proc/{process.pid}/cmdline", is_server=False),
        "pid": reported(process.pid, "/proc"),
        "command": command,
        "environment": process.environment(),
        "resident_bytes": status["VmRSS"],
    }
    if child.kind == "mlx":
        facts["backends"] = reported(["MLX"], f"/proc/{process.pid}/cmdline")
        facts |= dict.fromkeys(("gpu_layers", "layers"), not_supported("MLX holds every layer in one memory"))
        return Subject(runtime=Runtime(**facts), model=Model(name=reported(child.model, "command line")))
    return Subject(runtime=Runtime(**facts), model=Model(path=reported(child.model, "command line")))


def parse_load(log: Log, part: Part | None) -> Subject:
    """What the log says of a load, by Ollama and by llama.cpp, whose lines are the exact ones."""
    if part is None:
        return Subject()
    readers = [ollama.DIALECT.start(), llama_cpp.DIALECT.start()]
    for line, where in lines_of(log, part):
        for reader in readers:
            reader.take(line, where)
    outer, inner = (reader.seen(log.name).subject for reader in readers)
    whole = overlaid(outer.runtime, inner.runtime)
    kept = {name: getattr(outer.runtime, name) for name in ("loads", "device_used") if _is_known(outer, name)}
    runtime = msgspec.structs.replace(whole, **kept)
    return Subject(
        runtime=runtime,
        model=overlaid(outer.model, inner.model),
        run=overlaid(outer.run, inner.run),
        contradictions=outer.contradictions,
    )


def _is_known(subject: Subject, name: str) -> bool:
    return isinstance(getattr(subject.runtime, name), Known)
