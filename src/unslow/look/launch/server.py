"""A server that was started here, as the one who started it sees it: its address, its process, its log, its end."""

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any, Self

from unslow.facts.errors import UserError
from unslow.look.command_line import UNSET
from unslow.look.gguf_server_flags import parse_settings
from unslow.look.launch import command as commands
from unslow.look.system import LookError, System, try_look

START_TIMEOUT_S = 900.0
GRACE_S = 3.0  # How long a server may take to end; one that is generating does not listen
LONGEST_LAST_WORDS = 300
_LLAMA_ERROR = re.compile(r"(?m)^\S{1,20} E (.+)$")
_TELLING = ("error", "exception", "failed", "fatal")
_NOISE = ("resource_tracker", "warnings.warn")
LOG_TAIL_BYTES = 65536
_LOOK_EVERY_S = 0.05
Waiting = Callable[[float], None]  # Hears how long it has taken so far


class StartedServer(ABC):
    """It runs until `stop`; use it in a `with` block. Its log lies in a folder of its own, and lasts as long."""

    def __init__(self, process: "subprocess.Popen[str]", log: Path) -> None:
        self._process, self._folder, self.log_path = process, log.parent, str(log)

    @property
    def has_ended(self) -> bool:
        return self._process.poll() is not None

    @abstractmethod
    def stop(self) -> None:
        """End it, by force if it must be, and remove its log. May be called twice."""

    def __enter__(self) -> Self:
        """Nothing more: it runs already."""
        return self

    def __exit__(self, *_failure: object) -> None:
        """Stop."""
        self.stop()


class LaunchedServer(StartedServer):
    """A server that runs until `stop`, or until this program is gone."""

    def __init__(self, guard: "subprocess.Popen[str]", folder: Path, url: str, words: tuple[str, ...]) -> None:
        super().__init__(guard, folder / "server.log")
        self.url, self.words = url, words
        self.pid = 0
        self.load_s = 0.0  # From the start of its process until it answered

    def stop(self) -> None:
        """End the server and all that it started."""
        guard = self._process
        if guard.stdin and not guard.stdin.closed:
            guard.stdin.close()  # from here on the guard ends it, whatever happens to this process
        ends_within(guard, GRACE_S + 10.0)  # killed, the kernel ends the server
        if guard.stdout:
            guard.stdout.close()
        shutil.rmtree(self._folder, ignore_errors=True)


def launch(
    system: System,
    command: commands.Command,
    settings: Mapping[str, int | str],
    *,
    timeout_s: float = START_TIMEOUT_S,
    waiting: Waiting = lambda _seconds: None,
) -> LaunchedServer:
    """Start a server with these settings on a free port of loopback; return once it answers with its model loaded."""
    file, port = commands.found_file(command), free_port()
    words = commands.on_loopback(commands.with_settings(command.words, settings), port)
    # This program's own, with the variables of the command, without those that would set the same again
    away = commands.variables_of(command.words, {**settings, "host": "", "port": ""})
    environment = {name: value for name, value in {**os.environ, **command.variables}.items() if name not in away}
    program, at = commands.program_of(words)
    own = parse_settings(words[at:], environment) if program.name == "llama.cpp" else {}
    if "certificate" in own:
        raise UserError("the command serves TLS, which loopback does not need", "leave it out")
    prefix = own.get("api_prefix", UNSET).value.strip("/")
    url = f"http://{commands.LOOPBACK}:{port}" + (f"/{prefix}" if prefix else "")
    folder = Path(tempfile.mkdtemp(prefix="unslow-server-"))
    guard = _start_guard([file, *words[1:]], environment, folder / "server.log")
    server = LaunchedServer(guard, folder, url, tuple(words))
    try:
        line = guard.stdout.readline().strip() if guard.stdout else ""  # which process it started
        server.pid = int(line) if line.isdecimal() else 0
        start = system.clock()
        _wait(system, server, program.health, timeout_s, waiting)
        server.load_s = system.clock() - start
    except BaseException:
        server.stop()
        raise
    return server


def free_port() -> int:
    """A loopback port that is free now."""
    with socket.socket() as probe:
        probe.bind((commands.LOOPBACK, 0))
        return int(probe.getsockname()[1])


def _start_guard(words: list[str], environment: Mapping[str, str], log: Path) -> "subprocess.Popen[str]":
    # -P: a folder that happens to be the current one must not lend its modules
    guard = [sys.executable, "-P", "-m", "unslow.look.launch.guard", str(log), str(GRACE_S), *words]
    log.touch(mode=0o600)
    return subprocess.Popen(
        guard,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=dict(environment),
        text=True,
        start_new_session=sys.platform != "win32",  # out of reach of Ctrl-C
    )


def _wait(system: System, server: LaunchedServer, health: str, timeout_s: float, waiting: Waiting) -> None:
    for seconds in silent_for(system, lambda: server.url + health):
        said = read_last_words(system, server.log_path) if server.has_ended or seconds > timeout_s else ""
        if server.has_ended:
            hint = f"does `{Path(server.words[0]).name}` start in a terminal with the same arguments?"
            raise UserError(f"the server ended before it answered: {said}", hint)
        if seconds > timeout_s:
            raise UserError(f"the server did not answer within {seconds:.0f} s; its log ends with: {said}")
        waiting(seconds)


def ends_within(process: "subprocess.Popen[Any]", seconds: float) -> None:
    """Wait for the end of a process, and make it end where that takes longer."""
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def silent_for(system: System, address: Callable[[], str]) -> Iterator[float]:
    """How long nothing has answered there, again and again until something does; "" stands for no address yet."""
    start = system.clock()
    while (
        not (url := address())
        or not (answer := try_look(None, system.request, "GET", url))
        or answer.status != HTTPStatus.OK
    ):
        yield system.clock() - start
        system.sleep(_LOOK_EVERY_S)


def read_last_words(system: System, log_path: str) -> str:
    """The line of its log that tells best why it ended."""
    try:
        return parse_last_words(system.read_tail(log_path, LOG_TAIL_BYTES).decode("utf-8", "replace"))
    except LookError as error:
        return error.why


def parse_last_words(text: str) -> str:
    """llama.cpp's first error line, which names the reason; else the last line that speaks of an error, or the last."""
    if first := _LLAMA_ERROR.search(text):
        return first[1].strip()[:LONGEST_LAST_WORDS]
    lines = [line.strip()[:LONGEST_LAST_WORDS] for line in text.splitlines() if line.strip()]
    small = [(line, line.casefold()) for line in lines]
    telling = [(line, words) for line, words in small if any(word in words for word in _TELLING)]
    errors = [line for line, words in telling if not any(word in words for word in _NOISE)]
    return (errors or lines or ["its log is empty"])[-1]
