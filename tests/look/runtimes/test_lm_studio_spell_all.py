import json
import re

import pytest

from unslow.facts.knob import Knob
from unslow.facts.model import Model
from unslow.facts.runtime import Runtime
from unslow.facts.values import reported_fact
from unslow.look.command_writer import AtHand
from unslow.look.runtimes.lm_studio.commands import commands_for

MODEL = AtHand(Model(name=reported_fact("qwen3-8b", "x")), listed=frozenset({"qwen3-8b@q8_0", "qwen3-0.6b"}))
LOADED = Runtime().with_facts(
    state=reported_fact("loaded", "x"), layers=reported_fact(36, "x"), url=reported_fact("http://127.0.0.1:7", "x")
)


def test_flags_of_lms_load_are_combined_in_one_command():
    changes = [
        Knob.GPU_LAYERS.to(18), Knob.CONTEXT_LENGTH.to(8192), Knob.PARALLEL.to(2), Knob.KEEP_ALIVE.to(600),
        Knob.SPECULATIVE.to("qwen3-0.6b"),
    ]  # fmt: skip
    spelled = commands_for(changes, LOADED, MODEL)
    flags = "--gpu 0.5 --context-length 8192 --parallel 2 --ttl 600"
    draft = "--speculative-draft-simple --speculative-draft-model qwen3-0.6b"
    assert spelled.lines == (f"lms unload qwen3-8b && lms load qwen3-8b {flags} {draft}",)
    assert spelled.argv[:5] == ("lms", "load", "qwen3-8b", "--gpu", "0.5")
    assert spelled.left_out == ()
    anew = commands_for([Knob.GPU_LAYERS.to(-1)], Runtime(), MODEL._replace(anew=True))
    assert anew.lines == ("lms load qwen3-8b --gpu max",)


def test_changes_that_only_the_api_supports_use_a_load_request():
    changes = [
        Knob.FLASH_ATTENTION.to(True),
        Knob.BATCH.to(1024),
        Knob.CONTEXT_LENGTH.to(4096),
        Knob.KV_OFFLOAD.to(False),
    ]
    (line,) = commands_for(changes, LOADED, MODEL).lines
    assert line.startswith("lms unload qwen3-8b && curl http://127.0.0.1:7/api/v1/models/load ")
    assert json.loads(re.search(r"-d '(.*)'$", line)[1]) == {
        "model": "qwen3-8b", "flash_attention": True, "eval_batch_size": 1024, "context_length": 4096,
        "offload_kv_cache_to_gpu": False,
    }  # fmt: skip


def test_changes_that_only_the_app_supports_are_instructions_before_the_load():
    changes = [Knob.FLASH_ATTENTION.to(True), Knob.KV_CACHE_TYPE.to("q8_0"), Knob.GPU_LAYERS.to(36)]
    assert commands_for(changes, LOADED, MODEL).lines == (
        "by hand: My Models > gear > Load: Flash Attention = on",
        "by hand: My Models > gear > Load: K Cache Quantization Type = q8_0",
        "by hand: My Models > gear > Load: V Cache Quantization Type = q8_0",
        "lms unload qwen3-8b && lms load qwen3-8b --gpu max",
    )


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (Knob.MODEL_FILE.to("llama-9@q4"), "LM Studio does not list llama-9@q4"),
        (Knob.SPECULATIVE.to("/m/d.gguf"), "LM Studio does not list /m/d.gguf"),
        (Knob.TENSOR_OVERRIDE.to("a=CPU"), "LM Studio has no setting for it"),
    ],
)
def test_changes_that_lm_studio_does_not_support_are_left_out(change, why):
    spelled = commands_for([change], Runtime(), MODEL)
    ((left, said),) = spelled.left_out
    assert left == change
    assert said.startswith(why)
    assert spelled.lines == ()


def test_another_listed_quant_is_loaded_and_an_unnamed_model_has_a_placeholder(wording):
    changes = [Knob.QUANT.to("Q8_0"), Knob.MODEL_FILE.to("qwen3-8b@q8_0")]
    assert commands_for(changes, LOADED, MODEL).lines == ("lms unload qwen3-8b && lms load qwen3-8b@q8_0",)
    line, note = commands_for([Knob.PARALLEL.to(2)], Runtime(), AtHand(anew=True)).lines
    assert line == "lms load MODEL --parallel 2"
    wording(note, tells="`lms ls`")


def test_unknown_lm_studio_values_become_placeholders(wording):
    layers = commands_for([Knob.GPU_LAYERS.to(18)], Runtime(), MODEL)
    assert layers.lines == ("lms unload qwen3-8b && lms load qwen3-8b --gpu SHARE",)
    wording(layers.left_out[0][1])
    quant = commands_for([Knob.QUANT.to("Q8_0")], Runtime(), MODEL)
    assert quant.lines == ("lms get qwen3-8b@q8_0",)
    wording(quant.left_out[0][1], tells="Q8_0")
