"""A server that was started here, as the one who started it sees it: its address, its process, its log, its end."""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from unslow.facts.errors import UserError
from unslow.look.command_line import UNSET
from unslow.look.gguf_server_flags import parse_settings
from unslow.look.launch.command import (
    LOOPBACK,
    Command,
    found_file,
    on_loopback,
    program_of,
    variables_of,
    with_settings,
)
from unslow.look.launch.started import Started, Waiting, ended_within, read_last_words, silent_for
from unslow.look.system import System

START_TIMEOUT_S = 900.0
GRACE_S = 3.0  # How long a server may take to end; one that is generating does not listen


class Launched(Started):
    """A server that runs until `stop`, or until this program is gone."""

    def __init__(self, guard: "subprocess.Popen[str]", folder: Path, url: str, words: tuple[str, ...]) -> None:
        super().__init__(guard, folder / "server.log")
        self.url, self.words = url, words
        self.pid = 0
        self.load_s = 0.0
        """From the start of its process until it answered."""

    def stop(self) -> None:
        """End the server and all that it started."""
        guard = self._process
        if guard.stdin and not guard.stdin.closed:
            guard.stdin.close()  # from here on the guard ends it, whatever happens to this process
        ended_within(guard, GRACE_S + 10.0)  # killed, the kernel ends the server
        if guard.stdout:
            guard.stdout.close()
        shutil.rmtree(self._folder, ignore_errors=True)


def launch(
    system: System,
    command: Command,
    settings: Mapping[str, int | str],
    *,
    timeout_s: float = START_TIMEOUT_S,
    waiting: Waiting = lambda _seconds: None,
) -> Launched:
    """Start a server with these settings on a free port of loopback; return once it answers with its model loaded."""
    file, port = found_file(command), free_port()
    words = on_loopback(with_settings(command.words, settings), port)
    # This program's own, with the variables of the command, without those that would set the same again
    away = variables_of(command.words, {**settings, "host": "", "port": ""})
    environment = {name: value for name, value in {**os.environ, **command.variables}.items() if name not in away}
    program, at = program_of(words)
    own = parse_settings(words[at:], environment) if program.name == "llama.cpp" else {}
    if "certificate" in own:
        raise UserError("the command serves with a certificate, which is of no use on loopback", "leave it out")
    prefix = own.get("api_prefix", UNSET).value.strip("/")
    url = f"http://{LOOPBACK}:{port}" + (f"/{prefix}" if prefix else "")
    folder = Path(tempfile.mkdtemp(prefix="unslow-server-"))
    guard = _guarded([file, *words[1:]], environment, folder / "server.log")
    server = Launched(guard, folder, url, tuple(words))
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
    """A port of loopback that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        return int(probe.getsockname()[1])


def _guarded(words: list[str], environment: Mapping[str, str], log: Path) -> "subprocess.Popen[str]":
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


def _wait(system: System, server: Launched, health: str, timeout_s: float, waiting: Waiting) -> None:
    for seconds in silent_for(system, lambda: server.url + health):
        said = read_last_words(system, server.log_path) if server.ended or seconds > timeout_s else ""
        if server.ended:
            hint = f"does `{Path(server.words[0]).name}` start in a terminal with the same arguments?"
            raise UserError(f"the server ended before it answered: {said}", hint)
        if seconds > timeout_s:
            raise UserError(f"the server did not answer within {seconds:.0f} s; its log ends with: {said}")
        waiting(seconds)
