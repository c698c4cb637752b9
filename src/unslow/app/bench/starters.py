"""What starts a server for a benchmark: the embedded engine on a model, or the command that the user gives."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec

from unslow.app.runtimes import read_at
from unslow.facts.errors import UserError
from unslow.facts.merge import overlaid
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Subject
from unslow.facts.values import Known, measured, reported
from unslow.look.command_line import UNSET
from unslow.look.engine.server import SETTINGS, engine_version, start_engine
from unslow.look.launch.command import Command
from unslow.look.launch.server import Launched, launch
from unslow.look.launch.settings import can_set, program_of, shown
from unslow.look.llama_server.arguments import parse_settings
from unslow.look.models.gguf import part_paths
from unslow.look.processes import read_process, read_processes, started_by
from unslow.look.runtimes import lookers
from unslow.look.runtimes.llama_cpp import read_embedded
from unslow.look.system import LookError, System

ENGINE_CONTEXT = 4608
"""Room for a prompt of 4096 tokens and the answer to it."""
_OURS = "started by unslow"

Settings = Mapping[str, int]
Waiting = Callable[[float], None]


class Started(NamedTuple):
    """A server that answers: what is known of it, how long it took, and the key that it wants."""

    subject: Subject
    load_s: float
    api_key: str = ""


class Starter(Protocol):
    """Starts the same server again and again, each time with other settings."""

    def described(self) -> str:
        """What it starts, in words for the user."""
        ...

    def can_set(self, setting: str) -> bool:
        """Whether the server has such a setting."""
        ...

    def model_path(self) -> str:
        """The file of the model; empty where only the server knows."""
        ...

    def started(
        self, system: System, settings: Settings, timeout_s: float, waiting: Waiting
    ) -> AbstractContextManager[Started]:
        """The server, for as long as the block lasts; UserError where it does not start."""
        ...


class EngineStarter(NamedTuple):
    """The embedded engine on a GGUF file."""

    path: str
    called: str

    def described(self) -> str:
        return f"the embedded engine on {self.called}"

    def can_set(self, setting: str) -> bool:
        return setting in SETTINGS

    def model_path(self) -> str:
        return self.path

    @contextmanager
    def started(self, system: System, settings: Settings, timeout_s: float, waiting: Waiting) -> Iterator[Started]:
        version, start = engine_version(), system.clock()
        chosen = {"context": ENGINE_CONTEXT, **settings}
        with start_engine(system, self.path, settings=chosen, timeout_s=timeout_s, waiting=waiting) as engine:
            load_s = system.clock() - start
            subject = read_embedded(system, engine.url, engine.pid, version, engine.log_path, self.path)
            yield Started(with_load(subject, load_s), load_s)


class CommandStarter(NamedTuple):
    """The command that the user gives."""

    command: Command

    def described(self) -> str:
        return shown(self.command.words)

    def can_set(self, setting: str) -> bool:
        return can_set(self.command.words, setting)

    def model_path(self) -> str:
        program, at = program_of(self.command.words)
        own = self.command.words[at:]
        path = (
            parse_settings(own, self.command.variables).get("model", UNSET).value if program.name == "llama.cpp" else ""
        )
        return os.path.abspath(path) if path else ""  # noqa: PTH100 (links are what the parts are named by)

    @contextmanager
    def started(self, system: System, settings: Settings, timeout_s: float, waiting: Waiting) -> Iterator[Started]:
        with launch(system, self.command, settings, timeout_s=timeout_s, waiting=waiting) as server:
            program, at = program_of(server.words)
            key = program.key(server.words[at:])
            yield Started(with_load(read_launched(system, server, key), server.load_s), server.load_s, key)


def with_load(subject: Subject, load_s: float) -> Subject:
    """The subject with the time that it took to start."""
    run = msgspec.structs.replace(subject.run, load_s=measured(load_s, "until the server answered"))
    return msgspec.structs.replace(subject, run=run)


def read_launched(system: System, server: Launched, api_key: str) -> Subject:
    """All that can be seen of a server that was started here; UserError where it can't be read."""
    try:
        found = next(iter(_by_process(system, server, api_key) or read_at(system, server.url, api_key)), None)
    except LookError as error:
        raise UserError(f"the server was started, and can't be read: {error.why}", error.how_to_get) from error
    if found is None:
        raise UserError("the server was started, and serves no model", "name a model in the command")
    known = Runtime(url=reported(server.url, _OURS), log_path=reported(server.log_path, _OURS))
    if not isinstance(found.runtime.pid, Known):
        known = msgspec.structs.replace(known, pid=reported(server.pid, _OURS))
    return msgspec.structs.replace(found, runtime=overlaid(found.runtime, known))


def _by_process(system: System, server: Launched, api_key: str) -> tuple[Subject, ...]:
    """By its process, which tells most; nothing where processes can't be seen."""
    try:
        first = read_process(system, server.pid)
        family = [first, *started_by(first, read_processes(system))]
    except LookError:
        return ()
    for looker in lookers():
        for process in looker.find(family):
            if subjects := looker.read(process, api_key):
                return subjects
    return ()


def files_of(system: System, path: str) -> list[str]:
    """The files that hold a model's weights: all parts of a GGUF file, or what lies in a folder of safetensors."""
    if path.endswith(".gguf") or Path(path).is_file():
        return _parts(path)
    try:
        names = system.list_dir(path)
    except LookError:
        return []
    return [f"{path.rstrip('/')}/{name}" for name in names if name.endswith((".safetensors", ".bin", ".gguf"))]


def _parts(path: str) -> list[str]:
    try:
        return [os.path.realpath(part) for part in part_paths(path)]
    except LookError:
        return [os.path.realpath(path)]
