"""Servers of our own: what may be started, what is known of it, and that nothing is left behind."""

import sys
import time
from pathlib import Path

import pytest
from doubles import FakeSystem, Quiet

from unslow.commands.bench.bencher import Wanted
from unslow.commands.bench.server import CommandStarter, EngineStarter, Own, files_of
from unslow.facts.bench import Pass
from unslow.facts.errors import UserError
from unslow.facts.machine import Gpu, Machine, Memory
from unslow.facts.values import reported
from unslow.look.engine.made_up_models import ModelCache
from unslow.look.launch.command import parse_command
from unslow.look.system.live import LiveSystem

SYSTEM = LiveSystem()
SERVER = f"#!{sys.executable}\n"


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> str:
    return str(ModelCache(tmp_path_factory.mktemp("cache")).model("tiny"))


@pytest.fixture
def program(tmp_path) -> str:
    path = tmp_path / "llama-server"
    path.write_text(SERVER)
    path.chmod(0o755)
    return str(path)


def gone(pid: int) -> bool:
    for _ in range(200):
        if not Path(f"/proc/{pid}").exists():
            return True
        time.sleep(0.05)
    return False


def test_the_engine_with_settings(tiny):
    progress = Quiet()
    own = Own.from_request(SYSTEM, Machine(), progress, model=tiny)
    with own.started({"threads": 1, "batch": 128, "ubatch": 32, "context": 512}) as bencher:
        runtime = bencher.subject.runtime
        facts = (runtime.threads, runtime.batch, runtime.ubatch, runtime.context_length)
        assert [fact.need() for fact in facts] == [1, 128, 32, 512]
        assert runtime.embedded
        assert bencher.subject.run.load_s.need() == own.load_s > 0
        assert isinstance(bencher.ask(Wanted("x", 8, 64)), Pass)
        pid = runtime.pid.need()
    assert gone(pid)
    assert [done.case for done in own.passes] == ["x"]
    assert own.failures == []
    assert own.case.runtime.ubatch.need() == 32
    assert own.files() == [tiny]
    assert own.file_bytes() == Path(tiny).stat().st_size
    assert len(progress.said) == 1
    assert "no other is touched" in progress.said[0]


def test_an_interrupt_ends_the_engine_and_keeps_the_ledger(tiny):
    own = Own.from_request(SYSTEM, Machine(), Quiet(), model=tiny)
    written: list[int] = []
    own.flush = lambda: written.append(len(own.passes))

    def interrupted() -> None:
        with own.started({"threads": 1}) as bencher:
            own.pid = bencher.subject.runtime.pid.need()
            bencher.ask(Wanted("x", 8))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert gone(own.pid)
    assert len(own.passes) == 1
    assert written == [1]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"command": "nonsense"}, "no server that can be started"),
        ({"command": "/nowhere/llama-server -m m"}, "is not there"),
        ({"command": ""}, "empty"),
        ({"model": "/nowhere/m.gguf"}, "m.gguf"),
    ],
)
def test_what_can_not_be_started(asked, message):
    with pytest.raises(UserError, match=message):
        Own.from_request(SYSTEM, Machine(), Quiet(), **asked)


def test_a_model_that_the_engine_can_not_read(tmp_path):
    (tmp_path / "model.safetensors").write_bytes(b"\x02\0\0\0\0\0\0\0{}")
    (tmp_path / "config.json").write_text('{"model_type": "llama", "hidden_size": 8, "num_hidden_layers": 1}')
    with pytest.raises(UserError, match="no GGUF file"):
        Own.from_request(SYSTEM, Machine(), Quiet(), model=str(tmp_path))


def own_with(free_kib: int, starter, machine: Machine | None = None) -> Own:
    system = FakeSystem(files={"/proc/meminfo": f"MemTotal: 99999999 kB\nMemAvailable: {free_kib} kB\n"})
    return Own(system, machine or Machine(), Quiet(), starter)


def test_no_second_copy_where_there_is_no_room(tiny, wording):
    own = own_with(1, EngineStarter(tiny, "tiny"))
    with pytest.raises(UserError) as caught, own.started({}):
        pass
    wording(str(caught.value))
    assert caught.value.hint
    boxed = Machine(memory=Memory(limit_bytes=reported(1000, "test")))
    with pytest.raises(UserError, match="no room"), own_with(10**7, EngineStarter(tiny, "tiny"), boxed).started({}):
        pass


def test_a_word_where_the_gpus_are_taken(tiny, program, wording):
    taken = Machine(gpus=reported((Gpu(index=0, vram_free_bytes=reported(10, "test")),), "test"))
    own = own_with(10**7, CommandStarter(parse_command(f"{program} -m {tiny}")), taken)
    own.system = SYSTEM
    with pytest.raises(UserError, match="ended before it answered"), own.started({}):
        pass
    wording(own.progress.said[0])


def test_secrets_are_not_said(program):
    starter = CommandStarter(parse_command(f"{program} -m m --api-key hunter2"))
    assert "hunter2" not in starter.described()


def test_settings_that_there_are(program, tiny, wording):
    own = Own.from_request(SYSTEM, Machine(), Quiet(), model=tiny)
    assert own.can_set("ubatch")
    with pytest.raises(UserError) as caught:
        own.need("nonsense")
    wording(str(caught.value))
    assert CommandStarter(parse_command(f"{program} -m m")).can_set("ubatch")


def test_the_files_of_a_model(tmp_path):
    parts = [tmp_path / f"m-0000{n}-of-00002.gguf" for n in (1, 2)]
    assert files_of(SYSTEM, str(parts[0])) == [str(part) for part in parts]
    folder = tmp_path / "hf"
    folder.mkdir()
    for name in ("a.safetensors", "config.json"):
        (folder / name).write_bytes(b"")
    assert files_of(SYSTEM, str(folder)) == [str(folder / "a.safetensors")]
    assert files_of(SYSTEM, "/nowhere") == []
    assert files_of(SYSTEM, str(tmp_path / "m-00009-of-00002.gguf")) == [str(tmp_path / "m-00009-of-00002.gguf")]


def test_a_relative_model_is_found(program, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert CommandStarter(parse_command(f"{program} -m m.gguf")).model_path() == str(tmp_path / "m.gguf")
    assert CommandStarter(parse_command(f"{program} -hf a/b")).model_path() == ""
