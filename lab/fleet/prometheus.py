"""A real Prometheus on loopback, with a configuration and a folder of its own."""

import contextlib
import json
import shutil
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lab.fleet.instance import Target
from lab.fleet.processes import free_port, running, wait_for

SCRAPE_S = 1.0
RECEIVES = ("--web.enable-remote-write-receiver",)
"""The flag with which it takes series that are sent to it."""
_REQUESTS, _QUESTION = "prometheus_http_requests_total", 'handler="/api/v1/query'


class Scrape(NamedTuple):
    """An address, the path there, and the labels that are added."""

    address: str
    path: str
    labels: dict[str, str]
    """`job` and `instance` among them."""
    honor_labels: bool = False


class Prometheus(NamedTuple):
    """A server that runs."""

    url: str
    pid: int
    folder: Path

    def ask(self, query: str, at_s: float | None = None) -> list[dict[str, Any]]:
        """The series of an instant query."""
        given = {"query": query} | ({"time": str(at_s)} if at_s is not None else {})
        address = f"{self.url}/api/v1/query?{urllib.parse.urlencode(given)}"
        with urllib.request.urlopen(address, timeout=60) as answer:
            return list(json.load(answer)["data"]["result"])

    def counted(self) -> int:
        """How many questions of any kind it was asked, by its own metrics."""
        with urllib.request.urlopen(f"{self.url}/metrics", timeout=60) as answer:
            text = answer.read().decode()
        asked = [line for line in text.splitlines() if line.startswith(_REQUESTS) and _QUESTION in line]
        return round(sum(float(line.rpartition(" ")[2]) for line in asked))

    def wait_until(self, query: str, number: int, seconds: float = 60.0) -> None:
        """Until so many series answer; RuntimeError where they never do."""
        until = time.monotonic() + seconds
        found = 0
        while time.monotonic() < until:
            if (found := len(self.ask(query))) >= number:
                return
            time.sleep(0.2)
        raise RuntimeError(f"{query}: {found} series of {number}")


def program() -> Path:
    """The server of this machine; LookupError where there is none."""
    found = shutil.which("prometheus")
    if not found:
        raise LookupError("there is no prometheus: apt install prometheus")
    return Path(found)


def replayed_scrapes(address: str, targets: Sequence[Target]) -> list[Scrape]:
    """Those of targets that are served at one address, in their order."""
    return [Scrape(address, f"/{n}/metrics", t.labels, t.honor_labels) for n, t in enumerate(targets)]


def configuration(scrapes: Sequence[Scrape], rules: Path | None = None) -> dict[str, Any]:
    """What Prometheus reads (JSON is YAML): one job for each, with labels as a discovery would add them."""
    return {
        "rule_files": [str(rules)] if rules else [],
        "global": {"scrape_interval": f"{SCRAPE_S:g}s", "scrape_timeout": f"{SCRAPE_S:g}s"},
        "scrape_configs": [_job(place, scrape) for place, scrape in enumerate(scrapes)],
    }


def _job(place: int, scrape: Scrape) -> dict[str, Any]:
    kept = {name: value for name, value in scrape.labels.items() if name != "job"}
    return {
        "job_name": f"{scrape.labels['job']}-{place}",
        "metrics_path": scrape.path,
        "honor_labels": scrape.honor_labels,
        "static_configs": [{"targets": [scrape.address], "labels": kept}],
        "relabel_configs": [{"target_label": "job", "replacement": scrape.labels["job"]}],
    }


@contextlib.contextmanager
def started(
    server: Path,
    folder: Path,
    scrapes: Sequence[Scrape] = (),
    data: Path | None = None,
    flags: Sequence[str] = (),
    rules: Path | None = None,
) -> Iterator[Prometheus]:
    """The server, ready; ended in the end."""
    folder.mkdir(parents=True, exist_ok=True)
    file, log, port = folder / "prometheus.yml", folder / "prometheus.log", free_port()
    file.write_text(json.dumps(configuration(scrapes, rules)), encoding="utf-8")
    url = f"http://127.0.0.1:{port}"
    command = [
        str(server), f"--config.file={file}", f"--storage.tsdb.path={data or folder / 'data'}",
        f"--web.listen-address=127.0.0.1:{port}", "--storage.tsdb.retention.time=10y", "--log.level=warn", *flags,
    ]  # fmt: skip
    with running(command, log) as process:
        wait_for(f"{url}/-/ready", process, log)
        yield Prometheus(url, process.pid, folder)
