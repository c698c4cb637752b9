"""What else goes on: busy loops on the CPUs, clients that ask all the while, a proxy that passes on slowly."""

import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from lab.faults.asking import ask, tokens
from lab.faults.fault import Playing, SkippedError
from lab.faults.playing import loaded, started
from lab.faults.recordings import family

Beside = Callable[[Playing], AbstractContextManager[object]]
_SPIN = "while True: pass"
_SHORT_JOBS = "while :; do sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done'; done"
_SETTLE_S = 2.0
_MOST_BYTES, _EVENT_ENDS = 65_536, b"\n\n"


def busy_loops(count: int, *, nice: int = 0) -> Beside:
    """Other processes that keep so many CPUs busy."""

    @contextmanager
    def beside(_playing: Playing) -> Iterator[None]:
        with ExitStack() as stack:
            for _ in range(count):
                stack.enter_context(started(["nice", "-n", str(nice), sys.executable, "-c", _SPIN]))
            time.sleep(_SETTLE_S)
            yield

    return beside


def short_jobs(count: int) -> Beside:
    """So many CPUs kept busy by processes that live for a fraction of a second each, as a build does."""

    @contextmanager
    def beside(_playing: Playing) -> Iterator[None]:
        with ExitStack() as stack:
            for _ in range(count):
                stack.enter_context(started(["sh", "-c", _SHORT_JOBS]))
            time.sleep(_SETTLE_S)
            yield

    return beside


def bound_to(*cpus: int) -> Beside:
    """The loaded server may use these CPUs alone, with every thread that it has by then."""

    @contextmanager
    def beside(playing: Playing) -> Iterator[None]:
        tasks = [int(task.name) for pid in family(playing.pid) for task in Path(f"/proc/{pid}/task").iterdir()]
        before = {task: os.sched_getaffinity(task) for task in tasks}
        for task in tasks:
            os.sched_setaffinity(task, cpus)
        try:
            yield
        finally:
            for task, had in before.items():
                with suppress(ProcessLookupError):
                    os.sched_setaffinity(task, had)

    return beside


Question = Callable[[int, int], tuple[list[int] | str, int]]
"""The prompt and the length of the answer, by the number of the client and of its turn."""


def short_questions(_client: int, _turn: int) -> tuple[list[int], int]:
    """A new short prompt each time, and an answer of ordinary length."""
    return tokens(32), 96


def clocked(client: int, turn: int) -> tuple[list[int], int]:
    """One long system prompt and a growing talk, all behind a clock that never shows the same time twice."""
    return [*tokens(8), *tokens(512, seed=client), *tokens(16 * (turn % 8 + 1), seed=client + 1)], 8


def steady(client: int, turn: int) -> tuple[list[int], int]:
    """The same talk with the clock at its end, where it costs nothing."""
    return [*tokens(512, seed=client), *tokens(16 * (turn % 8 + 1), seed=client + 1), *tokens(8)], 8


def alternating(_client: int, turn: int) -> tuple[list[int], int]:
    """One of three conversations after the other, each a little longer every time."""
    return steady(turn % 3, turn // 3)


def deep_talk(depth: int) -> Question:
    """The same long conversation, asked to go on again and again: its cache is kept, so that only decoding is left."""
    return lambda client, _turn: (tokens(depth, seed=client), 96)


def clients(count: int, question: Question = short_questions, pause_s: float = 0.0, **settings: Any) -> Beside:
    """So many users, each of whom asks again once answered; what they hear is kept."""

    @contextmanager
    def beside(playing: Playing) -> Iterator[None]:
        end = threading.Event()
        playing.clients += count
        users = [
            threading.Thread(target=_ask_on, args=(playing, number, question, pause_s, settings, end), daemon=True)
            for number in range(count)
        ]
        for user in users:
            user.start()
        time.sleep(_SETTLE_S)
        try:
            yield
        finally:
            end.set()

    return beside


def another_server(model: str) -> Beside:
    """A second server of the same program on the next port, with a user of its own."""

    @contextmanager
    def beside(playing: Playing) -> Iterator[None]:
        port = playing.port + 1
        program = playing.command[playing.command.index("-m") - 1]
        address = ["--host", "127.0.0.1", "--port", str(port)]
        words = [program, "-m", f"{playing.models}/{model}.gguf", *address, "-c", "4096"]
        other = Playing(f"http://127.0.0.1:{port}", port, playing.scratch, words, playing.environment)
        with started(words, playing.environment) as server:
            if not loaded(server, other.url):
                raise SkippedError("the second server did not load")
            with clients(1)(other):
                yield

    return beside


def _ask_on(
    playing: Playing, number: int, question: Question, pause_s: float, settings: dict[str, Any], end: threading.Event
) -> None:
    """One user's day; a server that goes away ends it."""
    turn = 0
    while not end.wait(pause_s):
        prompt, generate = question(number, turn)
        try:
            playing.heard.append(ask(playing.url, prompt, generate, **settings))
        except OSError:
            end.wait(0.5)
        turn += 1


Wait = Callable[[int], float]
"""Seconds that a proxy holds back a piece, by the piece's number."""


def slow_proxy(port: int, delay_s: float, late_s: float = 0.0) -> Beside:
    """What is diagnosed is a proxy (port 0: any free one) that holds back each piece, and passes on questions late."""
    return _proxy(port, lambda number: 0.0 if number else late_s, lambda _number: delay_s)


def pausing_proxy(port: int, every: int, pause_s: float) -> Beside:
    """The same of one that passes all on at once, and stops for a while after so many pieces of an answer."""
    return _proxy(port, lambda _number: 0.0, lambda number: pause_s if number % every == every - 1 else 0.0)


def _proxy(port: int, asking: Wait, answering: Wait) -> Beside:
    @contextmanager
    def beside(playing: Playing) -> Iterator[None]:
        with socket.create_server(("127.0.0.1", port)) as listener:
            playing.diagnose_url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            waits = (listener, playing.port, asking, answering)
            threading.Thread(target=_accept, args=waits, daemon=True).start()
            yield

    return beside


def _accept(listener: socket.socket, upstream: int, asking: Wait, answering: Wait) -> None:
    while True:
        try:
            client, _ = listener.accept()
        except OSError:
            return
        threading.Thread(target=_both_ways, args=(client, upstream, asking, answering), daemon=True).start()


def _both_ways(client: socket.socket, upstream: int, asking: Wait, answering: Wait) -> None:
    """Until one of them ends; both are closed then."""
    with client, suppress(OSError), socket.create_connection(("127.0.0.1", upstream)) as server:
        answers = threading.Thread(target=_pass_on, args=(server, client, answering), daemon=True)
        answers.start()
        _pass_on(client, server, asking)
        answers.join()


def _pass_on(source: socket.socket, sink: socket.socket, wait: Wait) -> None:
    """What the source says, each piece after its wait, which is an event of a stream; ends both ways when one does."""
    number = 0
    with suppress(OSError):
        while heard := source.recv(_MOST_BYTES):
            *events, rest = heard.split(_EVENT_ENDS) if b"data: " in heard else [heard]
            for piece in filter(None, (*(event + _EVENT_ENDS for event in events), rest)):
                time.sleep(wait(number))
                sink.sendall(piece)
                number += 1
    for end in (source, sink):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
