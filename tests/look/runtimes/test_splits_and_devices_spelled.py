"""Split and device changes in the options of each server."""

import pytest
from written import one_change

from unslow.facts.knob import Change, Knob
from unslow.facts.runtime import Runtime
from unslow.facts.values import reported_fact
from unslow.look.runtimes import looker_of


def spelled(name: str, knob: Knob, value) -> str:
    return one_change(looker_of(name), Change(knob, value), Runtime(name=reported_fact(name, "test")))[0]


@pytest.mark.parametrize(
    ("name", "mode", "words"),
    [
        ("vLLM", "none", "--tensor-parallel-size 1"),
        ("vLLM", "layer", "--pipeline-parallel-size N"),
        ("vLLM", 2, "--tensor-parallel-size 2"),
        ("SGLang", "none", "--tp-size 1"),
        ("SGLang", "layer", "--pp-size N"),
        ("TGI", "none", "--num-shard 1"),
        ("TGI", "layer", "--num-shard N"),
        ("llama.cpp", "none", "-sm none"),
    ],
)
def test_a_split_mode_is_spelled_for_each_runtime(name, mode, words):
    assert spelled(name, Knob.SPLIT_MODE, mode) == words


def test_a_device_is_selected_by_its_number():
    assert spelled("vLLM", Knob.DEVICE, "CUDA1") == "CUDA_VISIBLE_DEVICES=1"
    assert spelled("vLLM", Knob.DEVICE, "NVIDIA GeForce RTX 4060") == "CUDA_VISIBLE_DEVICES=NUMBER"
    assert spelled("vLLM", Knob.DEVICE, None) == "CUDA_VISIBLE_DEVICES=NUMBER"


def test_a_requested_draft_model_is_added():
    assert spelled("llama.cpp", Knob.SPECULATIVE, "DRAFT_MODEL").startswith("-md DRAFT_MODEL")
    assert "DRAFT_MODEL" in spelled("vLLM", Knob.SPECULATIVE, "DRAFT_MODEL")
    assert spelled("Ollama", Knob.SPECULATIVE, "DRAFT_MODEL").endswith("draft_num_predict 4")
