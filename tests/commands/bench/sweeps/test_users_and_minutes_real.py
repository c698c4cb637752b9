"""Users and minutes on the real engine, which is killed during one sweep."""

import os
import signal
import threading
from collections.abc import Iterator

import pytest
from doubles import Quiet

from unslow.commands.bench.bencher import Bencher
from unslow.commands.bench.sweeps import Limits, minutes, users
from unslow.facts.bench import DECODE, TOGETHER
from unslow.facts.snapshot import Subject
from unslow.look.engine import Engine, start_engine
from unslow.look.engine.made_up_models import ModelCache
from unslow.look.requests import Target
from unslow.look.sampler import Sampler
from unslow.look.system.live import LiveSystem

pytestmark = pytest.mark.real
SYSTEM = LiveSystem()


@pytest.fixture
def engine(tmp_path) -> Iterator[Engine]:
    model = str(ModelCache(tmp_path).model("tiny"))
    with start_engine(SYSTEM, model, threads=1) as engine:
        yield engine


def bencher_of(engine: Engine) -> Bencher:
    return Bencher(SYSTEM, Subject(), Target(engine.url, pid=engine.pid), Quiet())


def test_users_sweep_on_the_real_engine(engine: Engine):
    bencher = bencher_of(engine)
    found = users.sweep(bencher, Limits(values=(1, 2, 4), tokens=64, repeats=2))
    assert [point.failures for point in found.points] == [0, 0, 0]
    assert all(point.figures[TOGETHER].median > 0 for point in found.points)
    assert found.verdict != "cannot_tell"
    assert len(bencher.passes) == 1 + 2 * (1 + 2 + 4)


def test_minutes_sweep_on_the_real_engine(engine: Engine):
    bencher = bencher_of(engine)
    with Sampler(SYSTEM, [engine.pid], 10.0) as sampler:
        bencher.sampler = sampler
        found = minutes.sustained_sweep(bencher, Limits(values=(0.25,)), 0.2)
    assert len(found.points) == 10
    assert all(DECODE in point.figures and "own_cpus" in point.seen for point in found.points)
    assert f"{len(bencher.passes)} answered, 0 failed" in found.because


def test_killed_engine_costs_one_request(engine: Engine):
    bencher = bencher_of(engine)
    threading.Timer(6.0, os.kill, (engine.pid, signal.SIGKILL)).start()
    found = minutes.sustained_sweep(bencher, Limits(values=(0.25,)), 2.0)
    assert len(bencher.failures) == 1
    assert bencher.failures[0].kind == "gone"
    assert bencher.passes
    assert "1 lost with the server's process" in found.because
    assert sum(point.seen.get("down_s", 0.0) for point in found.points) == pytest.approx(9.0, abs=2.0)
