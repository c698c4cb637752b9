import inspect

import pytest

from unslow.facts.knob import Knob
from unslow.facts.model import Model
from unslow.facts.runtime import Runtime
from unslow.facts.values import reported
from unslow.look.command_writer import AtHand
from unslow.look.runtimes import looker_of, lookers, sglang
from unslow.look.runtimes.koboldcpp import commands
from unslow.look.runtimes.koboldcpp.flags import spelled_flags
from unslow.look.runtimes.sglang import FLAGS, requested_settings

MODEL = AtHand(Model(path=reported("/m/a.gguf", "x")), anew=True)
SGLANG = ["python3", "-m", "sglang.launch_server", "--model-path", "m", "--api-key", "secret-secret", "--tp-size", "2"]
KOBOLD = ["koboldcpp", "--model", "/m/a.gguf", "--gpulayers", "10", "--lowvram"]


def test_sglang_reads_back_what_is_spelled():
    changes = [
        Knob.CONTEXT_LENGTH.to(8192), Knob.PARALLEL.to(16), Knob.BATCH.to(4096), Knob.MEMORY_SHARE.to(0.85),
        Knob.GRAPHS.to(False), Knob.SPLIT_MODE.to(4), Knob.KV_CACHE_TYPE.to("f16"),
    ]  # fmt: skip
    spelled = sglang.commands_for(changes, Runtime(command=reported(SGLANG, "x")))
    facts = requested_settings(FLAGS.settings(spelled.argv, {}), complete=True)
    assert spelled.left_out == ()
    assert (facts.context_set.value, facts.max_sequences.value) == (8192, 16)
    assert (facts.gpu_memory_fraction.value, facts.tensor_parallel.value, facts.eager.value) == (0.85, 4, True)
    assert "secret-secret" in spelled.argv
    assert not any("secret-secret" in line for line in spelled.lines)
    assert sglang.commands_for([Knob.PARALLEL.to(2)], Runtime(), AtHand(anew=True)).argv == ()
    assert sglang.commands_for([Knob.PARALLEL.to(2)], Runtime(), MODEL).argv[:5] == (
        "python3", "-m", "sglang.launch_server", "--model-path", "/m/a.gguf",
    )  # fmt: skip


@pytest.mark.parametrize("change", [Knob.GPU_LAYERS.to(3), Knob.SPLIT_MODE.to("tensor"), Knob.NUMA.to("isolate")])
def test_sglang_leaves_out_what_it_lacks(change):
    ((left, why),) = sglang.commands_for([change], Runtime(command=reported(SGLANG, "x"))).left_out
    assert left == change
    assert why


def test_koboldcpp_reads_back_what_is_spelled():
    changes = [
        Knob.GPU_LAYERS.to(-1), Knob.CONTEXT_LENGTH.to(8192), Knob.KV_CACHE_TYPE.to("q8_0"), Knob.KV_OFFLOAD.to(True),
        Knob.THREADS.to(4), Knob.EXPERTS_ON_CPU.to(5), Knob.QUANT.to("Q8_0"), Knob.MODEL_FILE.to("/m/q8.gguf"),
    ]  # fmt: skip
    spelled = commands.commands_for(changes, Runtime(command=reported(KOBOLD, "x")))
    given = {flag.name for flag in spelled_flags(spelled.argv)}
    assert spelled.left_out == ()
    assert [spelled.argv[at + 1] for at, word in enumerate(spelled.argv) if word == "--model"] == ["/m/q8.gguf"]
    assert "lowvram" not in given
    assert {"gpulayers", "contextsize", "quantkv", "threads", "moecpu"} <= given
    line = "koboldcpp --gpulayers 999 --contextsize 8192 --quantkv 1 --threads 4 --moecpu 5 --model /m/q8.gguf"
    assert spelled.lines == (line,)


@pytest.mark.parametrize(
    "change", [Knob.KV_CACHE_TYPE.to("fp8"), Knob.QUANT.to("Q8_0"), Knob.MODEL_FILE.to("x"), Knob.MEMORY_SHARE.to(0.5)]
)
def test_koboldcpp_leaves_out_what_it_lacks(change):
    ((left, why),) = commands.commands_for([change], Runtime(command=reported(KOBOLD, "x"))).left_out
    assert left == change
    assert why


def test_koboldcpp_where_nothing_runs():
    assert commands.commands_for([Knob.THREADS.to(2)], Runtime(), MODEL).argv[:3] == (
        "koboldcpp",
        "--model",
        "/m/a.gguf",
    )
    assert commands.commands_for([Knob.THREADS.to(2)], Runtime(), AtHand(anew=True)).argv == ()


@pytest.mark.parametrize("name", ["llama.cpp", "Ollama", "vLLM", "LM Studio", "Transformers", "SGLang", "KoboldCpp"])
def test_no_change_needs_no_line_and_hostile_values_break_nothing(name):
    looker = looker_of(name)
    assert looker.commands_for([], Runtime()).lines == ()
    for value in (None, True, False, -5, 0, 10**30, 1.5, "", "x\n'\"$(rm)", "=", ",,"):
        for knob in Knob:
            for version in ("9.9", "b5500"):
                spelled = looker.commands_for([knob.to(value)], Runtime(version=reported(version, "x")), MODEL)
                assert len(spelled.left_out) <= 1
                assert all(why for _, why in spelled.left_out)
                assert not (spelled.left_out and spelled.argv)


def test_whoever_spells_a_whole_does_so_in_the_same_way():
    able = [looker for looker in lookers() if hasattr(looker, "commands_for")]
    assert len(able) >= 7
    for looker in able:
        assert list(inspect.signature(looker.commands_for).parameters) == ["changes", "runtime", "at_hand"], looker.NAME
