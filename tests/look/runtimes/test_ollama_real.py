"""A real llama-server as a child of Ollama: found by its parent, read from process, log and answers."""

import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from unslow.facts.snapshot import Subject
from unslow.look.engine.made_up_models import ModelCache
from unslow.look.processes import read_processes
from unslow.look.runtimes import llama_cpp, ollama
from unslow.look.system.live import LiveSystem
from unslow.look.system.recorded import RecordedSystem, Recorder

HERE = Path(__file__).parent
RECORDING = HERE / "ollama_recording"
SERVER = os.environ.get("UNSLOW_LLAMA_SERVER", "")


def check(subject: Subject) -> None:
    """Every setting that Ollama passed on, every fact that its child printed."""
    runtime, model = subject.runtime, subject.model
    assert (runtime.name.need(), runtime.version.need(), model.name.need()) == ("Ollama", "0.33.0", "tiny:latest")
    assert "llama-server" in runtime.process.command.need()[0]
    assert (runtime.context.length.need(), runtime.context.per_slot.need(), runtime.scheduling.slots.need()) == (
        8192,
        4096,
        2,
    )
    assert (runtime.cache.type_k.need(), runtime.cache.type_v.need(), runtime.compute.flash_attention.need()) == (
        "q8_0",
        "q8_0",
        True,
    )
    assert (runtime.compute.batch.need(), runtime.compute.ubatch.need(), runtime.compute.threads.need()) == (
        512,
        512,
        2,
    )
    assert runtime.process.environment.need()["OLLAMA_KV_CACHE_TYPE"] == "q8_0"
    assert (runtime.state.need(), runtime.scheduling.keep_alive_s.need(), runtime.context.default.need()) == (
        "loaded",
        300,
        4096,
    )
    assert {(b.device, b.kind) for b in runtime.memory.buffers.need()} >= {("CPU_Mapped", "model"), ("CPU", "kv")}
    assert runtime.placement.devices.need() == []
    assert runtime.memory.vram_share.need() == 0
    assert runtime.cache.bytes.source.startswith("server.log:")
    assert model.weights_bytes.need() > 0
    assert subject.run.load_s.need() == 0.52
    assert subject.contradictions == ()


def test_a_recorded_ollama_child_is_read():
    system = RecordedSystem(RECORDING)
    processes = read_processes(system)
    (server,) = ollama.find(processes)
    assert llama_cpp.find(processes) == []
    (subject,) = ollama.read(server, "")
    check(subject)


@pytest.mark.real
@pytest.mark.skipif(not SERVER, reason="UNSLOW_LLAMA_SERVER names no llama-server")
def test_a_real_ollama_child_is_found_and_read(tmp_path: Path):
    blob = tmp_path / "blobs" / f"sha256-{'ab' * 32}"
    blob.parent.mkdir()
    shutil.copy(ModelCache(tmp_path / "models").model("tiny"), blob)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, str(HERE / "ollama_stand_in.py"), "serve", SERVER, str(blob), str(port)]
    command.append(str(tmp_path / "server.log"))
    variables = {**os.environ, "OLLAMA_HOST": f"127.0.0.1:{port}", "OLLAMA_KV_CACHE_TYPE": "q8_0"}
    with subprocess.Popen(command, env=variables, start_new_session=True) as parent:
        try:
            _wait_for(tmp_path / "server.log")
            live = LiveSystem()
            own = [process for process in read_processes(live) if process.pid == parent.pid]
            (server,) = ollama.find(own)
            folder = Path(os.environ.get("UNSLOW_RECORD_TO", tmp_path / "recording"))
            recorder = Recorder(live, folder)
            ollama.find(read_processes(recorder))
            (subject,) = ollama.read(server._replace(system=recorder), "")
            recorder.close()
            check(subject)
            assert subject.runtime.process.pid.need() != parent.pid
            (by_url,) = ollama.read_url(live, f"http://127.0.0.1:{port}", "")
            assert by_url.model.name.need() == "tiny:latest"
        finally:
            os.killpg(parent.pid, 15)


def _wait_for(log: Path) -> None:
    for _ in range(300):
        if log.exists() and "started in" in log.read_text(encoding="utf-8", errors="replace"):
            return
        time.sleep(0.1)
    pytest.fail("the server did not start")
