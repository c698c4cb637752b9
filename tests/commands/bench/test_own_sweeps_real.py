"""Sweeps on real servers that are started for them: the embedded engine, and a llama-server where one is named."""

import os
import re
from pathlib import Path
from threading import Thread

import pytest
from doubles import Quiet

from unslow.commands.bench.bencher import BenchWish
from unslow.commands.bench.server import Own
from unslow.commands.bench.sweeps import Limits, module_of
from unslow.facts.bench import DECODE, LOAD, PREFILL
from unslow.look.bench.page_cache import read_cached_share
from unslow.look.engine.made_up_models import ModelCache
from unslow.look.probes import read_machine
from unslow.look.system.live import LiveSystem

pytestmark = pytest.mark.real
SYSTEM = LiveSystem()
SERVER = os.environ.get("UNSLOW_LLAMA_SERVER", "")
needs_server = pytest.mark.skipif(not SERVER, reason="UNSLOW_LLAMA_SERVER names no llama-server")


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> str:
    return str(ModelCache(tmp_path_factory.mktemp("cache")).model("llama_135m"))


@pytest.fixture(scope="module")
def machine():
    return read_machine(SYSTEM)[0]


def running(word: str) -> list[str]:
    """The processes that have this word on their command line."""
    found = []
    for folder in Path("/proc").iterdir():
        try:
            line = (folder / "cmdline").read_bytes() if folder.name.isdecimal() else b""
        except OSError:
            continue
        if word.encode() in line and folder.name != str(os.getpid()):
            found.append(folder.name)
    return found


def test_threads_sweep_on_the_real_engine(model, machine):
    own = Own.from_request(SYSTEM, machine, Quiet(), model=model)
    swept = module_of("threads").sweep(own, Limits(tokens=16, repeats=2, seconds=90))
    assert swept.verdict in ("best_found", "flat", "current_is_best", "cannot_tell")
    assert all({DECODE, PREFILL, LOAD} <= set(point.figures) for point in swept.points)
    assert len(own.passes) >= 2 * len(swept.points)
    assert own.failures == []
    assert running(model) == []


def test_cold_load_reads_the_file_from_disk(model, machine):
    own = Own.from_request(SYSTEM, machine, Quiet(), model=model)
    swept = module_of("load").sweep(own, Limits())
    size = Path(model).stat().st_size
    if len(swept.points) == 1:
        pytest.skip(swept.because)
    cold, warm = swept.points
    assert cold.seen["disk_read_bytes"] >= 0.9 * size
    assert warm.seen["disk_read_bytes"] <= 0.1 * size
    assert read_cached_share(SYSTEM, [model]) == 1.0
    assert running(model) == []


@needs_server
def test_ubatch_sweep_on_a_llama_server(model, machine):
    own = Own.from_request(SYSTEM, machine, Quiet(), command=f"{SERVER} -m {model} -c 1024 -t 1 -ub 64")
    swept = module_of("ubatch").sweep(own, Limits(values=(32, 128), repeats=2, seconds=120))
    assert [point.at for point in swept.points] == [32, 128]
    assert all(point.figures[PREFILL].count == 2 for point in swept.points)
    assert own.case.runtime.compute.ubatch.need() == 64
    assert running(model) == []


@needs_server
def test_generating_llama_server_is_terminated(model, machine):
    own = Own.from_request(SYSTEM, machine, Quiet(), command=f"{SERVER} -m {model} -c 4096 -t 1")
    with own.start({}) as bencher:
        Thread(target=bencher.ask, args=(BenchWish("long", 4000),), daemon=True).start()
        SYSTEM.sleep(1.0)
        assert re.search(r"llama-server", " ".join(bencher.subject.runtime.process.command.need()))
    assert running(model) == []


@needs_server
def test_file_mapped_by_another_process_is_not_dropped_from_the_page_cache(model, machine):
    own = Own.from_request(SYSTEM, machine, Quiet(), command=f"{SERVER} -m {model} -c 1024 -t 1")
    with own.start({}) as other:
        pid = other.subject.runtime.process.pid.need()
        swept = module_of("load").sweep(own, Limits())
    assert swept.verdict == "cannot_tell"
    assert f"process {pid} has the model file mapped" in swept.because
