"""The embedded engine as its parent sees it: a child process with an address and a log, which never outlives it."""

import importlib.metadata
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from threading import Thread
from types import MappingProxyType

from unslow.facts.errors import UserError, hint_for_extra
from unslow.look.launch.server import StartedServer, Waiting, ends_within, read_last_words, silent_for
from unslow.look.system import System

CONTEXT = 4096
SETTINGS = ("context", "threads", "threads_batch", "batch", "ubatch", "slots")  # What can be set when it starts
START_TIMEOUT_S = 180.0
STOP_TIMEOUT_S = 5.0


class Engine(StartedServer):
    """A running engine."""

    def __init__(self, process: "subprocess.Popen[str]", folder: Path) -> None:
        super().__init__(process, folder / "engine.log")
        self.url = ""  # until the child has told it

        def listen() -> None:
            if process.stdout:
                self.url = process.stdout.readline().strip()

        self._listener = Thread(target=listen, daemon=True)  # not every platform reads a pipe with a deadline
        self._listener.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    def stop(self) -> None:
        if not self.has_ended:
            self._process.terminate()
        ends_within(self._process, STOP_TIMEOUT_S)
        self._listener.join()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe:
                pipe.close()
        shutil.rmtree(self._folder, ignore_errors=True)


def engine_version(package: str = "xllamacpp") -> str:
    """The version of the embedded engine; UserError where it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        raise UserError("the embedded engine is not installed", hint_for_extra("engine")) from None


def start_engine(
    system: System,
    model_path: str,
    *,
    threads: int | None = None,
    context: int = CONTEXT,
    settings: Mapping[str, int] = MappingProxyType({}),
    timeout_s: float = START_TIMEOUT_S,
    waiting: Waiting = lambda _seconds: None,
) -> Engine:
    """Serve a model on a loopback port and return once it answers; `waiting` hears how long it has taken so far.

    `settings` may hold any of `SETTINGS`, and wins over the two that have a name of their own.
    """
    engine_version()
    if not Path(model_path).is_file():
        raise UserError(f"{model_path}: no such file", "name a GGUF file")
    folder = Path(tempfile.mkdtemp(prefix="unslow-engine-"))
    chosen = {"context": context, **({"threads": threads} if threads else {}), **settings}
    # -P: a folder that happens to be the current one must not lend its modules
    command = [sys.executable, "-P", "-m", "unslow.look.engine.serve", "--model", model_path]
    for name, value in chosen.items():
        command += [f"--{name.replace('_', '-')}", str(value)]
    with (folder / "engine.log").open("wb") as log:
        child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True)
    engine = Engine(child, folder)
    with ExitStack() as on_failure:
        on_failure.callback(engine.stop)
        for seconds in silent_for(system, lambda: engine.url and f"{engine.url}/health"):
            if engine.has_ended or seconds > timeout_s:
                what = "ended while it loaded the model" if engine.has_ended else f"took more than {seconds:.0f} s"
                raise UserError(f"the embedded engine {what}: {read_last_words(system, engine.log_path)}")
            waiting(seconds)
        on_failure.pop_all()
    return engine
