"""Programs that are started for a while and ended by their own process ids, whatever happens in between."""

import contextlib
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path

_END_S = 10.0
_SHOWN = 2000


def free_port() -> int:
    """One that nobody listens at on loopback, now."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@contextlib.contextmanager
def running(command: Sequence[str], log: Path, folder: Path | None = None) -> Iterator["subprocess.Popen[bytes]"]:
    """The program with its output in a file; ended in the end."""
    with log.open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, cwd=folder)
        try:
            yield process
        finally:
            end(process)


def end_well_when_told() -> None:
    """Let a signal to end unwind the program, so that whatever it started ends with it."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))


def wait_until_interrupted() -> None:
    """Until somebody ends it by hand."""
    with contextlib.suppress(KeyboardInterrupt):
        while True:
            time.sleep(1)


def end(process: "subprocess.Popen[bytes]") -> None:
    """Ask it to stop, and make it where it does not."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(_END_S)
        except subprocess.TimeoutExpired:
            process.kill()
    process.wait()


def wait_for(url: str, process: "subprocess.Popen[bytes]", log: Path, seconds: float = 60.0) -> None:
    """Until it answers there; RuntimeError with the end of its log where it ended or never does."""
    until = time.monotonic() + seconds
    while time.monotonic() < until and process.poll() is None:
        if answers(url):
            return
        time.sleep(0.05)
    said = log.read_text(encoding="utf-8", errors="replace")[-_SHOWN:]
    raise RuntimeError(f"{process.args!r} does not answer at {url}: {said}")


def answers(url: str) -> bool:
    """Whether somebody says yes there."""
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False
