"""A real `unslow serve`: a process of its own, asked as any program would ask it."""

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlencode

TESTS = Path(__file__).parents[2]
MACHINE = str(TESTS / "machines" / "h200_llama_server_gpu_layers_set_too_low")
BENCHES = tuple(str(TESTS / "benches" / f"h200_{name}.json") for name in ("slope", "users", "timeline"))
PROOF = str(TESTS.parent / "lab" / "data" / "plan_gpu_whole" / "verify.json")
SHOWN = (MACHINE, *(word for path in BENCHES for word in ("--bench", path)), "--verify", PROOF)
"""A recorded machine with every picture that there is."""


class Served(NamedTuple):
    """Where the page is."""

    url: str
    base: str
    port: int
    token: str

    def get(self, path: str, **query: str) -> Any:
        """An answer of the API."""
        address = f"{self.base}/api/v1/{path}?{urlencode(query)}"
        request = urllib.request.Request(address, headers={"X-Unslow-Token": self.token})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)


@contextmanager
def served(*words: str, data: Path, **environment: str) -> Iterator[Served]:
    """One that runs until the end of the block; it must end well, and have complained of nothing."""
    command = [sys.executable, "-m", "unslow", "serve", *words, *(() if "BROWSER" in environment else ("--no-open",))]
    whole = {**os.environ, "UNSLOW_DATA_DIR": str(data), **environment}
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=whole) as process:
        try:
            yield _told(process.stdout.readline())
        finally:
            process.send_signal(signal.SIGINT)
            try:
                _, complained = process.communicate(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
    assert (process.returncode, complained) == (0, "")


def _told(line: str) -> Served:
    """The address as a person reads it in the terminal."""
    found = re.search(r"(http://127\.0\.0\.1:(\d+))/\?token=(\S+)", line)
    assert found, line
    return Served(found[0], found[1], int(found[2]), found[3])
