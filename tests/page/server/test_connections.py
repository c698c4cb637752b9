"""Open connections can not lock the user out."""

import socket
import time
from contextlib import ExitStack

import pytest
from page_server import serving

from unslow.page.server import connections
from unslow.page.server.state import ServerState

PART = b"GET / HTTP/1.1\r\nHost: "


def connected(page, stack, first=b""):
    connection = stack.enter_context(socket.create_connection(("127.0.0.1", page.own.port), timeout=10))
    connection.sendall(first)
    return connection


def is_hung_up(connection):
    try:
        return connection.recv(100) == b""
    except ConnectionResetError:  # what it had sent was not read any more
        return True


@pytest.mark.parametrize("first", [b"", PART])
def test_idle_connections_do_not_block_the_page(page, first):
    with ExitStack() as stack:
        held = [connected(page, stack, first) for _ in range(2 * connections.MOST)]
        assert page.open().status == 200
        assert is_hung_up(held[0])  # the first ones made room


def test_connection_without_a_complete_head_is_closed(monkeypatch):
    monkeypatch.setattr(connections, "HEAD_S", 0.3)
    with serving() as page, ExitStack() as stack:
        silent, slow = connected(page, stack), connected(page, stack, PART)
        again = connected(page, stack, f"GET / HTTP/1.1\r\nHost: {page.own.hosts[0]}\r\n\r\n".encode())
        assert b" 401 " in again.recv(2000)
        began = time.monotonic()
        with pytest.raises(OSError, match=r"reset|Broken"):  # noqa: PT012 (drop by drop, for ever)
            while time.monotonic() - began < 5:
                slow.sendall(b"1")
                time.sleep(0.05)
        assert is_hung_up(silent)


def test_slow_answer_does_not_time_out_the_connection(monkeypatch):
    begin = ServerState._begin
    monkeypatch.setattr(connections, "HEAD_S", 1.0)
    monkeypatch.setattr(
        ServerState, "_begin", lambda state: (time.sleep(2), begin(state))
    )  # longer than a head may take
    with serving() as page:
        assert page.open().status == 200


def test_client_that_disconnects_mid_body_is_not_logged_as_a_bug(page, capfd):
    with socket.create_connection(("127.0.0.1", page.own.port), timeout=20) as client:
        headers = {
            **page.usual,
            "Origin": page.own.origins[0],
            "Content-Length": "1000",
            "Content-Type": "application/json",
        }
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        client.sendall(f"POST /api/v1/runs HTTP/1.1\r\n{lines}\r\n{{".encode())
        time.sleep(0.3)
    time.sleep(0.5)
    assert page.get("/version").status in (200, 404)
    assert "ClientDisconnect" not in capfd.readouterr().err
