"""Files that a user may share, written beside a server whose log contains secrets."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from unslow.__main__ import main

PLANTED = {
    "a prompt in JSON": 'srv  log_server_r: request: {"prompt": "the zebra ate my diary", "n_predict": 8}',
    "a chat": '{"messages": [{"role": "user", "content": "should I leave wolfgang\\nor stay"}]}',
    "an answer": 'srv  update_slots: response: {"content":"you should leave walrusman","tokens":[1,2]}',
    "a prompt of Ollama": 'level=DEBUG msg="chat request" prompt="<|user|>\\nmy tumour is ottersized"',
    "bearer token": "Authorization: Bearer hunter2secretbearer99",
    "a token": "hf_AbCdEfGhIjKlMnOpQrStUvWx12345678",
    "a key": 'api_key="plantedkey-4711-geheim"',
    "a user on a removable disk": "common_init: loading /media/bobplanted/disk/model.gguf",
    "a user": "main: cache at /home/aliceplanted/.cache/llama.cpp",
    "a stranger": "srv  log_server_r: done request: POST /completion 93.184.216.34 200",
    "a stranger by IPv6": "srv  log_server_r: done request: POST /completion 2606:2800:220:1:248:1893:25c8:1946 200",
    "a mail": "user: carolplanted@example.org",
}  # fmt: skip
SECRET_WORDS = (
    "zebra", "wolfgang", "walrusman", "ottersized", "hunter2secret", "hf_AbCdEf", "plantedkey", "bobplanted",
    "aliceplanted", "93.184.216.34", "2606:2800:220", "carolplanted", "flagplanted", "propsplanted", "slotplanted",
    "185.199.108.153", "151.101.1.69", "envplanted",
)  # fmt: skip
START = """\
build: 10586 (b21e4de) with cc
system_info: n_threads = 4 (n_threads_batch = 4) / 8 | CPU : SSE3 = 1 | AVX2 = 1 |
llama_model_loader: loaded meta data with 25 key-value pairs from /home/aliceplanted/m.gguf (version GGUF V3 (latest))
print_info: file size   = 4.58 GiB (4.89 BPW)
load_tensors: offloaded 0/33 layers to GPU
"""
SERVER = """\
#!{python} -S
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
ANSWERS = {answers!r}
class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        body = ANSWERS.get(self.path)
        self.send_response(200 if body else 404)
        self.end_headers()
        self.wfile.write((body or "").encode())
    def log_message(self, *_): pass
print({said!r}, flush=True)
ThreadingHTTPServer(("127.0.0.1", {port}), Handler).serve_forever()
"""
ANSWERS = {
    "/health": {"status": "ok"},
    "/props": {
        "total_slots": 1,
        "model_path": "/media/bobplanted/disk/m.gguf",
        "build_info": "b10586-b21e4de",
        "default_generation_settings": {"n_ctx": 4096, "prompt": "propsplanted said so"},
    },
    "/v1/models": {"data": [{"id": "/home/aliceplanted/m.gguf", "meta": {"n_params": 8_030_261_248}}]},
    "/slots": [{"id": 0, "n_ctx": 4096, "is_processing": False, "prompt": "slotplanted", "generated": "slotplanted"}],
}  # fmt: skip


def _free_port() -> int:
    with socket.socket() as tried:
        tried.bind(("127.0.0.1", 0))
        return tried.getsockname()[1]


def _listens(port: int) -> bool:
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def told_server(folder: Path, host: str, log_file: Path | None) -> Iterator[None]:
    """A process that passes for a llama-server, with a log that holds what must not leave the machine."""
    said = START + "\n".join(PLANTED.values()) + "\n"
    answers, port = {path: json.dumps(body) for path, body in ANSWERS.items()}, _free_port()
    program, output = folder / "llama-server", folder / "out.txt"
    program.write_text(SERVER.format(python=sys.executable, answers=answers, port=port, said="" if log_file else said))
    program.chmod(0o700)
    if log_file:
        log_file.write_text(said)
    words = [
        "--model", "/media/bobplanted/disk/m.gguf", "--slot-save-path", "/media/bobplanted/disk/slots",
        "--api-key", "flagplanted-key-1", "--rpc", "185.199.108.153:50052", "--host", host, "--port", str(port),
        *(["--log-file", str(log_file)] if log_file else []),
    ]  # fmt: skip
    environment = {**os.environ, "LLAMA_API_KEY": "envplanted-key-2"}
    with output.open("wb") as out, subprocess.Popen([program, *words], stdout=out, stderr=out, env=environment) as ran:
        try:
            while not _listens(port):
                assert ran.poll() is None, output.read_text()
                time.sleep(0.02)
            yield
        finally:
            ran.kill()


@pytest.mark.parametrize(
    ("host", "log"),
    [("127.0.0.1", "server.log"), ("127.0.0.1", ""), ("151.101.1.69", "server.log")],
    ids=["a log file", "standard output", "public address that is not contacted"],
)
def test_no_secret_is_in_snapshots_recordings_or_reports(host, log, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "server").mkdir()
    with told_server(tmp_path / "server", host, tmp_path / "server" / log if log else None):
        assert main(["collect", "-o", "s.json", "--record", "r", "--no-bandwidth", "-q"]) == 0
    snapshot = Path("s.json").read_text()
    assert "layers to GPU" in Path("r/recording.jsonl").read_text(), "the log was read, so its secrets were"
    capsys.readouterr()
    assert main(["report", "s.json", "-o", "page.html"]) in (0, 1, 3)
    for form in ("markdown", "terminal", "json"):
        main(["diagnose", "s.json", "--format", form])
        Path(f"report.{form}").write_text(capsys.readouterr().out)
    written = [Path("s.json"), Path("page.html"), *Path("r").rglob("*"), *Path().glob("report.*")]
    told = {
        (str(path), word)
        for path in written
        if path.is_file()
        for word in SECRET_WORDS
        if word in path.read_text(errors="replace")
    }
    assert not told
    assert "llama-server" in snapshot
