"""Many requests at once, and a machine that has no room for them."""

from itertools import count
from threading import Thread

from doubles import Quiet
from simulated_server import SimulatedServer

from unslow.commands.bench.bencher import Bencher, Wanted
from unslow.facts.bench import Failure, Pass
from unslow.facts.snapshot import Subject
from unslow.look.requests import Target


def test_a_user_for_whom_there_is_no_thread_has_failed(monkeypatch, wording):
    tried, start = count(1), Thread.start

    def scarce(thread: Thread) -> None:
        if next(tried) > 2:
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(Thread, "start", scarce)
    bencher = Bencher(SimulatedServer(), Subject(), Target("http://127.0.0.1:1"), Quiet())
    found = bencher.together([Wanted("3 users", 8)] * 3)
    assert [type(one) for one in found] == [Pass, Pass, Failure]
    assert (len(bencher.passes), len(bencher.failures)) == (2, 1)
    wording(bencher.failures[0].why)
