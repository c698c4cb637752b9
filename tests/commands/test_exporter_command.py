"""`unslow exporter` from its arguments to its end, against a replayed server and against the real programs."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as strict
from prometheus_client.parser import text_string_to_metric_families as plain
from real_prometheus import node_exporter, prometheus_program

from unslow.commands._dispatch import dispatch
from unslow.fleet import exporter

PROPS = {"total_slots": 1, "model_path": "/home/anna/tiny.gguf", "default_generation_settings": {"n_ctx": 2048}}


class Handler(BaseHTTPRequestHandler):
    """A llama-server at work: its answer grows by forty tokens a second."""

    def do_GET(self) -> None:
        server = self.server
        tokens = 1 + int(40 * (time.monotonic() - server.began_s))
        slot = {"id": 0, "is_processing": True, "id_task": 1, "next_token": [{"n_decoded": tokens}]}
        known = {"/health": {"status": "ok"}, "/props": PROPS, "/slots": [slot]}
        known["/v1/models"] = {"data": [{"id": "tiny", "meta": {"n_params": 1000}, "owned_by": "llamacpp"}]}
        body = json.dumps(known.get(self.path, {})).encode()
        self.send_response(200 if self.path in known else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        self.server.prompts += 1
        self.send_error(500)

    def log_message(self, *_words: object) -> None:
        """Quiet."""


@pytest.fixture
def server() -> Iterator[ThreadingHTTPServer]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        http.began_s, http.prompts = time.monotonic(), 0
        thread = Thread(target=http.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield http
        http.shutdown()
        thread.join()


def read(text: str, parse) -> dict[str, list]:
    found: dict[str, list] = {}
    for family in parse(text):
        for sample in family.samples:
            found.setdefault(sample.name, []).append(sample)
    return found


def test_once_writes_openmetrics_to_standard_output(server, capsys, monkeypatch):
    monkeypatch.setattr(exporter, "WATCH_S", 2.6)
    assert dispatch(["exporter", f"127.0.0.1:{server.server_port}", "--once", "-q"]) == 0
    text = capsys.readouterr().out
    assert text.endswith("# EOF\n")
    known = read(text, strict)
    assert known["unslow_subjects"][0].value == 1
    assert known["unslow_decode_tokens_per_second"][0].value == pytest.approx(40, rel=0.2)
    assert known["unslow_subject_info"][0].labels["subject"] == f"llama.cpp:{server.server_port}"
    assert "anna" not in text
    assert server.prompts == 0, "it only looks"


def test_once_writes_a_file_for_the_node_exporter(server, tmp_path, monkeypatch):
    monkeypatch.setattr(exporter, "WATCH_S", 0.1)
    path = tmp_path / "unslow.prom"
    assert dispatch(["exporter", f"127.0.0.1:{server.server_port}", "--once", "-q", "-o", str(path)]) == 0
    assert "# EOF" not in path.read_text()
    assert read(path.read_text(), plain)["unslow_look_success"][0].value == 1
    assert [one.name for one in tmp_path.iterdir()] == ["unslow.prom"]


def test_failed_look_is_written_to_the_file(tmp_path, capsys):
    path = tmp_path / "unslow.prom"
    path.write_text("unslow_look_success 1\n")
    assert dispatch(["exporter", "127.0.0.1:1", "--once", "-q", "-o", str(path)]) == 2
    assert "nothing listens there" in capsys.readouterr().err
    known = read(path.read_text(), plain)
    assert (known["unslow_look_success"][0].value, "unslow_verdict" in known) == (0, False)


@contextmanager
def exporting(*words: str) -> Iterator[tuple[str, subprocess.Popen]]:
    """The command as a program of its own, and the address of its metrics."""
    words = (sys.executable, "-m", "unslow", "exporter", *words, "--listen", "127.0.0.1:0", "--json")
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as program:
        try:
            yield json.loads(program.stdout.readline())["url"], program
        finally:
            program.kill()


def fetched(url: str, accept: str = "") -> str:
    asked = urllib.request.Request(url, headers={"Accept": accept} if accept else {})
    with urllib.request.urlopen(asked, timeout=10) as answer:
        return answer.read().decode()


def waited(url: str, wanted: str, seconds: float) -> str:
    end = time.monotonic() + seconds
    while wanted not in (text := fetched(url)) and time.monotonic() < end:
        time.sleep(0.1)
    return text


def test_exporter_serves_until_sigterm(server):
    with exporting(f"127.0.0.1:{server.server_port}", "--every", "10s") as (url, program):
        began_s = time.monotonic()
        first = fetched(url)
        assert time.monotonic() - began_s < 1, "a scrape waits for no look"
        assert "\nunslow_look_success " in first
        assert "\nunslow_verdict" in waited(url, "\nunslow_look_success 1\n", 30)
        program.send_signal(signal.SIGTERM)
        assert program.wait(10) == 0
        assert program.stderr.read() == ""
    assert server.prompts == 0


@pytest.mark.real
def test_real_prometheus_scrapes_the_exporter(server, tmp_path):
    with exporting(f"127.0.0.1:{server.server_port}", "--every", "10s") as (url, _program):
        target = url.removeprefix("http://").removesuffix("/metrics")
        jobs = {"job_name": "unslow", "scrape_interval": "1s", "static_configs": [{"targets": [target]}]}
        with scraping(tmp_path, jobs) as ask:
            verdicts = ask("unslow_verdict", 120)
            assert {one["metric"]["verdict"] for one in verdicts} == {"slow", "normal", "failed", "cannot_tell"}
            assert ask("unslow_decode_tokens_per_second", 120)
            assert ask('up{job="unslow"}', 5)[0]["value"][1] == "1"


@pytest.mark.real
def test_real_node_exporter_reads_the_file(server, tmp_path):
    assert dispatch(["exporter", f"127.0.0.1:{server.server_port}", "--once", "-q", "-o", f"{tmp_path}/u.prom"]) == 0
    port = free_port()
    words = [node_exporter(), f"--web.listen-address=127.0.0.1:{port}", "--collector.disable-defaults"]
    words += ["--collector.textfile", f"--collector.textfile.directory={tmp_path}"]
    with subprocess.Popen(words, stderr=subprocess.DEVNULL) as program:
        try:
            text = tried(lambda: fetched(f"http://127.0.0.1:{port}/metrics"))
        finally:
            program.kill()
    known = read(text, plain)
    assert known["node_textfile_scrape_error"][0].value == 0
    assert len(known["unslow_verdict"]) == 4


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return listener.getsockname()[1]


def tried(ask, seconds: float = 20):
    end = time.monotonic() + seconds
    while True:
        try:
            return ask()
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


@contextmanager
def scraping(folder: Path, job: dict) -> Iterator:
    port = free_port()
    (folder / "prometheus.yml").write_text(json.dumps({"scrape_configs": [job]}))
    words = [prometheus_program(), f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data"]
    words += [f"--web.listen-address=127.0.0.1:{port}", "--log.level=error"]
    with subprocess.Popen(words, stderr=subprocess.DEVNULL, env={**os.environ, "GOMAXPROCS": "1"}) as program:

        def ask(query: str, seconds: float) -> list:
            end, url = time.monotonic() + seconds, f"http://127.0.0.1:{port}/api/v1/query?query={query}"
            while True:
                found = json.loads(tried(lambda: fetched(url)))["data"]["result"]
                if found or time.monotonic() > end:
                    return found
                time.sleep(0.5)

        try:
            yield ask
        finally:
            program.kill()
