"""What to ask next: few commands, those that settle most, and only such as can be run there."""

import pytest
from told import pasted

from unslow.facts.machine import Cpu, Gpu, Machine, System
from unslow.facts.snapshot import Case
from unslow.facts.values import told
from unslow.think.questions import MOST, questions
from unslow.think.report import Untold


def lacks(cause: str, missing: str, *, suspected: bool = False, how_to_get: str = "") -> Untold:
    return Untold(cause=cause, missing=missing, because="", how_to_get=how_to_get, suspected=suspected)


def asked(case: Case, *untold: Untold) -> list[str]:
    return [question.command for question in questions(case, untold)]


OLLAMA = {"name": "Ollama"}
LAYERS = lacks("weights_spill_to_ram", "runtime.gpu_layers")


def test_nothing_open_nothing_asked():
    assert questions(pasted(), ()) == ()
    assert asked(pasted(), lacks("x", "no.such_fact")) == []


def test_the_command_of_the_runtime_at_hand():
    assert asked(pasted(runtime=OLLAMA), LAYERS) == ["ollama ps"]
    assert all("ollama" not in command for command in asked(pasted(runtime={"name": "llama.cpp"}), LAYERS))


@pytest.mark.parametrize(
    ("system", "where"),
    [("Linux", "journalctl"), ("Windows", "%LOCALAPPDATA%"), ("macOS", "~/.ollama/logs"), ("Windows 11", "type")],
)
def test_the_log_where_the_system_keeps_it(system, where):
    (command,) = asked(pasted(runtime=OLLAMA, system=system), lacks("x", "runtime.threads"))
    assert where in command


def test_a_container_has_its_own_log():
    case = pasted(runtime=OLLAMA | {"container": "docker"}, system="Linux")
    assert asked(case, lacks("x", "runtime.threads")) == ["docker logs CONTAINER > ollama.log 2>&1"]
    inside = Case(machine=Machine(system=System(container=told("docker", "p"))), runtime=case.runtime)
    assert asked(inside, lacks("x", "runtime.threads")) == ["docker logs CONTAINER > ollama.log 2>&1"]


def test_tools_of_the_vendor_whose_gpu_it_is():
    held = lacks("other_process_holds_vram", "machine.gpus.0.processes")
    assert asked(pasted(gpus=["RTX 3090"]), held) == ["nvidia-smi"]
    assert asked(pasted(gpus=["RX 7900 XTX"], system="Linux"), held)[0].startswith("rocm-smi")
    assert asked(pasted(gpus=["Apple M2 Max"], system="macOS"), held) == []
    by_maker = Case(machine=Machine(gpus=told((Gpu(index=0, vendor=told("NVIDIA", "p")),), "p")))
    assert asked(by_maker, held) == ["nvidia-smi"]


def test_a_suspicion_is_settled_before_many_guesses():
    quota = lacks("threads_exceed_cpu_quota", "machine.cpu.quota_cpus", suspected=True)
    guesses = [lacks(f"guess_{n}", "runtime.gpu_layers") for n in range(5)]
    first = questions(pasted(runtime=OLLAMA, system="Linux"), (*guesses, quota))[0]
    assert first.settles == ("threads_exceed_cpu_quota",)
    many = [lacks(f"guess_{n}", "runtime.gpu_layers") for n in range(9)]
    assert questions(pasted(runtime=OLLAMA, system="Linux"), (*many, quota))[0].command == "ollama ps"


def test_within_one_command_suspicions_are_named_first():
    guess, suspicion = LAYERS, lacks("kv_cache_on_host", "runtime.vram_share", suspected=True)
    (question,) = questions(pasted(runtime=OLLAMA), (guess, suspicion))
    assert question.settles == ("kv_cache_on_host", "weights_spill_to_ram")


def test_one_of_several_missing_facts_is_enough():
    assert asked(pasted(runtime=OLLAMA), lacks("x", "no.such_fact or runtime.vram_share")) == ["ollama ps"]


def test_a_command_that_the_cause_names_itself():
    named = lacks("x", "no.such_fact", how_to_get="run `ollama ps` while it answers")
    assert asked(pasted(runtime=OLLAMA), named) == ["ollama ps"]


def test_never_more_than_a_few():
    paths = ("runtime.vram_share", "runtime.threads", "run.load_s", "machine.cpu.quota_cpus", "run.gpus")
    untold = [lacks(path, path) for path in paths]
    case = pasted(runtime=OLLAMA, system="Linux", gpus=["RTX 3090"])
    assert len(asked(case, *untold)) == MOST
    assert len(set(asked(case, *untold))) == MOST
    assert len(questions(case, untold, most=1)) == 1


def test_a_runtime_that_is_not_known_is_asked_as_llama_cpp():
    assert any(command.startswith("llama-server") for command in asked(Case(machine=Machine(cpu=Cpu())), LAYERS))
