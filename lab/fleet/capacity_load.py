"""Users who ask a real llama-server without a pause, so many at once, level by level."""

import contextlib
import json
import statistics
import threading
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from lab.fleet.processes import free_port, running, wait_for

ANSWER_TOKENS = 32
"""Short, so that a window of a few seconds sees some end: llama-server counts the tokens of a request when it ends."""
CONTEXT_EACH = 512
_WAIT_S = 120.0


class Level(NamedTuple):
    """So many users over a time by the clock, and what they saw themselves."""

    users: int
    start_s: float
    end_s: float
    tokens_per_s: float
    """Of one request while its answer came, by the server's timing in the answer: the median."""
    requests: int


@contextlib.contextmanager
def llama_server(program: Path, model: Path, places: int, threads: int, folder: Path) -> Iterator[str]:
    """The host and port of a server that has loaded its model; ended in the end."""
    port, log = free_port(), folder / "llama-server.log"
    command = [
        str(program), "-m", str(model), "--host", "127.0.0.1", "--port", str(port), "--metrics",
        "-np", str(places), "-c", str(CONTEXT_EACH * places), "-t", str(threads), "-tb", str(threads),
    ]  # fmt: skip
    with running(command, log) as process:
        wait_for(f"http://127.0.0.1:{port}/health", process, log)
        yield f"127.0.0.1:{port}"


def level(address: str, users: int, seconds: float) -> Level:
    """So many users, each of whom asks again as soon as it was answered."""
    speeds: list[float] = []
    start = time.time()
    threads = [threading.Thread(target=_user, args=(address, n, start + seconds, speeds)) for n in range(users)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return Level(users, start, start + seconds, statistics.median(speeds), len(speeds))


def _user(address: str, number: int, end_s: float, speeds: list[float]) -> None:
    asked = 0
    while time.time() < end_s:
        asked += 1
        question = {"prompt": f"User {number} asks {asked}: tell a story of", "n_predict": ANSWER_TOKENS}
        body = json.dumps({**question, "ignore_eos": True, "cache_prompt": False}).encode()
        request = urllib.request.Request(f"http://{address}/completion", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=_WAIT_S) as answer:
            speeds.append(float(json.load(answer)["timings"]["predicted_per_second"]))
