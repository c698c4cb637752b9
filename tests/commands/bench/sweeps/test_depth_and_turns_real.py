"""Depth and turns on real servers: the embedded engine, and a llama-server where one is named."""

import os

import pytest
from doubles import Quiet

from unslow.commands.bench.server import Own
from unslow.commands.bench.sweeps import Limits, depth, turns
from unslow.facts.bench import DECODE
from unslow.look.engine.made_up_models import ModelCache
from unslow.look.probes import read_machine
from unslow.look.sampler import Sampler
from unslow.look.system.live import LiveSystem

pytestmark = pytest.mark.real
SYSTEM = LiveSystem()
DEPTHS = (48, 96, 192, 384, 768)
SERVER = os.environ.get("UNSLOW_LLAMA_SERVER", "")
STARTERS = ["engine", pytest.param("server", marks=pytest.mark.skipif(not SERVER, reason="no UNSLOW_LLAMA_SERVER"))]


@pytest.fixture(scope="module", params=STARTERS)
def bencher(request, tmp_path_factory):
    model = str(ModelCache(tmp_path_factory.mktemp("cache")).model("llama_135m"))
    asked = {"model": model} if request.param == "engine" else {"command": f"{SERVER} -m {model} -c 4096 -np 1"}
    own = Own.from_request(SYSTEM, read_machine(SYSTEM)[0], Quiet(), **asked)
    with own.start({}) as bencher, Sampler(SYSTEM, (), 5.0) as sampler:
        bencher.sampler = sampler
        yield bencher


def test_real_server_has_no_cliff_with_depth(bencher):
    found = depth.sweep(bencher, Limits(values=DEPTHS, tokens=16, seconds=300.0))
    assert found.verdict in ("slope", "flat", "drift", "cannot_tell"), found.because
    assert len(found.points) >= 3
    assert [p.at for p in found.points] == pytest.approx(DEPTHS[: len(found.points)], rel=0.15)
    assert all(p.figures[DECODE].median > 0 for p in found.points)
    assert all("others_cpus" in p.seen for p in found.points)
    again = [done for done in bencher.passes if done.case.startswith("depth") and done.round == 2]
    assert all(done.prompt_tokens <= 2 for done in again)


def test_later_turns_compute_only_new_tokens(bencher):
    found = turns.sweep(bencher, Limits(values=(3,), tokens=16, seconds=120.0))
    assert (found.verdict, found.stopped_early) == ("cached", "")
    assert [p.seen["computed_tokens"] <= p.seen["new_tokens"] + 8 for p in found.points] == [True] * 3
