"""The HTTP side: dialects, health states and refused requests."""

import http.client
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from threading import Event, Thread

import pytest

from unslow.facts.errors import UserError
from unslow.fleet.exporter import MOST_CONNECTIONS, Answers, ExporterServer, Handler, dialect_for
from unslow.fleet.openmetrics import LookState, exposition
from unslow.fleet.settings import Address

PROMETHEUS_2 = (
    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)
PROMETHEUS_3 = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,text/plain;version=0.0.4;q=0.3"


class Well:
    well = ready = True


@pytest.fixture
def state() -> Well:
    return Well()


@pytest.fixture
def server(state) -> Iterator[ExporterServer]:
    answers = Answers(
        lambda dialect: exposition(None, LookState(), dialect, version="1"), lambda: state.well, lambda: state.ready
    )
    with ExporterServer(Address("127.0.0.1", 0), answers) as server:
        thread = Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def asked(server: ExporterServer, path: str, method: str = "GET", **headers: str) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=5)
    connection.request(method, path, headers=headers)
    answer = connection.getresponse()
    answer.body = answer.read().decode()
    connection.close()
    return answer


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        (PROMETHEUS_2, "application/openmetrics-text; version=1.0.0; charset=utf-8"),
        (PROMETHEUS_3, "application/openmetrics-text; version=1.0.0; charset=utf-8"),
        ("*/*", "text/plain; version=0.0.4; charset=utf-8"),
    ],
)
def test_response_dialect_follows_the_accept_header(server, accept, kind):
    answer = asked(server, "/metrics", Accept=accept)
    assert (answer.status, answer.headers["Content-Type"]) == (200, kind)
    assert answer.body.endswith("# EOF\n") == kind.startswith("application")


@pytest.mark.parametrize(
    ("accept", "dialect"),
    [
        ("", "text"),
        ("text/html", "text"),
        ("application/openmetrics-text", "openmetrics"),
        ("application/openmetrics-text;version=2.0.0", "text"),
        ("application/openmetrics-text;q=0", "text"),
        ("application/openmetrics-text;q=nonsense", "text"),
        ("application/openmetrics-text;q=0.2,text/plain;q=0.9", "text"),
        (";;;,,,=", "text"),
    ],
)
def test_dialect_for_accept_header(accept, dialect):
    assert dialect_for(accept) == dialect


def test_healthz_and_readyz_report_their_state(server, state):
    assert (asked(server, "/healthz").status, asked(server, "/readyz").status) == (200, 200)
    state.well = state.ready = False
    assert (asked(server, "/healthz").status, asked(server, "/readyz").status) == (503, 503)
    assert asked(server, "/metrics").status == 200, "a scrape is answered all the same"


def test_unknown_paths_and_methods_are_refused(server):
    assert asked(server, "/nothing").status == 404
    assert asked(server, "/metrics", "POST").status == 501
    assert "/metrics" in asked(server, "/").body
    head = asked(server, "/metrics", "HEAD")
    assert (head.status, head.body) == (200, "")


@pytest.mark.parametrize("host", ["evil.example", "evil.example:9877", "192.168.0.7", "[", ""])
def test_dns_rebinding_host_is_refused(server, host):
    assert asked(server, "/metrics", Host=host).status == 403
    assert asked(server, "/metrics", Host="localhost:1").status == 200


@pytest.mark.parametrize("holders", [MOST_CONNECTIONS, 200])
def test_idle_connections_do_not_block_others(server, holders):
    """Dropped clients reconnect, as an attacker would."""
    going, there = Event(), []

    def hold() -> None:
        while not going.is_set():
            with suppress(OSError), socket.create_connection(("127.0.0.1", server.server_port), 5.0) as line:
                there.append(line)
                line.settimeout(0.5)
                while not going.is_set():
                    with suppress(TimeoutError):
                        if not line.recv(1):
                            break
            time.sleep(0.05)

    threads = [Thread(target=hold, daemon=True) for _ in range(holders)]
    for thread in threads:
        thread.start()
    while len(there) < holders:
        time.sleep(0.05)
    try:
        answers = [asked(server, path).status for path in ("/metrics", "/healthz") for _ in range(10)]
        assert answers == [200] * 20
    finally:
        going.set()
        for thread in threads:
            thread.join()


def test_port_in_use_is_a_user_error(server, wording):
    with pytest.raises(UserError, match=f"127.0.0.1:{server.server_port}") as raised:
        ExporterServer(Address("127.0.0.1", server.server_port), server.answers)
    wording(raised.value.message.partition(": ")[2])


def drips(line: socket.socket, seconds: float) -> None:
    until_s = time.monotonic() + seconds
    while time.monotonic() < until_s:
        line.sendall(b"x")
        time.sleep(0.02)


def test_slow_request_is_disconnected(server, monkeypatch):
    """A byte now and then keeps any timeout of single reads from ever being over."""
    monkeypatch.setattr(Handler, "timeout", 0.2)
    with socket.create_connection(("127.0.0.1", server.server_port), 2.0) as line:
        line.sendall(b"GET /metrics HTTP/1.1\r\nX-Slow: ")
        with pytest.raises(ConnectionError):
            drips(line, 3.0)
    assert asked(server, "/metrics").status == 200
