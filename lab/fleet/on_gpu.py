"""Real llama-servers on a real GPU, scraped by a real Prometheus, judged as a fleet: each fault once, and none.

python -m lab.fleet.on_gpu --server llama-server --model FILE.gguf --named llama-3.1-8b --out FOLDER [--seconds 60]

For each case a folder of its own holds every sample that was scraped (`samples.om.gz`, to judge again), what
`unslow fleet` says (text and JSON), and the last metrics of `unslow exporter`.
"""

import argparse
import contextlib
import gzip
import os
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from lab.faults.fault import SkippedError
from lab.faults.strangers import stranger
from lab.fleet.capacity_load import level
from lab.fleet.live_gpu import live_gpu_exporter
from lab.fleet.processes import free_port, running, wait_for
from lab.fleet.prometheus import Prometheus, Scrape, program, started
from lab.fleet.raw_samples import raw_samples

HOST = "gpu-box"
MINE = [sys.executable, "-m", "unslow"]


class Setup(NamedTuple):
    """How the server is started, who else is on the GPU, and how many ask."""

    flags: tuple[str, ...] = ()
    leave_gib: float = 0.0
    works: bool = False
    """Whether somebody else computes on the GPU meanwhile."""
    users: int = 4
    places: int = 4


SETUPS = {
    "healthy": Setup(),
    "one_user": Setup(users=1),
    "layers_on_cpu": Setup(("-ngl", "20"), users=1),
    "memory_taken": Setup(leave_gib=4.5, users=1),
    "gpu_shared": Setup(works=True, users=1),
    "queue": Setup(users=8, places=1),
}


def main() -> int:
    """One case after the other; what fails does not end the others."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--server", required=True, type=Path)
    parser.add_argument("--model", required=True, type=Path)
    parser.add_argument("--named", required=True, help="the label `model` of its target")
    parser.add_argument("--out", required=True, type=Path)
    parser.add_argument("--seconds", type=int, default=70, help="at least the smallest window, a minute")
    parser.add_argument("--case", action="append", choices=SETUPS, help="only these")
    given = parser.parse_args()
    for name in given.case or SETUPS:
        folder = given.out / name
        folder.mkdir(parents=True, exist_ok=True)
        try:
            perform(SETUPS[name], given, folder)
        except (OSError, RuntimeError, SkippedError) as error:
            print(f"{name}: {error}", flush=True)
    return 0


def perform(setup: Setup, given: argparse.Namespace, folder: Path) -> None:
    """Start everything, let it be asked and scraped, judge, keep the samples."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(_stranger(setup))
        server = stack.enter_context(_server(setup, given, folder))
        exporter = stack.enter_context(_exporter(server, folder))
        gpu = stack.enter_context(live_gpu_exporter(HOST))
        key = f"{HOST}:{server.rpartition(':')[2]}"
        labels = {"job": "llama-server", "instance": key, "model": given.named}
        scrapes = [
            Scrape(server, "/metrics", labels),
            Scrape(gpu, "/metrics", {"job": "dcgm", "instance": f"{HOST}:9400"}),
            Scrape(exporter, "/metrics", {"job": "unslow", "instance": f"{HOST}:9877"}),
        ]
        prometheus = stack.enter_context(started(program(), folder / "prometheus", scrapes))
        asking = threading.Thread(target=level, args=(server, setup.users, float(given.seconds)))
        asking.start()
        asking.join()
        _keep(prometheus, exporter, key, given.seconds, folder)


def _keep(prometheus: Prometheus, exporter: str, key: str, seconds: int, folder: Path) -> None:
    words = [*MINE, "fleet", "--prometheus", prometheus.url, "--window", f"{seconds}s", "--compare", "none", "-q"]
    for extra, name in ((["--json"], "fleet.json"), ([], "fleet.txt"), (["--instance", key], "one.txt")):
        done = subprocess.run([*words, *extra], capture_output=True, text=True, check=False)
        (folder / name).write_text(done.stdout + (done.stderr if done.returncode > 1 else ""), encoding="utf-8")
    print((folder / "fleet.txt").read_text(encoding="utf-8"), flush=True)
    with urllib.request.urlopen(f"http://{exporter}/metrics", timeout=10) as answer:
        (folder / "exporter.txt").write_bytes(answer.read())
    with gzip.open(folder / "samples.om.gz", "wt", encoding="utf-8") as out:
        out.writelines(raw_samples(prometheus, seconds + 10))


@contextlib.contextmanager
def _server(setup: Setup, given: argparse.Namespace, folder: Path) -> Iterator[str]:
    port, log = free_port(), folder / "server.log"
    command = [
        str(given.server), "-m", str(given.model), "--host", "127.0.0.1", "--port", str(port), "--metrics", "-lv", "4",
        "-np", str(setup.places), "-c", "16384", *setup.flags,
    ]  # fmt: skip
    with running(command, log) as process:
        wait_for(f"http://127.0.0.1:{port}/health", process, log, 180)
        yield f"127.0.0.1:{port}"


@contextlib.contextmanager
def _exporter(server: str, folder: Path) -> Iterator[str]:
    address, log = f"127.0.0.1:{free_port()}", folder / "exporter.log"
    command = [*MINE, "exporter", f"http://{server}", "--listen", address, "--every", "10s"]
    os.environ["XDG_DATA_HOME"] = str(folder / "data")
    with running(command, log) as process:
        wait_for(f"http://{address}/metrics", process, log)
        yield address


@contextlib.contextmanager
def _stranger(setup: Setup) -> Iterator[None]:
    if setup.leave_gib:
        with stranger("leave", setup.leave_gib, works=False):
            yield
    elif setup.works:
        with stranger("hold", 2.0, works=True):
            yield
    else:
        yield


if __name__ == "__main__":
    sys.exit(main())
