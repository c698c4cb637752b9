"""Servers that a benchmark starts: what may be started, which facts are known, and that no process is left behind."""

import sys
import time
from pathlib import Path

import pytest
from doubles import FakeSystem, Quiet

from unslow.commands.bench.bencher import BenchWish
from unslow.commands.bench.server import CommandStarter, EngineStarter, Own, files_of
from unslow.facts.bench import Pass
from unslow.facts.errors import UserError
from unslow.facts.machine import Gpu, Machine, Memory
from unslow.facts.values import reported_fact
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


def test_engine_starts_with_the_given_settings_and_ends(tiny):
    progress = Quiet()
    own = Own.from_request(SYSTEM, Machine(), progress, model=tiny)
    with own.start({"threads": 1, "batch": 128, "ubatch": 32, "context": 512}) as bencher:
        runtime = bencher.subject.runtime
        facts = (runtime.compute.threads, runtime.compute.batch, runtime.compute.ubatch, runtime.context.length)
        assert [fact.need() for fact in facts] == [1, 128, 32, 512]
        assert runtime.embedded
        assert bencher.subject.run.load_s.need() == own.load_s > 0
        assert isinstance(bencher.ask(BenchWish("x", 8, 64)), Pass)
        pid = runtime.process.pid.need()
    assert gone(pid)
    assert [done.case for done in own.passes] == ["x"]
    assert own.failures == []
    assert own.case.runtime.compute.ubatch.need() == 32
    assert own.files() == [tiny]
    assert own.file_bytes() == Path(tiny).stat().st_size
    assert len(progress.said) == 1
    assert "no other server is touched" in progress.said[0]


def test_interrupt_ends_the_engine_and_keeps_its_passes(tiny):
    own = Own.from_request(SYSTEM, Machine(), Quiet(), model=tiny)
    written: list[int] = []
    own.flush = lambda: written.append(len(own.passes))

    def interrupted() -> None:
        with own.start({"threads": 1}) as bencher:
            own.pid = bencher.subject.runtime.process.pid.need()
            bencher.ask(BenchWish("x", 8))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert gone(own.pid)
    assert len(own.passes) == 1
    assert written == [1]


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"command": "nonsense"}, "starts no known server"),
        ({"command": "/nowhere/llama-server -m m"}, "does not exist"),
        ({"command": ""}, "empty"),
        ({"model": "/nowhere/m.gguf"}, "m.gguf"),
    ],
)
def test_invalid_command_or_model_is_refused(asked, message):
    with pytest.raises(UserError, match=message):
        Own.from_request(SYSTEM, Machine(), Quiet(), **asked)


def test_safetensors_model_is_refused_by_the_engine(tmp_path):
    (tmp_path / "model.safetensors").write_bytes(b"\x02\0\0\0\0\0\0\0{}")
    (tmp_path / "config.json").write_text('{"model_type": "llama", "hidden_size": 8, "num_hidden_layers": 1}')
    with pytest.raises(UserError, match="not a GGUF file"):
        Own.from_request(SYSTEM, Machine(), Quiet(), model=str(tmp_path))


def own_with(free_kib: int, starter, machine: Machine | None = None) -> Own:
    system = FakeSystem(files={"/proc/meminfo": f"MemTotal: 99999999 kB\nMemAvailable: {free_kib} kB\n"})
    return Own(system, machine or Machine(), Quiet(), starter)


def test_start_without_enough_memory_is_refused(tiny, wording):
    own = own_with(1, EngineStarter(tiny, "tiny"))
    with pytest.raises(UserError) as caught, own.start({}):
        pass
    wording(str(caught.value))
    assert caught.value.hint
    boxed = Machine(memory=Memory(limit_bytes=reported_fact(1000, "test")))
    with (
        pytest.raises(UserError, match="not enough memory"),
        own_with(10**7, EngineStarter(tiny, "tiny"), boxed).start({}),
    ):
        pass


def test_occupied_gpus_give_a_warning(tiny, program, wording):
    taken = Machine(gpus=reported_fact((Gpu(index=0, vram_free_bytes=reported_fact(10, "test")),), "test"))
    own = own_with(10**7, CommandStarter(parse_command(f"{program} -m {tiny}")), taken)
    own.system = SYSTEM
    with pytest.raises(UserError, match="ended before it answered"), own.start({}):
        pass
    wording(own.progress.said[0])


def test_api_key_is_not_in_the_description(program):
    starter = CommandStarter(parse_command(f"{program} -m m --api-key hunter2"))
    assert "hunter2" not in starter.description()


def test_unknown_setting_is_refused(program, tiny, wording):
    own = Own.from_request(SYSTEM, Machine(), Quiet(), model=tiny)
    assert own.can_set("ubatch")
    with pytest.raises(UserError) as caught:
        own.need("nonsense")
    wording(str(caught.value))
    assert CommandStarter(parse_command(f"{program} -m m")).can_set("ubatch")


def test_model_files_include_every_part(tmp_path):
    parts = [tmp_path / f"m-0000{n}-of-00002.gguf" for n in (1, 2)]
    assert files_of(SYSTEM, str(parts[0])) == [str(part) for part in parts]
    folder = tmp_path / "hf"
    folder.mkdir()
    for name in ("a.safetensors", "config.json"):
        (folder / name).write_bytes(b"")
    assert files_of(SYSTEM, str(folder)) == [str(folder / "a.safetensors")]
    assert files_of(SYSTEM, "/nowhere") == []
    assert files_of(SYSTEM, str(tmp_path / "m-00009-of-00002.gguf")) == [str(tmp_path / "m-00009-of-00002.gguf")]


def test_relative_model_path_is_resolved(program, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert CommandStarter(parse_command(f"{program} -m m.gguf")).model_path() == str(tmp_path / "m.gguf")
    assert CommandStarter(parse_command(f"{program} -hf a/b")).model_path() == ""
