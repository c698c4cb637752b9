"""What to ask next: few commands, those that settle most, and only ones that can be run there."""

import msgspec
import pytest
from told import pasted

from unslow.facts.machine import Gpu, Machine, System
from unslow.facts.model import Model
from unslow.facts.run import Run
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Case
from unslow.facts.values import reported_fact, told_fact
from unslow.think.case.view import CaseView
from unslow.think.judge.questions import MOST, questions
from unslow.think.report import Untold


def lacks(cause: str, missing: str, *, suspected: bool = False, how_to_get: str = "") -> Untold:
    return Untold(cause=cause, missing=missing, because="", how_to_get=how_to_get, suspected=suspected)


def asked(case: Case, *untold: Untold) -> list[str]:
    return [question.command for question in questions(CaseView(case), untold)]


OLLAMA = {"name": "Ollama"}
LAYERS = lacks("weights_spill_to_ram", "runtime.placement.gpu_layers")


def test_nothing_undetermined_asks_nothing():
    assert questions(CaseView(pasted()), ()) == ()
    assert asked(pasted(runtime=OLLAMA), lacks("x", "no.such_fact")) == []


def test_command_is_of_the_runtime_in_use():
    assert asked(pasted(runtime=OLLAMA), LAYERS) == ["ollama ps"]
    assert all("ollama" not in command for command in asked(pasted(runtime={"name": "llama.cpp"}), LAYERS))


@pytest.mark.parametrize(
    ("system", "where"),
    [("Linux", "journalctl"), ("Windows", "%LOCALAPPDATA%"), ("macOS", "~/.ollama/logs"), ("Windows 11", "type")],
)
def test_log_command_matches_the_operating_system(system, where):
    (command,) = asked(pasted(runtime=OLLAMA, system=system), lacks("x", "runtime.compute.threads"))
    assert where in command


def test_container_uses_docker_logs():
    case = pasted(runtime=OLLAMA | {"container": "docker"}, system="Linux")
    assert asked(case, lacks("x", "runtime.compute.threads")) == ["docker logs CONTAINER > ollama.log 2>&1"]
    inside = Case(machine=Machine(system=System(container=told_fact("docker", "p"))), runtime=case.runtime)
    assert asked(inside, lacks("x", "runtime.compute.threads")) == ["docker logs CONTAINER > ollama.log 2>&1"]


def test_gpu_tools_match_the_vendor():
    held = lacks("other_process_holds_vram", "machine.gpus.0.processes")
    assert asked(pasted(runtime=OLLAMA, gpus=["RTX 3090"]), held) == ["nvidia-smi"]
    assert asked(pasted(runtime=OLLAMA, gpus=["RX 7900 XTX"], system="Linux"), held)[0].startswith("rocm-smi")
    assert asked(pasted(runtime=OLLAMA, gpus=["Apple M2 Max"], system="macOS"), held) == []
    by_maker = Case(
        runtime=pasted(runtime=OLLAMA).runtime,
        machine=Machine(gpus=told_fact((Gpu(index=0, vendor=told_fact("NVIDIA", "p")),), "p")),
    )
    assert asked(by_maker, held) == ["nvidia-smi"]


def test_suspicion_is_settled_before_several_guesses():
    quota = lacks("threads_exceed_cpu_quota", "machine.cpu.quota_cpus", suspected=True)
    guesses = [lacks(f"guess_{n}", "runtime.placement.gpu_layers") for n in range(5)]
    first = questions(CaseView(pasted(runtime=OLLAMA, system="Linux")), (*guesses, quota))[0]
    assert first.settles == ("threads_exceed_cpu_quota",)
    many = [lacks(f"guess_{n}", "runtime.placement.gpu_layers") for n in range(9)]
    assert questions(CaseView(pasted(runtime=OLLAMA, system="Linux")), (*many, quota))[0].command == "ollama ps"


def test_suspicions_are_named_first_within_one_command():
    guess, suspicion = LAYERS, lacks("kv_cache_on_host", "runtime.memory.vram_share", suspected=True)
    (question,) = questions(CaseView(pasted(runtime=OLLAMA)), (guess, suspicion))
    assert question.settles == ("kv_cache_on_host", "weights_spill_to_ram")


def test_one_of_several_alternative_facts_is_enough():
    assert asked(pasted(runtime=OLLAMA), lacks("x", "no.such_fact or runtime.memory.vram_share")) == ["ollama ps"]


def test_command_named_by_the_cause_is_used():
    named = lacks("x", "no.such_fact", how_to_get="run `ollama ps` while it answers")
    assert asked(pasted(runtime=OLLAMA), named) == ["ollama ps"]


def test_number_of_questions_is_limited():
    paths = ("runtime.memory.vram_share", "runtime.compute.threads", "run.load_s", "machine.cpu.quota_cpus", "run.gpus")
    untold = [lacks(path, path) for path in paths]
    case = pasted(runtime=OLLAMA, system="Linux", gpus=["RTX 3090"])
    assert len(asked(case, *untold)) == MOST
    assert len(set(asked(case, *untold))) == MOST
    assert len(questions(CaseView(case), untold, most=1)) == 1


