"""vLLM, SGLang and TGI command lines in pasted text."""

import pytest

from unslow.facts.values import Unknown
from unslow.look.logs.commands import parse_commands
from unslow.look.logs.dialect import LogFacts, Text
from unslow.look.runtimes import sglang, tgi
from unslow.look.runtimes.vllm import flags

MODULE = """\
python3 -m vllm.entrypoints.openai.api_server --model org/model-AWQ --enforce-eager \\
  --quantization awq --tensor-parallel-size 2 --max-model-len 8192"""
CONTAINER = """\
docker run --gpus all -p 8000:8000 vllm/vllm-openai:v0.9.2 --model org/model-AWQ --enforce-eager \\
  --quantization awq -tp 2 --max-model-len 8192"""


def read(text: str, module=flags) -> LogFacts:
    return parse_commands(module.COMMANDS, Text(text.split("\n"), "paste"))


@pytest.mark.parametrize(
    "text",
    ["$ vllm serve org/model-AWQ --enforce-eager --quantization awq -tp 2 --max-model-len 8192", MODULE, CONTAINER],
)
def test_a_pasted_vllm_command_is_parsed(text):
    seen = read(text)
    runtime = seen.subject.runtime
    assert runtime.name.need() == "vLLM"
    assert (runtime.compute.eager.need(), runtime.compute.quantization.need()) == (True, "awq")
    assert (runtime.placement.tensor_parallel.need(), runtime.context.requested.need()) == (2, 8192)
    assert runtime.compute.eager.source == "paste:1"
    assert seen.subject.model.name.need() == "org/model-AWQ"


def test_a_unique_vllm_flag_in_a_sentence_names_vllm():
    runtime = read("I start it with --enforce-eager on the command line").subject.runtime
    assert (runtime.name.need(), runtime.compute.eager.need()) == ("vLLM", True)


def test_a_flag_of_several_engines_names_none():
    runtime = read("--quantization awq on an AWQ checkpoint").subject.runtime
    assert runtime.compute.quantization.need() == "awq"
    assert isinstance(runtime.name, Unknown)


def test_a_negated_flag_is_ignored():
    assert isinstance(read("it is fast without --enforce-eager").subject.runtime.compute.eager, Unknown)


def test_vllm_variables_before_a_command_are_parsed():
    runtime = read("VLLM_ATTENTION_BACKEND=XFORMERS vllm serve m --max-num-seqs 4").subject.runtime
    assert (runtime.compute.attention.need(), runtime.scheduling.max_sequences.need()) == ("XFORMERS", 4)


def test_keys_in_a_pasted_vllm_command_are_masked():
    seen = read("vllm serve m --api-key sk-very-secret-0123456789 --max-num-seqs 4")
    assert "very-secret" not in str(seen)


def test_a_pasted_sglang_command_is_parsed():
    seen = read("python -m sglang.launch_server --model-path org/m --tp 2 --disable-cuda-graph", sglang)
    assert (seen.subject.runtime.name.need(), seen.subject.runtime.compute.eager.need()) == ("SGLang", True)
    assert seen.subject.runtime.placement.tensor_parallel.need() == 2
    assert seen.subject.model.name.need() == "org/m"


def test_a_pasted_tgi_command_is_parsed():
    seen = read("text-generation-launcher --model-id org/m --quantize awq --max-total-tokens 4096", tgi)
    assert (seen.subject.runtime.name.need(), seen.subject.runtime.compute.quantization.need()) == ("TGI", "awq")
