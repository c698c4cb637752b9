"""Concurrent requests on a machine that runs out of threads."""

from itertools import count
from threading import Thread

from doubles import Quiet
from simulated_server import SimulatedServer

from unslow.commands.bench.bencher import Bencher, BenchWish
from unslow.facts.bench import Failure, Pass
from unslow.facts.snapshot import Subject
from unslow.look.requests import Target


def test_user_without_a_thread_counts_as_a_failure(monkeypatch, wording):
    tried, start = count(1), Thread.start

    def scarce(thread: Thread) -> None:
        if next(tried) > 2:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(Thread, "start", scarce)
    bencher = Bencher(SimulatedServer(), Subject(), Target("http://127.0.0.1:1"), Quiet())
    found = bencher.together([BenchWish("3 users", 8)] * 3)
    assert [type(one) for one in found] == [Pass, Pass, Failure]
    assert (len(bencher.passes), len(bencher.failures)) == (2, 1)
    wording(bencher.failures[0].why)
