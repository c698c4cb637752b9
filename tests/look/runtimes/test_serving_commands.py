"""Command lines of vLLM, SGLang and TGI in pasted text."""

import pytest

from unslow.facts.values import Unknown
from unslow.look.logs.commands import parse_commands
from unslow.look.logs.dialect import Seen, Text
from unslow.look.runtimes import sglang, tgi
from unslow.look.runtimes.vllm import flags

MODULE = """\
python3 -m vllm.entrypoints.openai.api_server --model org/model-AWQ --enforce-eager \\
  --quantization awq --tensor-parallel-size 2 --max-model-len 8192"""
CONTAINER = """\
docker run --gpus all -p 8000:8000 vllm/vllm-openai:v0.9.2 --model org/model-AWQ --enforce-eager \\
  --quantization awq -tp 2 --max-model-len 8192"""


def read(text: str, module=flags) -> Seen:
    return parse_commands(module.COMMANDS, Text(text.split("\n"), "paste"))


@pytest.mark.parametrize(
    "text",
    ["$ vllm serve org/model-AWQ --enforce-eager --quantization awq -tp 2 --max-model-len 8192", MODULE, CONTAINER],
)
def test_a_command_in_a_report(text):
    seen = read(text)
    runtime = seen.subject.runtime
    assert runtime.name.need() == "vLLM"
    assert (runtime.eager.need(), runtime.quantization.need()) == (True, "awq")
    assert (runtime.tensor_parallel.need(), runtime.context_set.need()) == (2, 8192)
    assert runtime.eager.source == "paste:1"
    assert seen.subject.model.name.need() == "org/model-AWQ"


def test_a_flag_in_a_sentence():
    runtime = read("I start it with --enforce-eager on the command line").subject.runtime
    assert (runtime.name.need(), runtime.eager.need()) == ("vLLM", True)


def test_a_flag_that_several_engines_have_names_none():
    runtime = read("--quantization awq on an AWQ checkpoint").subject.runtime
    assert runtime.quantization.need() == "awq"
    assert isinstance(runtime.name, Unknown)


def test_a_flag_that_is_only_spoken_of():
    assert isinstance(read("it is fast without --enforce-eager").subject.runtime.eager, Unknown)


def test_variables():
    runtime = read("VLLM_ATTENTION_BACKEND=XFORMERS vllm serve m --max-num-seqs 4").subject.runtime
    assert (runtime.attention.need(), runtime.max_sequences.need()) == ("XFORMERS", 4)


def test_keys_stay_out():
    seen = read("vllm serve m --api-key sk-very-secret-0123456789 --max-num-seqs 4")
    assert "very-secret" not in str(seen)


def test_sglang():
    seen = read("python -m sglang.launch_server --model-path org/m --tp 2 --disable-cuda-graph", sglang)
    assert (seen.subject.runtime.name.need(), seen.subject.runtime.eager.need()) == ("SGLang", True)
    assert seen.subject.runtime.tensor_parallel.need() == 2
    assert seen.subject.model.name.need() == "org/m"


def test_tgi():
    seen = read("text-generation-launcher --model-id org/m --quantize awq --max-total-tokens 4096", tgi)
    assert (seen.subject.runtime.name.need(), seen.subject.runtime.quantization.need()) == ("TGI", "awq")
