"""A real llama-server that is killed and started again."""

import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from typing import IO

START_TIMEOUT_S = 120.0


class Killable:
    """One server on one port; every start is another process."""

    def __init__(self, server: str, model: str, threads: int, port: int, log: IO[bytes]) -> None:
        self._command = [
            server, "-m", model, "-t", str(threads), "-tb", str(threads), "-c", "2048", "-np", "1",
            "--host", "127.0.0.1", "--port", str(port), "--no-webui",
        ]  # fmt: skip
        self.port, self._log = port, log
        self._process: subprocess.Popen[bytes] | None = None
        self.kills: list[tuple[float, float]] = []
        self._over = False

    @property
    def pid(self) -> int:
        """Of the process that runs now; 0 where none does."""
        return self._process.pid if self._process else 0

    def start(self) -> None:
        """Start it, and wait until it has loaded its model."""
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.DEVNULL, stdout=self._log, stderr=subprocess.STDOUT
        )
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{self._command[0]} did not start; its log says why")
            time.sleep(0.1)

    def kill(self) -> None:
        """End it at once; one that generates would not listen to anything else."""
        if self._process is not None:
            os.kill(self._process.pid, signal.SIGKILL)
            self._process.wait()

    def kill_for(self, seconds: float) -> None:
        """Be dead for so long, then start again."""
        since = time.monotonic()
        self.kill()
        time.sleep(seconds)
        if not self._over:
            self.start()
            self.kills.append((since, time.monotonic()))

    def end(self) -> None:
        """Kill it for good."""
        self._over = True
        self.kill()

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=2) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False


def free_port(first: int) -> int:
    """The first port from there on that nobody uses."""
    for port in range(first, first + 50):
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)):
                return port
    raise RuntimeError(f"no free port from {first} on")
