"""Stands where `ollama serve` stands: starts a real llama-server as Ollama 0.33 does, passes its lines on, answers.

Usage: ollama_stand_in.py serve LLAMA_SERVER BLOB PORT LOG
"""

import ctypes
import json
import os
import socket
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

STAMP = "time=2026-09-02T16:52:34.600Z level=INFO source="
RENAME = 15  # PR_SET_NAME


def command(server: str, blob: str) -> list[str]:
    """The command line of llm/llama_server.go, startLlamaServer."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    return [
        *(server, "--model", blob, "--port", port, "--host", "127.0.0.1", "--no-webui", "--offline", "-c", "8192"),
        *("-np", "2", "--log-verbosity", "4", "--no-log-prefix", "--no-log-timestamps", "--cache-type-k", "q8_0"),
        *("--cache-type-v", "q8_0", "--flash-attn", "auto", "-b", "512", "-ub", "512", "-t", "2"),
        *("--context-shift", "--keep", "4"),
    ]


def answers(blob: str) -> dict[str, object]:
    details = {"format": "gguf", "family": "llama", "parameter_size": "1.2M", "quantization_level": "Q4_0"}
    loaded = {"name": "tiny:latest", "size": 34_000_000, "size_vram": 0, "context_length": 4096, "details": details}
    shown = {"modelfile": f"# FROM tiny\nFROM {blob}\n", "parameters": "num_ctx    4096", "details": details}
    return {"/": None, "/api/version": {"version": "0.33.0"}, "/api/ps": {"models": [loaded]}, "/api/show": shown}


class Handler(BaseHTTPRequestHandler):
    blob = ""

    def log_message(self, *_: object) -> None:
        """Ollama's own log is written elsewhere."""

    def do_GET(self) -> None:
        known = answers(self.blob)
        body = json.dumps(known[self.path]).encode() if known.get(self.path) else b"Ollama is running"
        self.send_response(200 if self.path in known else 404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.do_GET()


def say(line: str) -> None:
    os.write(1, f"{STAMP}{line}\n".encode())


def main(server: str, blob: str, port: str, log: str) -> None:
    ctypes.CDLL(None).prctl(RENAME, b"ollama", 0, 0, 0)
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.dup2(out, 1)
    os.dup2(out, 2)
    words = command(server, blob)
    say('routes.go:1951 msg="server config" env="map[OLLAMA_KEEP_ALIVE:5m0s OLLAMA_KV_CACHE_TYPE:q8_0]"')
    say(f'routes.go:2008 msg="Listening on 127.0.0.1:{port} (version 0.33.0)"')
    say('types.go:50 msg="inference compute" id=cpu library=cpu compute="" name=cpu description=cpu total="6.7 GiB"')
    say('routes.go:2058 msg="vram-based default context" total_vram="0 B" default_num_ctx=4096')
    say(f'llama_server.go:433 msg="starting llama-server" cmd="{" ".join(words)}"')
    child = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    Handler.blob = blob
    web = ThreadingHTTPServer(("127.0.0.1", int(port)), Handler)
    threading.Thread(target=web.serve_forever, daemon=True).start()
    for line in child.stdout or ():
        os.write(1, line)
        if b"listening on" in line:
            say('llama_server.go:1362 msg="llama-server started in 0.52 seconds"')


if __name__ == "__main__":
    main(*sys.argv[2:])
