"""Stands between this program and a server that it started: when the one is gone, however it went, the other goes too.

    python -m unslow.look.launch.guard LOG GRACE_S PROGRAM [ARGUMENT ...]

It prints the server's process id. When its input ends, it asks the server to end, after a while makes it, and then ends
whatever the server has started and left behind. A server that ends by itself ends the guard.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from threading import Event, Thread

COULD_NOT_START = 127
_MOST_ROUNDS = 100
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36  # linux/prctl.h
_SIGKILL = 9  # of every POSIX system; Windows has no name for it


def main(arguments: Sequence[str]) -> None:
    """Start the server and stay until it, or the one who asked for it, is gone."""
    log, grace_s, *command = arguments
    signal.signal(signal.SIGINT, lambda *_: None)  # Ctrl-C is for the one who asked; the end of the input follows
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    if sys.platform == "linux":
        # orphans of the server become children of the guard, wherever they hide
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    server = _start_server(command, log)
    sys.stdout.write(f"{server.pid}\n")
    sys.stdout.flush()
    leaving = Event()
    Thread(target=_follow, args=(server, leaving), daemon=True).start()
    with contextlib.suppress(SystemExit):
        sys.stdin.buffer.read()
    leaving.set()
    _signal(server, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        server.wait(float(grace_s))
    _signal(server, _SIGKILL)
    server.wait()
    _end_rest(server.pid)
    # Remove the log and its folder: the one who asked may not be there any more to do it
    with contextlib.suppress(OSError):
        Path(log).unlink(missing_ok=True)
        Path(log).parent.rmdir()
    os._exit(0)


def _start_server(command: Sequence[str], log: str) -> "subprocess.Popen[bytes]":
    end_with_parent = None
    if sys.platform == "linux":  # what the server does before it becomes itself: should the guard be killed, it ends
        libc = ctypes.CDLL(None)
        end_with_parent = lambda: libc.prctl(_PR_SET_PDEATHSIG, _SIGKILL, 0, 0, 0)  # noqa: E731
    with open(log, "ab") as output:
        try:
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=sys.platform != "win32",
                preexec_fn=end_with_parent,  # noqa: PLW1509 (no thread has started yet)
            )
        except OSError as error:
            output.write(f"{command[0]}: {error.strerror or error}\n".encode())
            sys.exit(COULD_NOT_START)


def _follow(server: "subprocess.Popen[bytes]", leaving: Event) -> None:
    status = server.wait()
    if not leaving.is_set():
        _end_rest(server.pid)
        os._exit(status if status >= 0 else 128 - status)


def _signal(server: "subprocess.Popen[bytes]", number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if sys.platform != "win32":
            os.killpg(server.pid, number)
        elif server.poll() is None:
            server.kill()


def _end_rest(group: int) -> None:
    """End what the server has left behind: the rest of its group, and what has come to the guard as an orphan."""
    if sys.platform == "win32":
        return
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, _SIGKILL)
    for _ in range(_MOST_ROUNDS):  # each of them may leave orphans of its own
        children: list[int] = []
        with contextlib.suppress(OSError):  # none where the kernel does not list them
            for task in os.listdir("/proc/self/task"):
                with open(f"/proc/self/task/{task}/children", encoding="ascii") as file:
                    children += [int(word) for word in file.read().split()]
        if not children:
            return
        for pid in children:
            with contextlib.suppress(OSError):
                os.kill(pid, _SIGKILL)
                os.waitpid(pid, 0)


if __name__ == "__main__":
    main(sys.argv[1:])
