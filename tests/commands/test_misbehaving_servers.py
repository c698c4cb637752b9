"""Servers that work until they are measured."""

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from unslow.__main__ import main

ANSWERS = {
    "/health": {"status": "ok"},
    "/props": {
        "total_slots": 1,
        "model_path": "m.gguf",
        "build_info": "b10586-b21e4de",
        "default_generation_settings": {"n_ctx": 4096},
    },
    "/v1/models": {
        "data": [
            {"id": "m", "meta": {"n_params": 8_030_261_248, "size": 4_912_898_048, "n_embd": 4096, "n_vocab": 128_256}}
        ]
    },
    "/slots": [{"id": 0, "n_ctx": 4096, "is_processing": False}],
}


COUNTERS = (
    "prompt_tokens_total", "prompt_seconds_total", "tokens_predicted_total", "n_decode_total", "kv_cache_tokens",
    "predicted_tokens_seconds", "prompt_tokens_seconds", "n_busy_slots_per_decode", "requests_processing",
    "requests_deferred", "kv_cache_usage_ratio", "n_tokens_max",
)  # fmt: skip


class Handler(BaseHTTPRequestHandler):
    """A llama-server as far as its questions go; `completion` is how it fails when it should work."""

    completion = "mid_stream"
    metrics = ""

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        answer = ANSWERS.get(self.path)
        body = json.dumps(answer or {}) if self.path != "/metrics" else self.metrics
        self._send(200 if answer is not None or body == self.metrics != "" else 501, body.encode())

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        if self.completion == "mid_stream":
            self.send_response(200)
            self.send_header("Content-Length", "100000")
            self.end_headers()
            self.wfile.write(b'data: {"content": "a"}\n\n')
            self.close_connection = True
        elif self.completion == "refuses":
            self._send(500, b"no")
        else:
            self._send(200, b"data: <html>\n\n")

    def _send(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def server(how: str, metrics: str = "") -> Iterator[str]:
    handler = type("Failing", (Handler,), {"completion": how, "metrics": metrics})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as http:
        thread = threading.Thread(target=http.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{http.server_port}"
        http.shutdown()
        thread.join()


@pytest.mark.parametrize(("how", "why"), [("mid_stream", "broke off"), ("refuses", "500"), ("garbage", "not JSON")])
def test_failed_measurement_exits_3_with_the_reason(how, why, capsys):
    with server(how) as url:
        status = main(["diagnose", url, "--quick", "-q"])
    out = capsys.readouterr()
    words = " ".join(out.out.split())
    assert status == 3, "what can't be measured is a subject that says so, and the rest of the report stands"
    assert "measuring failed" in words
    assert why in words


@pytest.mark.parametrize(
    ("value", "seconds"),
    [("1e308", "10"), ("9" * 300, "10"), ("+Inf", "10"), ("NaN", "10"), ("9e15", "10"), ("9e15", "1e-9"),
     ("100", "1e-320"), ("100", "10")],
)  # fmt: skip
def test_absurd_counters_are_not_printed(value, seconds, capsys):
    metrics = "".join(f"llamacpp:{name} {value}\n" for name in COUNTERS)
    with server("refuses", f"{metrics}llamacpp:tokens_predicted_seconds_total {seconds}\n") as url:
        main(["diagnose", url, "--passive", "-q", "--all"])
    out, err = capsys.readouterr()
    assert not re.findall(r"(?i)\b(?:inf|nan)\b.*|\d{17,}|(?:\d{1,3},){6,}\d*|\b\d+e\+?\d+\b", out)
    assert not err
    assert (value, seconds) != ("100", "10") or "decode 10.0 tok/s (expected" in out, "sane counters are read"
