"""Fixes as commands of the runtime that they are for."""

import re
from pathlib import Path

import msgspec
import pytest
from written import one_change

from unslow.commands._command_lines import with_fix_commands
from unslow.commands.diagnose.target import read_stored
from unslow.facts.knob import Knob
from unslow.facts.machine import Gpu, Machine, Memory, System
from unslow.facts.model import Model
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Snapshot, Subject
from unslow.facts.values import GIB, estimated_fact, reported_fact, told_fact
from unslow.look.command_writer import AtHand
from unslow.look.runtimes import lookers
from unslow.think.judge.judge import diagnose
from unslow.think.report import Finding, Fix

FOLDER = Path(__file__).parents[1] / "machines" / "h200_llama_server_gpu_layers_set_too_low"


def test_recorded_llama_server_gets_its_flag_removed():
    snapshot = read_stored(str(FOLDER))
    [subject] = with_fix_commands(diagnose(snapshot), snapshot).subjects
    assert subject.findings[0].fixes[0].commands[0] == "remove -ngl 20"


@pytest.mark.parametrize("looker", lookers(), ids=lambda looker: looker.NAME)
def test_each_runtime_spells_its_own_commands(looker):
    runtime = Runtime(name=reported_fact(looker.NAME, "x"))
    change = Knob.CONTEXT_LENGTH.to(8192)
    fix = Fix(knob=change.knob.value, value=change.value, why="")
    own = one_change(looker, change, runtime, AtHand(Model(name=reported_fact("gemma3:27b", "x"))))
    assert list(commands(fix, name=runtime.name)) == own


def test_unknown_runtime_has_no_commands():
    fix = Fix(knob="threads", value=4, why="")
    assert commands(fix) == commands(fix, name=reported_fact("something else", "x")) == ()


def commands(fix: Fix, cause: str = "x", machine: Machine | None = None, **runtime) -> tuple[str, ...]:
    return said([fix], cause, machine, **runtime)[0].commands


def said(fixes: list[Fix], cause: str = "x", machine: Machine | None = None, **runtime) -> tuple[Fix, ...]:
    """The fixes of one finding, spelled for such a runtime."""
    subject = Subject(runtime=Runtime().with_facts(**runtime), model=Model(name=reported_fact("gemma3:27b", "x")))
    snapshot = Snapshot(unslow_version="0", machine=machine or Machine(), subjects=(subject,))
    report = diagnose(snapshot)
    finding = Finding(cause=cause, title="", confidence=1.0, because="", evidence=(), fixes=tuple(fixes))
    given = msgspec.structs.replace(report.subjects[0], findings=(finding,))
    return with_fix_commands(msgspec.structs.replace(report, subjects=(given,)), snapshot).subjects[0].findings[0].fixes


OLLAMA = {"name": reported_fact("Ollama", "x")}
SHORTER = Fix(knob="context_length", value=None, why="a shorter context")


def test_shorter_context_is_half_the_current_one():
    assert "num_ctx 16384" in commands(SHORTER, **OLLAMA, context_length=reported_fact(32768, "x"))[0]
    assert "num_ctx N" in commands(SHORTER, **OLLAMA)[0]
    assert "num_ctx N" in commands(SHORTER, **OLLAMA, context_length=reported_fact(4096, "x"))[0], (
        "no shorter than useful"
    )
    one = {"context_length": estimated_fact(8192, "ollama ps: for one request"), "slots": reported_fact(4, "x")}
    assert "num_ctx 4096" in commands(SHORTER, **OLLAMA, **one)[0]
    shared = commands(SHORTER, "model_reloads_between_requests", **OLLAMA, context_length=reported_fact(32768, "x"))
    assert "num_ctx 32768" in shared[0]


def test_known_model_name_is_in_the_command():
    thinking = Fix(knob="thinking", value=None, why="")
    assert commands(thinking, **OLLAMA)[0] == "ollama run gemma3:27b --think=false"


def test_gpu_backend_command_matches_the_gpu_and_container():
    seen = Fix(knob="gpu_backend", value=None, why="")
    machine = Machine(gpus=told_fact((Gpu(index=0, name=told_fact("RTX 4070", "x")),), "x"))
    boxed = commands(seen, machine=machine, **OLLAMA, container=reported_fact("docker", "x"))
    assert len(boxed) == 1
    assert "--gpus all" in boxed[0]


