"""`unslow fleet` from its arguments to its exit status."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import unquote_plus

import pytest
from real_prometheus import prometheus_program

from unslow.commands._dispatch import dispatch

EMPTY = {"status": "success", "data": {"resultType": "vector", "result": []}}
SCALAR = {"status": "success", "data": {"resultType": "scalar", "result": [1_763_290_800.0, "1763290800"]}}


class Handler(BaseHTTPRequestHandler):
    """A Prometheus that knows the time and nothing else."""

    def do_POST(self) -> None:
        form = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
        body = json.dumps(SCALAR if "query=time" in form else self.known(unquote_plus(form))).encode()
        self.server.asked.append((self.path, dict(self.headers)))
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST  # noqa: N815 (so the base class calls it)

    def known(self, _form: str) -> dict[str, Any]:
        """What it answers."""
        return EMPTY

    def log_message(self, *words: object) -> None:
        """Nothing."""


@pytest.fixture
def empty() -> Iterator[ThreadingHTTPServer]:
    """A server without series."""
    with serving(Handler) as server:
        yield server


@contextmanager
def serving(handler: type[Handler]) -> Iterator[ThreadingHTTPServer]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.asked = []
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


class AbsurdHandler(Handler):
    """A Prometheus of one llama.cpp whose every figure is absurd; series have the marks that the query asks for."""

    value = "1e308"

    def known(self, form: str) -> dict[str, Any]:
        labels = {
            "__name__": "llamacpp:requests_processing",
            "job": "llama",
            "instance": "a:8080",
            "gpu": "0",
            "unslow_model": "m",
        }
        marks = dict.fromkeys(re.findall(r'"unslow_is", "([^"]*)"', form))
        values = {"engines": "1", "rest": "1"}  # which metrics there are: else nothing more would be asked
        result = [
            {"metric": {**labels, "unslow_is": mark}, "value": [1_763_290_800.0, values.get(mark, self.value)]}
            for mark in marks
        ]
        return {"status": "success", "data": {"resultType": "vector", "result": result}}


@pytest.mark.parametrize("value", ["1e308", "9" * 300, "1e19", "NaN", "+Inf", "1e-320", "3"])
def test_absurd_metric_values_are_not_printed(value, capsys):
    handler = type("Absurd", (AbsurdHandler,), {"value": value})
    with serving(handler) as server:
        dispatch(["fleet", "--prometheus", url_of(server), "-q", "--all"])
    out, err = capsys.readouterr()
    assert "1 instance" in out or value != "3"
    assert not re.findall(r"(?i)\b(?:inf|nan)\b.*|\d{22,}|(?:\d{1,3},){7,}\d*|Traceback", out + err)


def url_of(server: ThreadingHTTPServer) -> str:
    return f"http://127.0.0.1:{server.server_address[1]}"


def test_empty_fleet_exits_3(empty, capsys):
    assert dispatch(["fleet", "--prometheus", url_of(empty), "--header", "X-Scope-OrgID: team-a"]) == 3
    out, err = capsys.readouterr()
    assert "series of a supported runtime" in out
    assert f"querying {url_of(empty)}" in err
    assert "0 instances" in err
    assert all(headers["X-Scope-OrgID"] == "team-a" for _, headers in empty.asked)


def test_url_comes_from_the_environment_and_exit_zero_exits_0(empty, monkeypatch, tmp_path: Path, capsys):
    monkeypatch.setenv("UNSLOW_PROMETHEUS_URL", url_of(empty))
    file = tmp_path / "fleet.json"
    assert dispatch(["fleet", "--json", "-o", str(file), "--exit-zero", "-q"]) == 0
    out, err = capsys.readouterr()
    assert (out, err) == ("", "")
    report = json.loads(file.read_text())
    assert report["schema"] == "unslow.fleet/1"
    assert report["prometheus"] == url_of(empty)
    assert report["queries"] == len(empty.asked)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "no Prometheus given"),
        (["--prometheus", "ftp://x"], "not an http://"),
        (["--prometheus", "http://127.0.0.1:9", "--window", "soon"], "--window must be a duration"),
        (["--prometheus", "http://127.0.0.1:9", "--format", "html"], "no format 'html'"),
        (["--prometheus", "http://127.0.0.1:9", "--top", "-1"], "--top must be at least 0 (got -1)"),
        (["--prometheus", "http://127.0.0.1:9", "--save", "x.json"], "--instance KEY"),
        (["--prometheus", "http://127.0.0.1:9", "--workers", "9999"], "--workers must be between 1 and 256 (got 9999)"),
        (["--prometheus", "http://127.0.0.1:9", "--match", 'cluster="a'], "cluster"),
        (["capacity", "--prometheus", "http://127.0.0.1:9", "--goal", "fast"], "--goal"),
        (["--prometheus", "http://127.0.0.1:9", "--first-token", "2s"], "`unslow fleet capacity` takes it"),
        (["capacity", "--prometheus", "http://127.0.0.1:9", "--instance", "a"], "--instance is not for"),
        (["dashboard", "--tests"], "`unslow fleet rules` takes it"),
        (["rules", "--json"], "rules have one format"),
    ],
)
def test_invalid_arguments_are_one_line_with_a_hint(words, said, capsys, monkeypatch):
    monkeypatch.delenv("UNSLOW_PROMETHEUS_URL", raising=False)
    assert dispatch(["fleet", *words]) == 2
    err = capsys.readouterr().err
    assert said in err
    assert "hint:" in err
    assert "Traceback" not in err


def test_unknown_instance_is_refused(empty, capsys):
    assert dispatch(["fleet", "--prometheus", url_of(empty), "--instance", "gpu-1", "-q"]) == 2
    assert "no instance 'gpu-1'" in capsys.readouterr().err


def test_queries_need_no_server(capsys, monkeypatch):
    monkeypatch.delenv("UNSLOW_PROMETHEUS_URL", raising=False)
    assert dispatch(["fleet", "queries", "--window", "1h"]) == 0
    assert "vllm:num_requests_running[3600s]" in capsys.readouterr().out


def test_rules_and_dashboard_are_written_to_files(tmp_path: Path, capsys):
    rules, dashboard = tmp_path / "rules.yml", tmp_path / "dashboard.json"
    assert dispatch(["fleet", "rules", "-o", str(rules)]) == 0
    assert dispatch(["fleet", "dashboard", "-o", str(dashboard)]) == 0
    assert capsys.readouterr().out == ""
    assert "groups:" in rules.read_text()
    assert json.loads(dashboard.read_text())["panels"]


@pytest.mark.real
def test_real_prometheus_shows_the_throttled_gpu(tmp_path: Path, capsys):
    from lab.fleet.bed import bed, fleet

    with bed(prometheus_program(), tmp_path, fleet(["thermal"])) as running:
        url = running.prometheus.url
        base = ["fleet", "--prometheus", url, "--window", "60s", "--compare", "none", "-q"]
        running.prometheus.wait_until("count_over_time(up[1h]) > 8", 10)
        assert dispatch([*base, "--json"]) == 1
        report = json.loads(capsys.readouterr().out)
        slow = [one for one in report["instances"] if one["verdict"] == "slow"]
        assert [one["findings"][0]["cause"] for one in slow] == ["gpu_thermal_throttling"]
        file = tmp_path / "one.json"
        assert dispatch([*base, "--instance", slow[0]["key"], "--save", str(file)]) == 1
        assert "throttled by heat" in capsys.readouterr().out
    assert dispatch(["diagnose", str(file)]) == 1
    assert "throttled by heat" in capsys.readouterr().out
