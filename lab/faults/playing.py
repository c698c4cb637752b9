"""Plays a stage: what surrounds the server, the server itself, and what goes on beside it; all of it is ended."""

import os
import shlex
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from lab.faults.asking import get
from lab.faults.fault import Fault, Playing, SkippedError, Stage

LOAD_LIMIT_S = 240.0
HEALTHY = 200


class Place(NamedTuple):
    """Where the lab finds its programs and models, and where it may listen and write."""

    servers: Path
    """A folder of programs, or llama-server itself."""
    models: Path
    port: int
    scratch: Path
    usual: tuple[str, ...] = ()
    """Arguments of every server: a verbosity, ..."""
    logs: bool = True
    """Whether the servers write a log that a diagnosis may find."""

    def program(self, name: str) -> Path:
        """A program of that name; SkippedError where there is none."""
        path = self.servers if self.servers.is_file() and name == "llama-server" else self._folder / name
        if not path.is_file():
            raise SkippedError(f"there is no program {name}")
        return path.resolve()

    @property
    def _folder(self) -> Path:
        return self.servers.parent if self.servers.is_file() else self.servers

    def model(self, stem: str) -> Path:
        """A model of that name; SkippedError where there is none."""
        path = self.models.absolute() / f"{stem}.gguf"
        if not path.is_file():
            raise SkippedError(f"there is no model {stem}.gguf; python -m lab.faults --make-models FOLDER makes it")
        return path


@contextmanager
def played(fault: Fault, stage: Stage, place: Place) -> Iterator[Playing]:
    """The stage with its server loaded, or ended where it could not load; undone in the opposite order."""
    with ExitStack() as stack:
        scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix=f"{fault.name}-", dir=place.scratch))
        playing = prepared(fault, stage, place, scratch)
        for surround in stage.around:
            stack.enter_context(surround(playing))
        start = time.monotonic()
        server = stack.enter_context(
            started(playing.command, playing.environment, Path(playing.log) if place.logs else None)
        )
        playing.pid = server.pid
        if loaded(server, playing.url):
            playing.load_s = time.monotonic() - start
            for go_on in stage.beside:
                stack.enter_context(go_on(playing))
        yield playing


def prepared(fault: Fault, stage: Stage, place: Place, scratch: str) -> Playing:
    """What is about to be started."""
    model = place.model(stage.model or fault.model)
    address = ["--host", "127.0.0.1", "--port", str(place.port)]
    given = [word.replace("{models}", str(place.models.absolute())) for word in stage.arguments]
    command = [*stage.wrap, str(place.program(stage.server)), "-m", str(model), *address, *place.usual, *given]
    url = f"http://127.0.0.1:{place.port}"
    log = str(Path(scratch) / "server.log")
    environment = {**os.environ, **stage.environment}
    return Playing(url, place.port, scratch, command, environment, models=str(place.models.absolute()), log=log)


@contextmanager
def started(
    command: list[str], environment: dict[str, str] | None = None, log: Path | None = None
) -> Iterator[subprocess.Popen[Any]]:
    """A process with all that it starts, killed at the end: a server in the middle of an answer hears nothing else."""
    with ExitStack() as stack:
        sink = stack.enter_context(log.open("ab")) if log else subprocess.DEVNULL
        process = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=sink, stderr=subprocess.STDOUT, process_group=0
        )
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def loaded(server: subprocess.Popen[Any], url: str) -> bool:
    """Wait until it is healthy; False where it ended or took too long."""
    end = time.monotonic() + LOAD_LIMIT_S
    while time.monotonic() < end and server.poll() is None:
        try:
            if get(url, "/health")[0] == HEALTHY:
                return True
        except OSError:
            pass
        time.sleep(0.05)
    return False


def shown(playing: Playing) -> str:
    """The command as a person would type it."""
    return shlex.join(playing.command)
