"""Fixes in the words of the runtime that they are for."""

from pathlib import Path

import msgspec
import pytest

from unslow.app.read_target import read_stored
from unslow.app.spell import spell, spelled
from unslow.facts.knob import Knob
from unslow.facts.machine import Gpu, Machine, Memory
from unslow.facts.model import Model
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Snapshot, Subject
from unslow.facts.units import GIB
from unslow.facts.values import estimated, reported, told
from unslow.look.runtimes import lookers
from unslow.think.judge import diagnose
from unslow.think.report import Finding, Fix

FOLDER = Path(__file__).parents[1] / "machines" / "h200_llama_server_gpu_layers_set_too_low"


def test_a_recorded_llama_server():
    snapshot = read_stored(str(FOLDER))
    [subject] = spelled(diagnose(snapshot), snapshot).subjects
    assert subject.findings[0].fixes[0].commands[0] == "remove -ngl 20"


@pytest.mark.parametrize("looker", lookers(), ids=lambda looker: looker.NAME)
def test_each_runtime_is_asked_for_its_own_words(looker):
    runtime = Runtime(name=reported(looker.NAME, "x"))
    change = Knob.CONTEXT_LENGTH.to(8192)
    assert spell(change, runtime) == looker.spell(change, runtime)


def test_a_runtime_that_is_not_known_has_no_words():
    assert spell(Knob.THREADS.to(4), Runtime()) == []
    assert spell(Knob.THREADS.to(4), Runtime(name=reported("something else", "x"))) == []


def commands(fix: Fix, cause: str = "x", machine: Machine | None = None, **runtime) -> tuple[str, ...]:
    return said([fix], cause, machine, **runtime)[0].commands


def said(fixes: list[Fix], cause: str = "x", machine: Machine | None = None, **runtime) -> tuple[Fix, ...]:
    """The fixes of one finding, spelled for such a runtime."""
    subject = Subject(runtime=Runtime(**runtime), model=Model(name=reported("gemma3:27b", "x")))
    snapshot = Snapshot(unslow_version="0", machine=machine or Machine(), subjects=(subject,))
    report = diagnose(snapshot)
    finding = Finding(cause=cause, title="", confidence=1.0, because="", evidence=(), fixes=tuple(fixes))
    given = msgspec.structs.replace(report.subjects[0], findings=(finding,))
    return spelled(msgspec.structs.replace(report, subjects=(given,)), snapshot).subjects[0].findings[0].fixes


OLLAMA = {"name": reported("Ollama", "x")}
SHORTER = Fix(knob="context_length", value=None, why="a shorter context")


def test_a_shorter_context_is_half_of_what_it_has():
    assert "num_ctx 16384" in commands(SHORTER, **OLLAMA, context_length=reported(32768, "x"))[0]
    assert "num_ctx N" in commands(SHORTER, **OLLAMA)[0]
    assert "num_ctx N" in commands(SHORTER, **OLLAMA, context_length=reported(4096, "x"))[0], "no shorter than useful"
    one = {"context_length": estimated(8192, "ollama ps: for one request"), "slots": reported(4, "x")}
    assert "num_ctx 4096" in commands(SHORTER, **OLLAMA, **one)[0]
    shared = commands(SHORTER, "model_reloads_between_requests", **OLLAMA, context_length=reported(32768, "x"))
    assert "num_ctx 32768" in shared[0]


def test_the_model_stands_in_the_command_where_it_is_known():
    thinking = Fix(knob="thinking", value=None, why="")
    assert commands(thinking, **OLLAMA)[0] == "ollama run gemma3:27b --think=false"


def test_the_backend_is_the_one_of_the_card():
    seen = Fix(knob="gpu_backend", value=None, why="")
    machine = Machine(gpus=told((Gpu(index=0, name=told("RTX 4070", "x")),), "x"))
    boxed = commands(seen, machine=machine, **OLLAMA, container=reported("docker", "x"))
    assert len(boxed) == 1
    assert "--gpus all" in boxed[0]


def test_a_wired_limit_leaves_room_for_the_system():
    machine = Machine(memory=Memory(total_bytes=told(8 * GIB, "x")))
    wired = Fix(knob="wired_limit", value=8000, why="")
    assert commands(wired, machine=machine, **OLLAMA) == ("sudo sysctl iogpu.wired_limit_mb=6963",)


def test_the_same_commands_are_listed_once():
    capacity = Fix(knob="capacity", value=None, why="more room")
    first, second = said([capacity, capacity], name=reported("vLLM", "x"))
    assert len(first.commands) > 1
    assert (second.commands, second.why) == ((), "more room (as above)")


def test_what_is_set_to_a_value_is_not_said_to_be_removed():
    layers = Fix(knob="gpu_layers", value=None, why="remove the setting: all layers fit")
    (old,) = said([layers], name=reported("llama.cpp", "x"), version=reported("b3500", "x"))
    assert (old.commands, old.why) == (("-ngl 99",), "all layers fit")
    (new,) = said([layers], name=reported("llama.cpp", "x"), version=reported("b9500", "x"))
    assert new.why == layers.why