def test_unknown_runtime_asks_for_unslow():
    case = pasted(gpus=["RTX 3090"])
    assert asked(case, LAYERS, lacks("other_process_holds_vram", "machine.gpus.0.processes")) == ["unslow"]
    assert "unslow" not in asked(pasted(runtime=OLLAMA), LAYERS)


SPEED = lacks("x", "account.comparisons or run.decode_tokens_per_s")


def test_pasted_output_is_not_asked_for_again():
    bench = pasted(runtime={"name": "llama.cpp"})
    assert asked(bench, lacks("x", "account.comparisons"))[0].startswith("llama-bench")
    printed = msgspec.structs.replace(bench, run=Run(decode_tokens_per_s=reported_fact(131.0, "p:4")))
    assert asked(printed, lacks("x", "account.comparisons")) == []
    by_word = msgspec.structs.replace(bench, run=Run(decode_tokens_per_s=told_fact(131.0, "p:4")))
    assert asked(by_word, lacks("x", "account.comparisons"))[0].startswith("llama-bench")
    seen = pasted(runtime=OLLAMA | {"vram_share": 0.6})
    shown = Case(runtime=seen.runtime.with_facts(vram_share=reported_fact(0.6, "p:1")))
    assert "ollama ps" not in asked(shown, lacks("x", "runtime.context.length"))


def test_version_comparison_is_asked_only_with_two_versions(wording):
    since = pasted(runtime={"name": "llama.cpp"}, version_since="b9000")
    (command,) = questions(CaseView(since), (lacks("runtime_version_regressed", "account.version_before"),))
    assert command.command.startswith("llama-bench")
    wording(command.why)
    assert questions(CaseView(pasted(runtime={"name": "llama.cpp"})), (lacks("x", "account.version_before"),)) == ()


@pytest.mark.parametrize(
    ("version", "verbose"), [("b9200", True), ("b9150", False), ("b6100-abc", False), ("unknown", True)]
)
def test_verbose_flag_is_asked_only_where_the_build_needs_it(version, verbose):
    case = pasted(runtime={"name": "llama.cpp", "version": version})
    (command,) = asked(case, lacks("x", "runtime.compute.threads"))
    assert ("-lv 4" in command) is verbose


def test_apple_gpu_implies_macos():
    apple = pasted(runtime={"name": "MLX-LM"}, gpus=["Apple M4 Pro"])
    assert asked(apple, lacks("x", "machine.memory.pressure"))[0].startswith("sysctl")
    assert asked(apple, lacks("x", "machine.cpu.quota_cpus")) == []


def test_vulkan_gpu_is_not_asked_for_rocm():
    held = lacks("other_process_holds_vram", "machine.gpus.0.processes")
    case = pasted(runtime={"name": "llama.cpp", "backends": ["Vulkan"]}, gpus=["Radeon 780M"], system="Linux")
    assert asked(case, held) == []


def test_known_facts_are_in_the_command():
    name = Case(runtime=pasted(runtime=OLLAMA).runtime, model=Model(name=reported_fact("gemma3:27b", "p:5")))
    assert "ollama run gemma3:27b --verbose" in asked(name, SPEED)[0]
    by_word = msgspec.structs.replace(name, model=Model(name=told_fact("Gemma 3 27B", "p:5")))
    assert "ollama run MODEL" in asked(by_word, SPEED)[0]
    started = Runtime().with_facts(
        name=reported_fact("llama.cpp", "p"),
        command=reported_fact(["./llama-server", "-m", "a b.gguf", "-ngl", "20"], "p"),
    )
    case = Case(runtime=started)
    assert asked(case, SPEED)[0] == "./llama-server -m 'a b.gguf' -ngl 20 -lv 4 > server.log 2>&1"
    assert "llama-bench -m 'a b.gguf'" in asked(case, lacks("x", "run.prefill_tokens_per_s"))[0]


@pytest.mark.parametrize(
    ("runtime", "word"),
    [
        ("Transformers", "hf_device_map"), ("MLX-LM", "sysctl"), ("KoboldCpp", "koboldcpp"), ("TGI", "/info"),
        ("exllamav2", "torch"), ("llama-cpp-python", "verbose=True"), ("vLLM", "vllm serve"), ("SGLang", "server_info"),
    ],
)  # fmt: skip
def test_every_runtime_has_its_own_commands(runtime, word):
    paths = (
        "runtime.placement.gpu_refused",
        "runtime.cache.capacity_tokens",
        "runtime.compute.attention",
        "machine.memory.pressure",
    )
    case = pasted(runtime={"name": runtime}, system="macOS" if runtime == "MLX-LM" else "Linux")
    assert any(word in command for command in asked(case, *(lacks(path, path) for path in paths)))
