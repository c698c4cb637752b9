"""The embedded engine as its parent sees it: a child process with an address and a log, which never outlives it."""

import importlib.metadata
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from http import HTTPStatus
from pathlib import Path
from threading import Thread
from types import MappingProxyType, TracebackType
from typing import Self

from unslow.facts.errors import UserError
from unslow.look.system import LookError, System

CONTEXT = 4096
SETTINGS = ("context", "threads", "threads_batch", "batch", "ubatch", "slots")
"""What can be set when it starts."""
START_TIMEOUT_S = 180.0
STOP_TIMEOUT_S = 5.0
LOG_TAIL_BYTES = 65536

_LOOK_EVERY_S = 0.05
_ERROR_LINE = re.compile(r"(?m)^\S+ E (.+)$")

Waiting = Callable[[float], None]


class Engine:
    """A running engine; use it in a `with` block, or call `stop`."""

    def __init__(self, process: "subprocess.Popen[str]", folder: Path) -> None:
        self._process, self._folder = process, folder
        self.url = ""  # until the child has told it
        self._listener = Thread(target=self._listen, daemon=True)  # not every platform reads a pipe with a deadline
        self._listener.start()

    def _listen(self) -> None:
        if self._process.stdout:
            self.url = self._process.stdout.readline().strip()

    @property
    def pid(self) -> int:
        """The child's process id."""
        return self._process.pid

    @property
    def log_path(self) -> str:
        """llama.cpp's own log; it lasts until `stop`."""
        return str(self._folder / "engine.log")

    @property
    def ended(self) -> bool:
        """Whether the child is gone."""
        return self._process.poll() is not None

    def stop(self) -> None:
        """End the child, by force if it does not go at once, and remove its log. May be called twice."""
        if not self.ended:
            self._process.terminate()
            try:
                self._process.wait(STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._listener.join()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe:
                pipe.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Self:
        """Nothing more: it runs already."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop."""
        self.stop()


def engine_version(package: str = "xllamacpp") -> str:
    """The version of the embedded engine; UserError where it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        hint = "pipx install 'unslow[engine]', or pip install 'unslow[engine]'"
        raise UserError("the embedded engine is not installed", hint) from None


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
    engine = Engine(_spawned(model_path, chosen, folder / "engine.log"), folder)
    try:
        _wait(system, engine, system.clock() + timeout_s, waiting)
    except BaseException:
        engine.stop()
        raise
    return engine


def _spawned(model_path: str, settings: Mapping[str, int], log_path: Path) -> "subprocess.Popen[str]":
    # -P: a folder that happens to be the current one must not lend its modules
    command = [sys.executable, "-P", "-m", "unslow.look.engine.serve", "--model", model_path]
    for name, value in settings.items():
        command += [f"--{name.replace('_', '-')}", str(value)]
    with log_path.open("wb") as log:
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True)


def _wait(system: System, engine: Engine, deadline: float, waiting: Waiting) -> None:
    """Until the engine has told its address and answers there."""
    start = system.clock()
    while not _answers(system, engine):
        now = system.clock()
        if engine.ended:
            raise UserError(f"the embedded engine ended while it loaded the model: {_last_words(system, engine)}")
        if now > deadline:
            raise UserError(f"the embedded engine took more than {now - start:.0f} s: {_last_words(system, engine)}")
        waiting(now - start)
        system.sleep(_LOOK_EVERY_S)


def _answers(system: System, engine: Engine) -> bool:
    if not engine.url:
        return False
    try:
        return system.request("GET", f"{engine.url}/health").status == HTTPStatus.OK
    except LookError:
        return False


def _last_words(system: System, engine: Engine) -> str:
    """The line of the log that tells most: the first error, else the last line."""
    try:
        text = system.read_tail(engine.log_path, LOG_TAIL_BYTES).decode("utf-8", "replace")
    except LookError as error:
        return error.why
    return parse_last_words(text)


def parse_last_words(text: str) -> str:
    """llama.cpp's first error line, which names the reason; where it has none, the last line."""
    error = _ERROR_LINE.search(text)
    lines = text.strip().splitlines()
    return error[1].strip() if error else lines[-1] if lines else "its log is empty"
