"""What `unslow exporter` costs beside a real llama-server, by its own metrics.

python -m lab.exporter_cpu --server llama-server --model model.gguf [--write docs/how_to/exporter.md]

It starts the server and the exporter on loopback, lets it settle, and reads how much processor time the exporter has
used at the start and at the end of each stretch: the server idle, one request after another, the server gone. It is
scraped every fifteen seconds meanwhile, as a Prometheus does. Exit status 1: over the limit.
"""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from contextlib import ExitStack, suppress
from pathlib import Path

from lab.watch_cpu import ended, started_server

LIMIT = 0.02
"""Of one core."""
SCRAPE_S = 15.0
WARM_S = 25.0
"""Two looks: by then all that is needed was imported."""
_BLOCK = re.compile(r"(<!-- cost: written by lab/exporter_cpu.py -->\n).*?(<!-- /cost -->)", re.DOTALL)


def main() -> int:
    """Run, print the table, judge."""
    asked = _parser().parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(2))  # what was started here ends with it
    with ExitStack() as closing:
        url, server = started_server(asked.server, asked.model, closing)
        words = [sys.executable, "-m", "unslow", "exporter", url, "--listen", "127.0.0.1:0", "--json"]
        exporter = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        closing.callback(ended, exporter)
        metrics = str(json.loads(exporter.stdout.readline() if exporter.stdout else b"{}")["url"])
        time.sleep(WARM_S)
        costs = {"the server is idle": share_of(metrics, asked.each)}
        with Load(url):
            costs["it answers one request after another"] = share_of(metrics, asked.each)
        ended(server)
        costs["the server is gone"] = share_of(metrics, asked.each)
        resident = sample(metrics, "process_resident_memory_bytes")
    table = shown(costs, resident)
    print(table)
    if asked.write:
        written(asked.write, table)
    return int(max(costs.values()) > LIMIT)


class Load:
    """Requests one after the other, in a thread, until the end of the block."""

    def __init__(self, url: str) -> None:
        self._url, self._over = url, threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> None:
        """Begin."""
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        """End, with the last answer."""
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        body = json.dumps({"prompt": "A long story about the sea:", "n_predict": 128, "ignore_eos": True}).encode()
        while not self._over.is_set():
            asked = urllib.request.Request(f"{self._url}/completion", body, {"Content-Type": "application/json"})
            with suppress(urllib.error.URLError):
                urllib.request.urlopen(asked, timeout=120).read()


def sample(metrics: str, name: str) -> float:
    """The value of a metric without labels."""
    with urllib.request.urlopen(metrics, timeout=10) as answer:
        text = answer.read().decode()
    return next(float(line.split()[1]) for line in text.splitlines() if line.startswith(f"{name} "))


def share_of(metrics: str, seconds: float) -> float:
    """Of one core, over so many seconds with a scrape now and then."""
    begun_s, before = time.monotonic(), sample(metrics, "process_cpu_seconds_total")
    while time.monotonic() - begun_s < seconds:
        time.sleep(SCRAPE_S)
        after = sample(metrics, "process_cpu_seconds_total")
    return (after - before) / (time.monotonic() - begun_s)


def shown(costs: dict[str, float], resident: float) -> str:
    """The table of the page."""
    rows = "".join(f"| {state} | {share:.1%} |\n" for state, share in costs.items())
    where = f"{os.cpu_count()} processors that others use as well, {time.strftime('%Y-%m-%d', time.gmtime())}"
    return (
        f"| while | of one core |\n|---|---|\n{rows}\nMeasured on {where}, with a look every minute and a scrape every "
        f"{SCRAPE_S:.0f} seconds. It held {resident / 2**20:.0f} MiB of memory.\n"
    )


def written(path: Path, table: str) -> None:
    """Put the table into its block of a page."""
    page = path.read_text("utf-8")
    if not _BLOCK.search(page):
        raise SystemExit(f"{path} has no block for it")
    path.write_text(_BLOCK.sub(lambda block: f"{block[1]}{table}{block[2]}", page), "utf-8")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m lab.exporter_cpu", description=__doc__)
    parser.add_argument("--server", required=True, help="a llama-server")
    parser.add_argument("--model", required=True, help="a GGUF file")
    parser.add_argument("--each", type=float, default=180.0, help="seconds of each stretch")
    parser.add_argument("--write", type=Path, help="a page with a block for the table")
    return parser


if __name__ == "__main__":
    sys.exit(main())
