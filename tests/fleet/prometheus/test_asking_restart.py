"""A real Prometheus that scrapes itself, is ended and started again while it is asked."""

import json
import time
from contextlib import ExitStack
from pathlib import Path
from threading import Thread

import pytest
from lab.fleet import prometheus as server
from lab.fleet.processes import end, free_port, running, wait_for
from real_prometheus import prometheus_program

from unslow.fleet.prometheus.client import Prometheus
from unslow.fleet.prometheus.connection import Access

pytestmark = pytest.mark.real
AWAY_S = 1.0


def test_server_restart_is_retried_without_losing_series(tmp_path: Path):
    address, said = f"127.0.0.1:{free_port()}", list[str]()
    url, log, file = f"http://{address}", tmp_path / "log", tmp_path / "prometheus.yml"
    itself = server.Scrape(address, "/metrics", {"job": "itself", "instance": address})
    file.write_text(json.dumps(server.configuration([itself])))
    folder = f"--storage.tsdb.path={tmp_path / 'data'}"
    command = [str(prometheus_program()), f"--config.file={file}", folder, f"--web.listen-address={address}"]
    with ExitStack() as stack:
        first = stack.enter_context(running(command, log))
        wait_for(f"{url}/-/ready", first, log)
        server.Prometheus(url, first.pid, tmp_path).wait_until('{job="itself"}', 100)

        def restart() -> None:
            end(first)
            time.sleep(AWAY_S)
            stack.enter_context(running(command, tmp_path / "log2"))

        with Prometheus(Access(url=url), said.append) as prometheus:
            before = {frozenset(one.labels.items()) for one in prometheus.instant('{job="itself"}').series}
            assert len(before) > 100
            restarting = Thread(target=restart)
            restarting.start()
            while restarting.is_alive():
                assert [one.value for one in prometheus.instant("up").series] == [1.0]
            restarting.join()
            after = {frozenset(one.labels.items()) for one in prometheus.instant('{job="itself"}').series}
            assert after == before
            assert prometheus.statements() == ()
    assert any("retrying" in text for text in said)
