"""The parts of a token on real servers: the embedded engine, and a llama-server where one is named."""

import os

import pytest
from doubles import Quiet

from unslow.commands.bench.parts import split_parts
from unslow.commands.bench.server import Own
from unslow.commands.bench.sweeps import Limits
from unslow.look.engine.made_up_models import ModelCache
from unslow.look.probes import read_machine
from unslow.look.system.live import LiveSystem

pytestmark = pytest.mark.real
SYSTEM = LiveSystem()
SERVER = os.environ.get("UNSLOW_LLAMA_SERVER", "")
STARTERS = ["engine", pytest.param("server", marks=pytest.mark.skipif(not SERVER, reason="no UNSLOW_LLAMA_SERVER"))]


@pytest.mark.parametrize("starter", STARTERS)
def test_parts_of_a_real_server_sum_to_the_client_time(starter, tmp_path):
    model = str(ModelCache(tmp_path).model("llama_135m"))
    asked = {"model": model} if starter == "engine" else {"command": f"{SERVER} -m {model} -c 2048 -np 1"}
    with Own.from_request(SYSTEM, read_machine(SYSTEM)[0], Quiet(), **asked).start({}) as bencher:
        parts = split_parts(bencher, limits=Limits(tokens=24, repeats=3, seconds=60.0))
        assert parts is not None, bencher.progress.said
        assert bencher.failures == []
    assert parts.rounds == 3
    assert sum(part.seconds for part in parts.parts) == pytest.approx(parts.seconds)
    assert parts.parts[0].name == "step_and_loop"
    assert {"sampling", "streaming", "delivery"} <= {part.name for part in parts.parts}
