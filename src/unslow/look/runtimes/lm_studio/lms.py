"""`lms`, the command line of LM Studio: what its API over HTTP leaves out.

Most of its commands start the daemon where none runs. With `--port` they don't: they talk to the server at that port or
end. So nothing is run here but with the port of a server that has just answered.
"""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from unslow.facts.runtime import Runtime
from unslow.facts.values import Absence, Fact, Known, estimated, failed, not_found, reported
from unslow.look.json_fields import amount, count, objects, word
from unslow.look.system import Answer, LookError, System

PROGRAM = "lms"
_SELECTED = re.compile(r"(\S{1,120})@(\d[\w.+-]{0,40})\s+✓\s+(\S.{0,80})")
_GPU_WORDS = {"cuda": "CUDA", "rocm": "ROCm", "vulkan": "Vulkan", "metal": "Metal", "mlx": "MLX"}
_FOR_EVER_S = -1.0
_IDLE = "idle"


class Loaded(NamedTuple):
    """A loaded model as `lms ps --json` has it; `path` is that of its file below the folder of models."""

    id: str
    key: str
    path: str
    runtime: Runtime


class Lms(NamedTuple):
    """What the command line told."""

    loaded: tuple[Loaded, ...] = ()
    engines: dict[str, str] | None = None
    """The engine in use for each format of models: a name that holds its backend, and its version."""


def read_lms(system: System, port: int, homes: Sequence[str]) -> Lms:
    """What `lms` tells of the server at a port; nothing where it is not installed."""
    for program in (PROGRAM, *(f"{home}/bin/lms" for home in homes)):
        try:
            listed = _run(system, program, "ps", "--json", "--port", str(port))
        except LookError as error:
            if error.absence is Absence.NOT_FOUND:
                continue
            return Lms()
        return Lms(parse_ps(listed, f"{PROGRAM} ps"), _read_engines(system, program, port))
    return Lms()


def _read_engines(system: System, program: str, port: int) -> dict[str, str] | None:
    try:
        return parse_engines(_run(system, program, "runtime", "ls", "--port", str(port)))
    except LookError:
        return None


def _run(system: System, program: str, *arguments: str) -> str:
    done = system.run([program, *arguments])
    if done.status:
        raise LookError(f"{PROGRAM} {arguments[0]} ended with status {done.status}")
    return done.stdout


def parse_ps(printed: str, source: str) -> tuple[Loaded, ...]:
    """The models of `lms ps --json`; none where it printed anything else."""
    try:
        listed = Answer(0, printed[printed.find("[") :].encode()).json()
    except LookError:
        return ()
    models = objects({"models": listed}, "models")
    return tuple(_loaded(m, source) for m in models if word(m, "type") != "embedding" and word(m, "identifier"))


def _loaded(model: dict[str, Any], source: str) -> Loaded:
    context, status = count(model, source, "contextLength"), word(model, "status")
    runtime = Runtime(
        context_length=context,
        slots=count(model, source, "parallel"),
        busy_slots=reported(0, source) if status == _IDLE else failed(f'{source} says "{status[:40]}"'),
        deferred_requests=count(model, source, "queued"),
        keep_alive_s=_keep_alive(model, source),
    )
    return Loaded(word(model, "identifier"), word(model, "modelKey"), word(model, "path"), runtime)


def _keep_alive(model: dict[str, Any], source: str) -> Fact[float]:
    """How long it stays after its last request; null is for ever."""
    if "ttlMs" in model and model["ttlMs"] is None:
        return reported(_FOR_EVER_S, source)
    milliseconds = amount(model, source, "ttlMs")
    return reported(milliseconds.value / 1000, source) if isinstance(milliseconds, Known) else milliseconds


def parse_engines(printed: str) -> dict[str, str]:
    """The engines with a tick in `lms runtime ls`, by the formats that they read."""
    found: dict[str, str] = {}
    for engine, version, formats in _SELECTED.findall(printed):
        found |= {part.strip().casefold(): f"{engine}@{version}" for part in formats.split(",")}
    return found


def backends_of(engine: str, source: str) -> Fact[list[str]]:
    """The backends that an engine has by its name, such as `llama.cpp-linux-x86_64-nvidia-cuda12-avx2`."""
    if not engine:
        return not_found(f"{source} shows no engine in use for this format")
    gpus = [name for part, name in _GPU_WORDS.items() if part in engine.casefold()]
    return estimated([*gpus, "CPU"], f"{source}: {engine}")
