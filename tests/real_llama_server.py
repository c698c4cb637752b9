"""A real llama-server for the tests that need one; UNSLOW_LLAMA_SERVER names the program."""

import os
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from unslow.look.requests import Target
from unslow.look.system import LookError
from unslow.look.system.live import LiveSystem

SERVER = os.environ.get("UNSLOW_LLAMA_SERVER", "")
NEEDED = [pytest.mark.real, pytest.mark.skipif(not SERVER, reason="UNSLOW_LLAMA_SERVER names no llama-server")]


@contextmanager
def served(model: str, *arguments: str, key: str = "") -> Iterator[tuple[Target, subprocess.Popen]]:
    """One that answers, on a port of its own and with one thread, until the end of the block."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    command = [SERVER, "-m", model, "--port", str(port), "-t", "1", *arguments, *(("--api-key", key) if key else ())]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        url = f"http://127.0.0.1:{port}"
        try:
            _wait_for(url)
            yield Target(url, key, server.pid), server
        finally:
            server.kill()


def _wait_for(url: str) -> None:
    for _ in range(600):
        try:
            if LiveSystem().request("GET", f"{url}/health").status == 200:
                return
        except LookError:
            pass
        time.sleep(0.1)
    pytest.fail("the server did not come up")