def test_wired_limit_leaves_memory_for_the_system():
    machine = Machine(memory=Memory(total_bytes=told_fact(8 * GIB, "x")))
    wired = Fix(knob="wired_limit", value=8000, why="")
    assert commands(wired, machine=machine, **OLLAMA) == ("sudo sysctl iogpu.wired_limit_mb=6963",)


def test_repeated_commands_are_listed_once(wording):
    capacity = Fix(knob="capacity", value=None, why="more room")
    first, second = said([capacity, capacity], name=reported_fact("vLLM", "x"))
    assert len(first.commands) > 1
    assert second.commands == ()
    wording(second.why)


def test_fix_that_sets_a_value_does_not_say_remove():
    layers = Fix(knob="gpu_layers", value=None, why="remove the setting: all layers fit")
    (old,) = said([layers], name=reported_fact("llama.cpp", "x"), version=reported_fact("b3500", "x"))
    assert (old.commands, old.why) == (("-ngl 999",), "all layers fit")
    (new,) = said([layers], name=reported_fact("llama.cpp", "x"), version=reported_fact("b9500", "x"))
    assert new.why == layers.why


WINDOWS = Machine(system=System(name=reported_fact("Microsoft Windows 11 Pro", "x")))
MAC = Machine(system=System(name=reported_fact("macOS 15.6", "x")))
UNIX = re.compile(r"\bunset\b|\bexport\b|\benv -u\b|\bsudo\b|&&|systemctl|\| sh\b")


def test_ollama_variable_is_set_for_the_operating_system():
    slots = Fix(knob="parallel", value=1, why="")
    assert commands(slots, machine=WINDOWS, **OLLAMA)[0] == 'setx OLLAMA_NUM_PARALLEL "1"'
    assert commands(slots, machine=MAC, **OLLAMA)[0] == 'launchctl setenv OLLAMA_NUM_PARALLEL "1"'
    assert any("systemctl" in line for line in commands(slots, **OLLAMA))


HIDDEN = {"CUDA_VISIBLE_DEVICES": "", "GGML_CUDA_DISABLE_GRAPHS": "1", "LLAMA_ARG_THREADS": "1"}
SERVER = {
    "name": reported_fact("llama.cpp", "x"),
    "command": reported_fact(["C:\\llama cpp\\llama-server.exe", "-m", "D:\\m.gguf", "-ngl", "5"], "x"),
    "environment": reported_fact(HIDDEN, "x"),
}
TURNED = [("gpu_backend", None), ("graphs", True), ("threads", 8), ("gpu_layers", None), ("allocator", "a:True"),
          ("power", 300), ("clocks", None), ("context_length", 4096)]  # fmt: skip


@pytest.mark.parametrize(("knob", "value"), TURNED)
@pytest.mark.parametrize("name", ["llama.cpp", "Ollama", "LM Studio", "KoboldCpp", "vLLM"])
def test_windows_commands_need_no_unix_shell(knob, value, name):
    told = SERVER | {"name": reported_fact(name, "x")}
    for line in commands(Fix(knob=knob, value=value, why=""), machine=WINDOWS, **told):
        assert not UNIX.search(line), line


def test_variable_that_hides_the_gpu_is_removed_in_powershell():
    lines = commands(Fix(knob="gpu_backend", value=None, why=""), machine=WINDOWS, **SERVER)
    assert lines[0] == "in PowerShell: Remove-Item Env:CUDA_VISIBLE_DEVICES"
    assert '& "C:\\llama cpp\\llama-server.exe" -m D:\\m.gguf' in lines[-1]


def test_lm_studio_takes_gpu_layers_as_a_share():
    subject = Subject(
        runtime=Runtime(name=reported_fact("LM Studio", "x")), model=Model(layers=reported_fact(48, "gguf"))
    )
    snapshot = Snapshot(unslow_version="0", subjects=(subject,))
    report = diagnose(snapshot)
    fix = Fix(knob="gpu_layers", value=33, why="")
    finding = Finding(cause="x", title="", confidence=1.0, because="", evidence=(), fixes=(fix,))
    given = msgspec.structs.replace(report.subjects[0], findings=(finding,))
    (told,) = (
        with_fix_commands(msgspec.structs.replace(report, subjects=(given,)), snapshot).subjects[0].findings[0].fixes
    )
    assert told.commands[0].endswith("--gpu 0.67")
