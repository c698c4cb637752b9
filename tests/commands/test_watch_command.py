"""`unslow watch` from its arguments to its exit status, against a replayed server on loopback."""

import json
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest

from unslow.commands._dispatch import dispatch

PROPS = {"total_slots": 1, "model_path": "/models/tiny.gguf", "default_generation_settings": {"n_ctx": 2048}}


class Handler(BaseHTTPRequestHandler):
    """A llama-server at work: every look at its slots finds ten more tokens."""

    def do_GET(self) -> None:
        server = self.server
        server.asked.append(("GET", self.path))
        if self.path == "/slots":
            server.tokens += 10
        slot = {"id": 0, "is_processing": True, "id_task": 1, "next_token": [{"n_decoded": server.tokens}]}
        known = {"/health": {"status": "ok"}, "/props": PROPS, "/slots": [slot]}
        known["/v1/models"] = {"data": [{"id": "tiny", "meta": {"n_params": 1000}, "owned_by": "llamacpp"}]}
        body = json.dumps(known.get(self.path, {})).encode()
        self.send_response(200 if self.path in known else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        self.server.asked.append(("POST", self.path))
        self.send_error(500)

    def log_message(self, *_words: object) -> None:
        """Quiet."""


@pytest.fixture
def server() -> Iterator[ThreadingHTTPServer]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        http.tokens, http.asked = 0, []
        thread = Thread(target=http.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield http
        http.shutdown()
        thread.join()


def test_json_prints_one_line_per_tick_and_sends_no_prompt(server, capsys):
    words = ["watch", f"127.0.0.1:{server.server_port}", "--json", "--once", "--interval", "0.2"]
    assert dispatch(words) == 0
    (line,) = capsys.readouterr().out.splitlines()
    tick = json.loads(line)
    assert tick["schema"] == "unslow.watch/1"
    assert tick["speed"]["tokens_per_s"] > 0
    assert tick["phases"]["now"] == "decode"
    assert {method for method, _ in server.asked} == {"GET"}, "no prompt is sent"


def test_piped_output_prints_a_line_per_interval(server, capsys):
    words = ["watch", f"127.0.0.1:{server.server_port}", "--seconds", "0.9", "--interval", "0.3"]
    assert dispatch(words) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("watching ")
    assert sum(" decode, " in line for line in lines) >= 2


def test_unreachable_server_exits_2(capsys):
    assert dispatch(["watch", "127.0.0.1:1"]) == 2
    assert "nothing listens there" in capsys.readouterr().err


def test_invalid_interval_is_refused(capsys, wording):
    assert dispatch(["watch", "--interval", "0"]) == 2
    wording(capsys.readouterr().err, tells=("--interval", "0.2", "3,600"))
