"""A proxy before a real Prometheus that spoils its answers: slow, cut, restarting, partial, with a wrong clock.

    python -m lab.fleet.unwell --prometheus http://127.0.0.1:9090 --port 9099 --deed slow:5 --only vllm

answers queries that have `vllm` in them five seconds late. `--list` names every deed.
"""

import argparse
import http.client
import socket
import ssl
import struct
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qsl, urlencode, urlsplit

from lab.fleet.unwell_deeds import DEEDS, Answer, Ask

_LONGEST_FORM = 1024**2
_HOP = ("connection", "content-length", "transfer-encoding", "content-encoding", "date", "server")
_DRIP_S = 0.02


@dataclass
class Unwell:
    """The proxy: the deeds of the next queries, and what it does when there are none left."""

    prometheus: str
    always: str = "pass"
    only: str = ""
    """Deeds are for queries with this text alone."""
    authorization: str = ""
    """What that header must be."""
    tls: ssl.SSLContext | None = None
    port: int = 0
    next: deque[str] = field(default_factory=deque)
    forms: list[dict[str, str]] = field(default_factory=list)
    """Every query that came, as a form."""
    connections: int = 0
    _server: ThreadingHTTPServer | None = None

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}"

    def open(self) -> None:
        """Listen, on the port that it had before."""
        self._server = server = _Server(("127.0.0.1", self.port), self)
        self.port = server.server_port
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()

    def close(self) -> None:
        """Refuse whoever comes now, and hang up on everybody."""
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()
        self._server = None

    def away(self, seconds: float) -> None:
        """Be gone for so long, in the background."""
        self.close()
        timer = threading.Timer(seconds, self.open)
        timer.daemon = True
        timer.start()

    def deed_for(self, query: str) -> tuple[str, float]:
        """What is done to this query, and how much of it."""
        mine = self.only in query
        written = (self.next.popleft() if self.next else self.always) if mine else "pass"
        name, _, amount = written.partition(":")
        return name, float(amount or 0)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: tuple[str, int], unwell: Unwell) -> None:
        super().__init__(address, _Handler)
        self.unwell, self.open_lines = unwell, set[socket.socket]()

    def get_request(self) -> tuple[socket.socket, tuple[str, int]]:
        line, address = super().get_request()
        self.unwell.connections += 1
        if self.unwell.tls is not None:
            line = self.unwell.tls.wrap_socket(line, server_side=True, do_handshake_on_connect=False)
        self.open_lines.add(line)
        return line, address

    def server_close(self) -> None:
        super().server_close()
        for line in tuple(self.open_lines):
            with suppress(OSError):
                socket.socket.shutdown(line, socket.SHUT_RDWR)

    def shutdown_request(self, request: socket.socket) -> None:  # type: ignore[override]
        self.open_lines.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: object, client_address: object) -> None:
        """The one who asked hung up, or does not trust us: part of the game."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002 (named so by its parent)
        """Nothing."""

    def do_GET(self) -> None:
        """A query in the address."""
        self._answer(dict(parse_qsl(urlsplit(self.path).query)))

    def do_POST(self) -> None:
        """A query as a form."""
        size = min(int(self.headers.get("Content-Length") or 0), _LONGEST_FORM)
        self._answer(dict(parse_qsl(self.rfile.read(size).decode())))

    def _answer(self, form: dict[str, str]) -> None:
        unwell = self.server.unwell
        unwell.forms.append(form)
        name, amount = unwell.deed_for(form.get("query", ""))
        if name == "slow":
            time.sleep(amount)
        ask = Ask(self.command, form, dict(self.headers.items()), self._forwarded, amount)
        if unwell.authorization and self.headers.get("Authorization") != unwell.authorization:
            return self._send(DEEDS["unauthorized"](ask))
        return self._send(DEEDS["pass" if name == "slow" else name](ask))

    def _forwarded(self, form: dict[str, str]) -> Answer:
        real = urlsplit(self.server.unwell.prometheus)
        connection = http.client.HTTPConnection(real.hostname or "", real.port or 80, timeout=60)
        try:
            headers = {"Content-Type": "application/x-www-form-urlencoded"}
            connection.request("POST", real.path + urlsplit(self.path).path, urlencode(form), headers)
            got = connection.getresponse()
            kept = {name: value for name, value in got.getheaders() if name.lower() not in _HOP}
            return Answer(got.status, got.read(), kept)
        except OSError:
            return Answer(502, b"Bad Gateway", {"Content-Type": "text/plain"})
        finally:
            connection.close()

    def _send(self, answer: Answer) -> None:
        if answer.manner in ("reset", "close"):
            return self._hang_up(hard=answer.manner == "reset")
        head = [f"HTTP/1.1 {answer.status} Spoiled", f"Content-Length: {len(answer.body)}"]
        date = {"Date": self.date_time_string()}
        head += [f"{name}: {value}" for name, value in (date | dict(answer.headers)).items()]
        data = "\r\n".join([*head, "", ""]).encode() + answer.body
        if answer.manner == "drip":
            for byte in data:
                self.wfile.write(bytes([byte]))
                time.sleep(_DRIP_S)
            return None
        if answer.manner == "cut":
            self.wfile.write(data[: len(data) - len(answer.body) // 2])
            return self._hang_up(hard=False)
        self.wfile.write(data)
        return self._hang_up(hard=False) if answer.manner == "hang_up" else None

    def _hang_up(self, *, hard: bool) -> None:
        if hard:
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True


@contextmanager
def unwell(prometheus: str, always: str = "pass", **fields: object) -> Iterator[Unwell]:
    """One that listens until the end of the block."""
    proxy = Unwell(prometheus, always, **fields)  # type: ignore[arg-type]
    proxy.open()
    try:
        yield proxy
    finally:
        proxy.close()


def main() -> None:
    """As a program, until it is interrupted."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prometheus", default="http://127.0.0.1:9090", help="the real one")
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--deed", default="pass", help="what is done, with an amount after a colon where it has one")
    parser.add_argument("--only", default="", help="to queries with this text alone")
    parser.add_argument("--list", action="store_true", help="name every deed")
    wanted = parser.parse_args()
    if wanted.list:
        return print("\n".join(sorted({*DEEDS, "slow"})))
    with (
        unwell(wanted.prometheus, wanted.deed, only=wanted.only, port=wanted.port) as proxy,
        suppress(KeyboardInterrupt),
    ):
        print(f"{proxy.url} answers for {wanted.prometheus}, and does: {wanted.deed}", flush=True)
        threading.Event().wait()
    return None


if __name__ == "__main__":
    main()
