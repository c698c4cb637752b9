import inspect

import pytest

from unslow.facts.knob import Knob
from unslow.facts.model import Model
from unslow.facts.runtime import Runtime
from unslow.facts.values import reported_fact
from unslow.look.command_writer import AtHand
from unslow.look.runtimes import looker_of, lookers, sglang, writer_of
from unslow.look.runtimes.koboldcpp import commands
from unslow.look.runtimes.koboldcpp.flags import find_flags
from unslow.look.runtimes.sglang import FLAGS, requested_settings

MODEL = AtHand(Model(path=reported_fact("/m/a.gguf", "x")), anew=True)
SGLANG = ["python3", "-m", "sglang.launch_server", "--model-path", "m", "--api-key", "secret-secret", "--tp-size", "2"]
KOBOLD = ["koboldcpp", "--model", "/m/a.gguf", "--gpulayers", "10", "--lowvram"]


def test_sglang_flags_read_back_as_the_changes():
    changes = [
        Knob.CONTEXT_LENGTH.to(8192), Knob.PARALLEL.to(16), Knob.BATCH.to(4096), Knob.MEMORY_SHARE.to(0.85),
        Knob.GRAPHS.to(False), Knob.SPLIT_MODE.to(4), Knob.KV_CACHE_TYPE.to("f16"),
    ]  # fmt: skip
    spelled = sglang.commands_for(changes, Runtime().with_facts(command=reported_fact(SGLANG, "x")))
    facts = requested_settings(FLAGS.settings(spelled.argv, {}), complete=True)
    assert spelled.left_out == ()
    assert (facts.context.requested.value, facts.scheduling.max_sequences.value) == (8192, 16)
    assert (
        facts.memory.gpu_memory_fraction.value,
        facts.placement.tensor_parallel.value,
        facts.compute.eager.value,
    ) == (0.85, 4, True)
    assert "secret-secret" in spelled.argv
    assert not any("secret-secret" in line for line in spelled.lines)
    assert sglang.commands_for([Knob.PARALLEL.to(2)], Runtime(), AtHand(anew=True)).argv == ()
    assert sglang.commands_for([Knob.PARALLEL.to(2)], Runtime(), MODEL).argv[:5] == (
        "python3", "-m", "sglang.launch_server", "--model-path", "/m/a.gguf",
    )  # fmt: skip


@pytest.mark.parametrize("change", [Knob.GPU_LAYERS.to(3), Knob.SPLIT_MODE.to("tensor"), Knob.NUMA.to("isolate")])
def test_changes_that_sglang_does_not_support_are_left_out(change):
    ((left, why),) = sglang.commands_for([change], Runtime().with_facts(command=reported_fact(SGLANG, "x"))).left_out
    assert left == change
    assert why


def test_koboldcpp_flags_read_back_as_the_changes():
    changes = [
        Knob.GPU_LAYERS.to(-1), Knob.CONTEXT_LENGTH.to(8192), Knob.KV_CACHE_TYPE.to("q8_0"), Knob.KV_OFFLOAD.to(True),
        Knob.THREADS.to(4), Knob.EXPERTS_ON_CPU.to(5), Knob.QUANT.to("Q8_0"), Knob.MODEL_FILE.to("/m/q8.gguf"),
    ]  # fmt: skip
    spelled = commands.commands_for(changes, Runtime().with_facts(command=reported_fact(KOBOLD, "x")))
    given = {flag.name for flag in find_flags(spelled.argv)}
    assert spelled.left_out == ()
    assert [spelled.argv[at + 1] for at, word in enumerate(spelled.argv) if word == "--model"] == ["/m/q8.gguf"]
    assert "lowvram" not in given
    assert {"gpulayers", "contextsize", "quantkv", "threads", "moecpu"} <= given
    line = "koboldcpp --gpulayers 999 --contextsize 8192 --quantkv 1 --threads 4 --moecpu 5 --model /m/q8.gguf"
    assert spelled.lines == (line,)


@pytest.mark.parametrize(
    "change", [Knob.KV_CACHE_TYPE.to("fp8"), Knob.QUANT.to("Q8_0"), Knob.MODEL_FILE.to("x"), Knob.MEMORY_SHARE.to(0.5)]
)
def test_changes_that_koboldcpp_does_not_support_are_left_out(change):
    ((left, why),) = commands.commands_for([change], Runtime().with_facts(command=reported_fact(KOBOLD, "x"))).left_out
    assert left == change
    assert why


def test_without_a_server_koboldcpp_is_started_with_the_model():
    assert commands.commands_for([Knob.THREADS.to(2)], Runtime(), MODEL).argv[:3] == (
        "koboldcpp",
        "--model",
        "/m/a.gguf",
    )
    assert commands.commands_for([Knob.THREADS.to(2)], Runtime(), AtHand(anew=True)).argv == ()


@pytest.mark.parametrize("name", ["llama.cpp", "Ollama", "vLLM", "LM Studio", "Transformers", "SGLang", "KoboldCpp"])
def test_no_change_gives_no_lines_and_hostile_values_do_not_crash(name):
    writer = writer_of(looker_of(name))
    assert writer.commands_for([], Runtime()).lines == ()
    for value in (None, True, False, -5, 0, 10**30, 1.5, "", "x\n'\"$(rm)", "=", ",,"):
        for knob in Knob:
            for version in ("9.9", "b5500"):
                spelled = writer.commands_for([knob.to(value)], Runtime(version=reported_fact(version, "x")), MODEL)
                assert len(spelled.left_out) <= 1
                assert all(why for _, why in spelled.left_out)
                assert not (spelled.left_out and spelled.argv)


def test_every_commands_for_has_the_same_signature():
    for looker in lookers():
        signature = inspect.signature(writer_of(looker).commands_for)
        assert list(signature.parameters) == ["changes", "runtime", "at_hand"], looker.NAME
