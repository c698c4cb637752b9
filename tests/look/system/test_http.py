"""The HTTP client against real misbehaving servers on loopback."""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from unslow.facts.values import Absence
from unslow.look.system import HTTP_LIMIT_BYTES, LookError
from unslow.look.system.http import look_error
from unslow.look.system.live import LiveSystem

OK = b"HTTP/1.1 200 OK\r\n"


@contextmanager
def server(answer: bytes, *, drip_s: float = 0, linger_s: float = 0) -> Iterator[str]:
    """A server that sends these bytes to whoever connects, then closes."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        with connection:
            try:
                connection.recv(65536)
                for piece in [answer[i : i + 1] for i in range(len(answer))] if drip_s else [answer]:
                    connection.sendall(piece)
                    time.sleep(drip_s)
                time.sleep(linger_s)
                connection.shutdown(socket.SHUT_WR)
                while connection.recv(65536):  # closing on unread bytes would reset the connection
                    pass
            except OSError:
                pass

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.close()
        thread.join(5)


def ask(url: str, timeout_s: float = 2.0):
    return LiveSystem().request("GET", f"{url}/props", timeout_s=timeout_s)


def test_a_json_answer_is_read():
    with server(OK + b'Content-Type: application/json\r\nContent-Length: 8\r\n\r\n{"a": 1}') as url:
        answer = ask(url)
    assert answer.status == 200
    assert answer.json() == {"a": 1}


def test_an_error_status_is_an_answer():
    with server(b"HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n") as url:
        assert ask(url).status == 500


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"", "broke off"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "SSH"),
        (OK + b"Content-Length: 100\r\n\r\nshort", "broke off"),
        (OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", "broke off|chunk|invalid"),
        (b"HTTP/1.1 302 Found\r\nLocation: http://example.com/\r\nContent-Length: 0\r\n\r\n", "redirects to"),
        (OK + b"X: " + b"a" * 100_000 + b"\r\n\r\n", "."),
        (OK + b"\r\n" + b"a" * (HTTP_LIMIT_BYTES + 10), "more than"),
    ],
    ids=["nothing", "another protocol", "cut short", "bad chunks", "redirect", "huge header", "huge body"],
)
def test_a_malformed_http_answer_is_a_look_error(answer, why):
    with server(answer) as url, pytest.raises(LookError, match=why):
        ask(url)


def test_a_silent_server_times_out():
    start = time.monotonic()
    with server(b"", linger_s=3) as url, pytest.raises(LookError, match="in time"):
        ask(url, timeout_s=0.3)
    assert time.monotonic() - start < 10


def test_a_dripping_body_times_out():
    body = OK + b"Content-Length: 1000\r\n\r\n" + b"x" * 1000
    with server(body, drip_s=0.02) as url, pytest.raises(LookError, match="in time"):
        ask(url, timeout_s=0.5)


def test_dripping_headers_time_out():
    start = time.monotonic()
    with server(OK + b"X: " + b"y" * 1000, drip_s=0.02) as url, pytest.raises(LookError, match="in time"):
        ask(url, timeout_s=0.5)
    assert time.monotonic() - start < 10


def test_a_long_error_body_is_read_only_in_part():
    body = b"HTTP/1.1 500 No\r\nContent-Length: 9000000\r\n\r\n" + b"no room " * 1000
    with server(body, linger_s=0.5) as url, pytest.raises(LookError, match="500: no room"):
        stream(url)


def test_an_answer_that_is_not_json_is_a_look_error():
    with server(OK + b"Content-Length: 6\r\n\r\n<html>") as url:
        answer = ask(url)
    with pytest.raises(LookError, match="not JSON"):
        answer.json()


def test_an_unknown_host_is_named_in_the_error(wording):
    told = look_error("http://no-such-host:80/a/b", socket.gaierror(-2, "Name or service not known"))
    wording(told.why, tells="http://no-such-host:80/a/b")
    assert "network" in told.how_to_get
    assert look_error("http://h", OSError(113, "No route to host")).why == "http://h: No route to host"


def test_a_closed_port_is_not_found():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(LookError, match="nothing listens") as caught:
        ask(f"http://127.0.0.1:{port}")
    assert caught.value.absence is Absence.NOT_FOUND


@pytest.mark.parametrize(
    "url", ["http://192.0.2.1/x", "http://example.com/x", "http://127.0.0.1.example.com/", "http://[::2]/"]
)
def test_a_remote_host_that_was_not_named_is_not_asked(url, wording):
    with pytest.raises(LookError) as refused:
        LiveSystem().request("GET", url)
    wording(refused.value.why)


@pytest.mark.parametrize("url", ["file:///etc/passwd", "nonsense", "http://", "http://[", "http://127.0.0.1:99999/"])
def test_an_invalid_url_is_a_look_error(url):
    with pytest.raises(LookError):
        LiveSystem().request("GET", url)


def stream(url: str, timeout_s: float = 2.0) -> list[str]:
    return [line.text for line in LiveSystem().stream(f"{url}/completion", {}, timeout_s=timeout_s)]


def test_a_stream_is_read_line_by_line():
    with server(OK + b"\r\ndata: 1\n\ndata: 2\r\nrest") as url:
        assert stream(url) == ["data: 1", "", "data: 2", "rest"]


def test_a_stream_that_ends_early_is_a_look_error():
    with server(OK + b"Content-Length: 99\r\n\r\ndata: 1\n") as url, pytest.raises(LookError, match="broke off"):
        stream(url)


def test_a_stalled_stream_times_out():
    with server(OK + b"\r\ndata: 1\n", linger_s=3) as url, pytest.raises(LookError, match="in time"):
        stream(url, timeout_s=0.4)


def test_an_error_status_of_a_stream_is_a_look_error():
    with (
        server(b"HTTP/1.1 503 No\r\nContent-Length: 4\r\n\r\nbusy") as url,
        pytest.raises(LookError, match="503: busy"),
    ):
        stream(url)


def test_https_to_a_plain_http_server_suggests_http(wording):
    with server(OK + b"Content-Length: 0\r\n\r\n") as url, pytest.raises(LookError) as caught:
        LiveSystem().request("GET", url.replace("http://", "https://"))
    wording(caught.value.why.rpartition(": ")[2], tells="TLS")
    assert caught.value.how_to_get == f"try {url}"
