"""The test bed: a real Prometheus over replayed instances, a real node exporter and real llama-servers under load.

python -m lab.fleet.bed --llama-server PROGRAM --model FILE    keeps one running, to look at by hand
"""

import argparse
import contextlib
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from lab.fleet.blocks import Span
from lab.fleet.capacity_load import level, llama_server
from lab.fleet.faults import FAULTS, with_fault
from lab.fleet.instance import Instance, Pod, targets
from lab.fleet.machines import H200, Gpu, Host
from lab.fleet.processes import end_well_when_told, free_port, running, wait_for, wait_until_interrupted
from lab.fleet.prometheus import RECEIVES, Prometheus, Scrape, program, replayed_scrapes, started
from lab.fleet.remote_write import send
from lab.fleet.served import Served, served
from lab.fleet.speeds import LLAMA_8B, healthy_engine

PEERS = 4
"""Healthy instances beside those with a fault: enough of them to be compared with."""
USERS = 12
BEFORE_S = 2700.0
"""How long ago the time is that `sent_bed` can be compared with: the head of a Prometheus takes no more."""


class Real(NamedTuple):
    """Programs that are really started."""

    node_exporter: Path | None = None
    llama_server: Path | None = None
    llama_model: Path | None = None
    llama_servers: int = 2


class Bed(NamedTuple):
    """What runs."""

    prometheus: Prometheus
    served: Served
    instances: list[Instance]


def healthy(number: int) -> Instance:
    """A vLLM with Llama 8B on an H200 of its own, every other one in Kubernetes."""
    name = f"gpu-{number:02d}"
    gpus = (Gpu(H200),)
    pod = Pod("llm", f"llama-8b-{number:02d}") if number % 2 else None
    noise = 0.97 + 0.02 * (number % 4)
    return Instance(name, healthy_engine(LLAMA_8B, gpus, USERS, noise=noise), gpus, Host(name), pod)


def fleet(faults: Sequence[str]) -> list[Instance]:
    """A few healthy instances, and one for each fault."""
    return [with_fault(healthy(place), fault) for place, fault in enumerate([*[""] * PEERS, *faults])]


@contextlib.contextmanager
def bed(
    server: Path, folder: Path, instances: list[Instance], real: Real | None = None, rules: Path | None = None
) -> Iterator[Bed]:
    """Everything started, every target scraped at least twice; everything ended in the end."""
    shown = list(targets(instances))
    with contextlib.ExitStack() as stack:
        replayed = stack.enter_context(served(shown))
        scrapes = [*replayed_scrapes(replayed.address, shown), *_real(real or Real(), folder, stack)]
        prometheus = stack.enter_context(started(server, folder, scrapes, rules=rules))
        prometheus.wait_until("count_over_time(up[1h]) > 1", len(scrapes))
        yield Bed(prometheus, replayed, instances)


@contextlib.contextmanager
def sent_bed(
    server: Path, folder: Path, instances: list[Instance], before: list[Instance] | None = None
) -> Iterator[Prometheus]:
    """A Prometheus that was sent the last quarter of an hour of these, and what was there three quarters ago."""
    now_s = time.time()
    with started(server, folder, flags=RECEIVES) as prometheus:
        for shown, ago_s in ((before or [], BEFORE_S), (instances, 0.0)):
            send(prometheus.url, targets(shown), Span(now_s - ago_s - 1000, now_s - ago_s + 60, 15.0))
        yield prometheus


def _real(real: Real, folder: Path, stack: contextlib.ExitStack) -> Iterator[Scrape]:
    """The targets that are no replay, with this machine's name."""
    host = socket.gethostname()
    if real.node_exporter:
        address = stack.enter_context(_node_exporter(real.node_exporter, folder))
        yield Scrape(address, "/metrics", {"job": "node", "instance": f"{host}:9100"})
    if real.llama_server and real.llama_model:
        for number in range(real.llama_servers):
            own = folder / f"llama-{number}"
            own.mkdir()
            address = stack.enter_context(llama_server(real.llama_server, real.llama_model, 2, 1, own))
            stack.enter_context(_asked(address))
            labels = {"instance": f"{host}:{8080 + number}", "model": real.llama_model.stem}
            yield Scrape(address, "/metrics", {"job": "llama-server", **labels})


@contextlib.contextmanager
def _node_exporter(exporter: Path, folder: Path) -> Iterator[str]:
    address, log = f"127.0.0.1:{free_port()}", folder / "node_exporter.log"
    with running([str(exporter), f"--web.listen-address={address}"], log) as process:
        wait_for(f"http://{address}/metrics", process, log)
        yield address


@contextlib.contextmanager
def _asked(address: str) -> Iterator[None]:
    """Somebody who asks a server again and again, one request at a time."""
    stop = threading.Event()

    def ask() -> None:
        while not stop.is_set():
            level(address, 1, 0.5)

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def main() -> int:
    """Keep a bed with every fault until it is interrupted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--llama-server", type=Path)
    parser.add_argument("--model", type=Path)
    parser.add_argument("--node-exporter", type=Path)
    given = parser.parse_args()
    end_well_when_told()
    real = Real(given.node_exporter, given.llama_server, given.model)
    with tempfile.TemporaryDirectory() as folder, bed(program(), Path(folder), fleet(list(FAULTS)), real) as one:
        print(f"unslow fleet --prometheus {one.prometheus.url} --window 1m --compare none", flush=True)
        wait_until_interrupted()
    return 0


if __name__ == "__main__":
    sys.exit(main())
