"""A real `unslow serve` inside the test: the same socket, server and guard, in a thread."""

import http.client
import json
import secrets
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from unslow.commands._formats import Looking
from unslow.page.server.guard import ServerIdentity, Ticket
from unslow.page.server.serve import make_server, open_listener
from unslow.page.server.state import ServeOptions, ServerState

MACHINES = Path(__file__).parents[2] / "machines"
SLOW = str(MACHINES / "h200_llama_server_gpu_layers_set_too_low")


class Said(NamedTuple):
    """An answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def text(self) -> str:
        return self.body.decode()


class Page:
    """A client that says exactly what it is told to, and nothing more."""

    def __init__(self, own: ServerIdentity, state: ServerState, ticket: Ticket) -> None:
        self.own, self.state, self.ticket = own, state, ticket

    def raw(self, method: str, path: str, headers: Mapping[str, str], body: bytes | None = None) -> Said:
        connection = http.client.HTTPConnection("127.0.0.1", self.own.port, timeout=20)
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in headers.items():
                connection.putheader(name, value)
            connection.endheaders(body)
            answer = connection.getresponse()
            return Said(answer.status, {k.lower(): v for k, v in answer.getheaders()}, answer.read())
        finally:
            connection.close()

    @property
    def usual(self) -> dict[str, str]:
        """The headers of a well-behaved program."""
        return {"Host": self.own.hosts[0], "X-Unslow-Token": self.own.token}

    def get(self, path: str) -> Said:
        return self.raw("GET", f"/api/v1{path}", self.usual)

    def open(self, query: str = "") -> Said:
        return self.raw("GET", f"/?token={self.own.token}{query}", {"Host": self.own.hosts[0]})

    def send(self, method: str, path: str, content: object = None, **more: str) -> Said:
        body = b"" if content is None else json.dumps(content).encode()
        headers = {**self.usual, "Origin": self.own.origins[0], "Content-Length": str(len(body)), **more}
        if content is not None:
            headers.setdefault("Content-Type", "application/json")
        return self.raw(method, f"/api/v1{path}", headers, body)


@contextmanager
def serving(target: str | None = SLOW, *, passive: bool = False, **wanted: Any) -> Iterator[Page]:
    """A server that shows a target."""
    state = ServerState(ServeOptions(Looking(target=target, passive=passive), **wanted))
    with open_listener(0) as listener:
        own, ticket = ServerIdentity(listener.getsockname()[1], secrets.token_urlsafe(32)), Ticket()
        state.begin()
        server = make_server(state, own, ticket)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield Page(own, state, ticket)
        finally:
            state.close()
            server.should_exit = True
            thread.join(10)
