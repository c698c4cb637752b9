"""Real servers, started and ended, and what they need around them."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from lab.launch_lines.lines import Line

from unslow.facts.masking import key_headers
from unslow.facts.snapshot import Subject
from unslow.look.processes import Process, read_processes
from unslow.look.runtimes import llama_cpp
from unslow.look.system import LookError, System
from unslow.look.system.live import LiveSystem

PORT = 18733
KEY = "canary-key-of-a-test"
START_S = 120.0


class Started(NamedTuple):
    """A server that runs, and where it writes."""

    pid: int
    log: Path
    url: str


@contextmanager
def started(server: str, line: Line, model: str, folder: Path, extra: str = "") -> Iterator[Started]:
    """Start a line, wait until it answers, and end it."""
    log = folder / f"{line.name}.log"
    flags = line.flags.format(model=model, folder=folder).split()
    environment = {"PATH": os.environ["PATH"], "HOME": str(folder), **line.environment}
    with log.open("wb") as out:
        command = [server, *flags, "--port", str(PORT), *extra.split()]
        process = subprocess.Popen(command, stdout=out, stderr=out, env=environment, cwd=folder)
    prefix = "/llm" if "--api-prefix" in flags else ""
    try:
        _wait(process, f"http://127.0.0.1:{PORT}{prefix}", log)
        yield Started(process.pid, log, f"http://127.0.0.1:{PORT}{prefix}")
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def _wait(process: "subprocess.Popen[bytes]", url: str, log: Path) -> None:
    system, deadline = LiveSystem(), time.monotonic() + START_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            sys.exit(f"the server ended: {log.read_text()[-2000:]}")
        try:
            if system.request("GET", f"{url}/health", headers=key_headers(KEY)).status == 200:
                return
        except LookError:
            pass
        time.sleep(0.2)
    sys.exit(f"no answer in {START_S:.0f} s: {log.read_text()[-2000:]}")


def read_line(system: System, running: Started, line: Line, model: str) -> Subject:
    """What unslow sees of a started line; of a router, its first child."""
    if line.name.startswith("router"):
        load_in_router(running.url, Path(model).stem)
    mine = llama_cpp.find(_family(running.pid))
    process = Process(system, mine[0].pid, mine[0].name)
    return llama_cpp.read(process, "")[0]


def _family(pid: int) -> list[Process]:
    processes = read_processes(LiveSystem())
    return [p for p in processes if pid in (p.pid, p.parent_pid())]


def load_in_router(url: str, name: str) -> None:
    """Tell a router to load a model, and wait until it has."""
    system, deadline = LiveSystem(), time.monotonic() + START_S
    system.request("POST", f"{url}/models/load", {"model": name})
    while time.monotonic() < deadline:
        models = system.request("GET", f"{url}/models").json()["data"]
        if any(m["status"]["value"] == "loaded" for m in models):
            return
        time.sleep(0.2)
    sys.exit(f"the router did not load {name}")


def prepared(model: str) -> Path:
    """A folder with a key and a folder of models."""
    folder = Path(tempfile.mkdtemp(prefix="launch-lines-"))
    (folder / "keys").write_text(f"# a key that opens nothing\n{KEY}\n")
    (folder / "models").mkdir()
    (folder / "models" / Path(model).name).symlink_to(Path(model).resolve())
    return folder
