"""Ctrl-C ends a pending query without waiting for its response."""

import socket
import time
from threading import Thread

import pytest

from unslow.facts.errors import UserError
from unslow.fleet.asking import Asking
from unslow.fleet.members import read_members
from unslow.fleet.prometheus.client import Prometheus
from unslow.fleet.prometheus.connection import Access
from unslow.fleet.queries import Options

AT_ONCE_S = 2.0


@pytest.fixture
def silent():
    """The address of a server that accepts queries and never responds."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


def test_close_ends_a_pending_query_in_another_thread(silent):
    ended = []

    def ask():
        try:
            prometheus.instant("up", at=1.0)
        except UserError as error:
            ended.append(error)

    prometheus = Prometheus(Access(url=silent, timeout_s=20.0))
    asking = Thread(target=ask, daemon=True)
    asking.start()
    time.sleep(0.2)
    prometheus.close()
    asking.join(AT_ONCE_S)
    assert not asking.is_alive()
    assert len(ended) == 1


def test_interrupted_read_does_not_wait_for_a_response(monkeypatch):
    closed = []

    class Pool:
        def shutdown(self, *, wait: bool, cancel_futures: bool) -> None:
            closed.append((wait, cancel_futures))

    monkeypatch.setattr(Asking, "__init__", lambda asking, *_: setattr(asking, "_thread", Pool()))
    monkeypatch.setattr("unslow.fleet.members.read_engines", interrupted)
    with pytest.raises(KeyboardInterrupt):
        read_members(Nobody(), Options())
    assert closed == [(False, True)]


class Nobody:
    now_s = 0.0


def interrupted(*_):
    raise KeyboardInterrupt
