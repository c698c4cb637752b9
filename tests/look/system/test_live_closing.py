"""A system interface that closes at a deadline or on request."""

import socket
import threading
import time

import pytest
from lab.replay import serve

from unslow.look.system import LATE, STOPPED, LookError, was_closed
from unslow.look.system.live import ClosingSystem

BODY = {"prompt": "x", "n_predict": 50, "stream": True}


def test_before_its_deadline_a_closing_system_works_normally():
    with serve("llama_cpp", tokens_per_s=4000.0) as url:
        door = ClosingSystem()
        door.close_in(60.0)
        assert door.request("GET", f"{url}/health").status == 200
        assert list(door.stream(f"{url}/completion", BODY))


def test_a_stream_ends_at_the_deadline():
    with serve("llama_cpp", tokens_per_s=10.0) as url:
        door = ClosingSystem()
        door.close_in(0.4)
        with pytest.raises(LookError, match=LATE) as caught:
            list(door.stream(f"{url}/completion", BODY))
        assert was_closed(caught.value)
        assert door.is_late
        with pytest.raises(LookError, match=LATE):
            door.request("GET", f"{url}/health")


def test_a_silent_server_is_abandoned_at_the_deadline():
    with serve("llama_cpp", tokens_per_s=10.0, latency_s=30.0) as url:
        door = ClosingSystem()
        door.close_in(0.3)
        with pytest.raises(LookError, match=LATE):
            list(door.stream(f"{url}/completion", BODY))


def test_after_stop_the_stream_ends_with_the_next_line():
    with serve("llama_cpp", tokens_per_s=200.0) as url:
        door = ClosingSystem()
        lines = door.stream(f"{url}/completion", BODY)
        next(lines)
        door.stop()  # as a handler would, while the line is being read
        with pytest.raises(LookError, match=STOPPED):
            list(lines)
        assert door.is_stopped_once


def test_stop_without_a_stream_is_a_keyboard_interrupt():
    door = ClosingSystem()
    with pytest.raises(KeyboardInterrupt):
        door.stop()
    with pytest.raises(LookError, match=STOPPED):
        door.request("GET", "http://127.0.0.1:1/")


def test_while_concluding_only_the_second_stop_interrupts():
    door = ClosingSystem()
    door.concluding = True
    door.stop()
    with pytest.raises(KeyboardInterrupt):
        door.stop()


@pytest.mark.parametrize("concluding", [False, True], ids=["at once", "when the answer is being made"])
def test_streams_of_other_threads_end_with_the_next_line(concluding):
    ends = []
    with serve("llama_cpp", tokens_per_s=20.0) as url:
        door = ClosingSystem()
        begun, stopped = threading.Event(), threading.Event()

        def listen() -> None:
            try:
                for _ in door.stream(f"{url}/completion", BODY):
                    begun.set()
                    stopped.wait(10)
            except LookError as error:
                ends.append(error.why)

        thread = threading.Thread(target=listen)
        thread.start()
        begun.wait(10)
        with pytest.raises(KeyboardInterrupt):
            door.stop()
        door.concluding = concluding
        stopped.set()
        thread.join(10)
        assert ends == [STOPPED]
        if concluding:
            assert door.request("GET", f"{url}/health").status == 200, "whoever concludes may still look"


class Endless:
    """A server that answers line after line until nobody listens."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/completion"
        self.left_alone = threading.Event()
        threading.Thread(target=self._answer, daemon=True).start()

    def _answer(self) -> None:
        talk, _ = self._listener.accept()
        with self._listener, talk:
            talk.recv(65536)
            talk.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
            try:
                while True:
                    talk.sendall(b"data: {}\n")
                    time.sleep(0.01)
            except OSError:
                self.left_alone.set()


def test_the_connection_is_closed_at_the_deadline():
    server, door = Endless(), ClosingSystem()
    door.close_in(0.2)
    with pytest.raises(LookError, match=LATE) as kept:
        list(door.stream(server.url, BODY))
    assert server.left_alone.wait(10), "though whoever asked keeps the error, and with it all that led to it"
    assert was_closed(kept.value)


def test_the_connection_of_another_stopped_thread_is_closed():
    server, door, kept = Endless(), ClosingSystem(), list[LookError]()
    begun = threading.Event()

    def listen() -> None:
        try:
            for _ in door.stream(server.url, BODY):
                begun.set()
        except LookError as error:
            kept.append(error)

    thread = threading.Thread(target=listen)
    thread.start()
    assert begun.wait(10)
    with pytest.raises(KeyboardInterrupt):
        door.stop()
    door.concluding = True
    thread.join(10)
    assert server.left_alone.wait(10)
    assert was_closed(kept[0])


def test_a_stop_from_another_thread_ends_the_stream():
    with serve("llama_cpp", tokens_per_s=200.0) as url:
        door = ClosingSystem()
        lines = door.stream(f"{url}/completion", BODY)
        next(lines)
        other = threading.Thread(target=door.stop_from_afar)
        other.start()
        other.join()
        with pytest.raises(LookError, match=STOPPED):
            list(lines)
        door.stop_from_afar()
        assert door.is_stopped_once  # asking twice is no second wish: nobody is interrupted


@pytest.mark.parametrize(
    "ask",
    [
        lambda door, url: list(door.stream(url, BODY)),
        lambda door, url: door.request("POST", url, {**BODY, "stream": False}, timeout_s=30.0),
    ],
)
def test_a_stop_from_another_thread_abandons_a_silent_server(ask):
    with serve("llama_cpp", tokens_per_s=10.0, latency_s=30.0) as url:
        door = ClosingSystem()
        threading.Timer(0.2, door.stop_from_afar).start()
        began = time.monotonic()
        with pytest.raises(LookError, match=STOPPED):
            ask(door, f"{url}/completion")
        assert time.monotonic() - began < 5


def test_an_answer_cut_off_by_stop_is_not_an_answer():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        door = ClosingSystem()
        lines = door.stream(f"http://127.0.0.1:{listener.getsockname()[1]}/completion", BODY)

        def answer() -> None:
            with listener.accept()[0] as connection:
                connection.sendall(b"HTTP/1.0 200 OK\r\n\r\ndata: 1\n")
                connection.settimeout(10)
                while connection.recv(65536):
                    pass

        server = threading.Thread(target=answer)
        server.start()
        assert next(lines).text == "data: 1"
        threading.Timer(0.1, door.stop_from_afar).start()
        with pytest.raises(LookError, match=STOPPED):
            list(lines)
        server.join(10)


def test_the_creating_thread_may_ask_while_concluding():
    answers = []

    def conclude() -> None:
        door = ClosingSystem()
        door.stop_from_afar()
        door.concluding = True
        answers.append(door.request("GET", f"{url}/health").status)

    with serve("llama_cpp", tokens_per_s=200.0) as url:
        worker = threading.Thread(target=conclude)
        worker.start()
        worker.join()
    assert answers == [200]
