import json
import re
import shlex

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from written import one_change

from unslow.facts.knob import Change, Knob
from unslow.facts.model import Model
from unslow.facts.runtime import Runtime
from unslow.facts.values import reported_fact
from unslow.look.command_writer import AtHand
from unslow.look.runtimes import vllm
from unslow.look.runtimes.vllm.commands import commands_for
from unslow.look.runtimes.vllm.flags import FLAGS, SINCE, UNTIL, model_of, requested_settings

NEW = reported_fact("0.27.1", "x")
SEEN = frozenset({"org/model-awq", "org/draft"})
COMMAND = [
    "/usr/bin/python3", "/usr/bin/vllm", "serve", "org/model", "--api-key", "secret-secret", "--max-model-len=8192",
    "--enforce-eager", "--gpu_memory_utilization", "0.5", "--kv-cache-memory-bytes", "9", "--port", "9",
]  # fmt: skip
VALUES = {
    Knob.MODEL_FILE: st.sampled_from(["/models/other", "org/model-awq"]),
    Knob.MEMORY_SHARE: st.sampled_from([0.5, 0.85, 0.92]),
    Knob.CONTEXT_LENGTH: st.integers(1, 10**6),
    Knob.PARALLEL: st.integers(1, 4096),
    Knob.BATCH: st.integers(1, 65536),
    Knob.KV_CACHE_TYPE: st.sampled_from(["auto", "fp8", "fp8_e5m2", "bfloat16", "nvfp4"]),
    Knob.GRAPHS: st.booleans(),
    Knob.PROMPT_CACHE: st.booleans(),
    Knob.WEIGHTS_TYPE: st.sampled_from(["auto", "bfloat16", "float16"]),
    Knob.ATTENTION: st.sampled_from(["FLASH_ATTN", "TRITON_ATTN"]),
    Knob.SPLIT_MODE: st.integers(1, 8),
    Knob.SPECULATIVE: st.just("org/draft"),
}
FACTS = {
    Knob.MEMORY_SHARE: "gpu_memory_fraction", Knob.CONTEXT_LENGTH: "context_set", Knob.PARALLEL: "max_sequences",
    Knob.BATCH: "max_batched_tokens", Knob.KV_CACHE_TYPE: "kv_type_k", Knob.PROMPT_CACHE: "prompt_cache",
    Knob.WEIGHTS_TYPE: "weights_type", Knob.ATTENTION: "attention", Knob.SPLIT_MODE: "tensor_parallel",
    Knob.SPECULATIVE: "speculative",
}  # fmt: skip


@st.composite
def plans(draw) -> list[Change]:
    knobs = draw(st.lists(st.sampled_from(sorted(VALUES)), unique=True, min_size=1, max_size=len(VALUES)))
    return [knob.to(draw(VALUES[knob])) for knob in knobs]


def as_told(change: Change, argv: tuple[str, ...]) -> object:
    given_settings = FLAGS.settings(argv, {})
    runtime = requested_settings(given_settings, complete=True)
    if change.knob is Knob.MODEL_FILE:
        return model_of(argv, given_settings)
    return (
        not runtime.compute.eager.value
        if change.knob is Knob.GRAPHS
        else runtime.fact(FACTS[change.knob]).value_or("auto")
    )


@settings(max_examples=80)
@given(plans(), st.sampled_from([[], COMMAND, ["python", "-m", "vllm.entrypoints.openai.api_server", "--model", "a"]]))
def test_spelled_vllm_flags_read_back_as_the_changes(changes, command):
    runtime = Runtime().with_facts(
        command=reported_fact(command, "x") if command else Runtime().process.command, version=NEW
    )
    spelled = commands_for(
        changes, runtime, AtHand(Model(name=reported_fact("org/model", "x")), listed=SEEN, anew=True)
    )
    assert spelled.left_out == ()
    assert [as_told(change, spelled.argv) for change in changes] == [change.value for change in changes]
    assert not any("secret-secret" in line for line in spelled.lines)
    if command is COMMAND:
        assert spelled.argv[:3] == tuple(COMMAND[:3])
        assert "secret-secret" in spelled.argv


@settings(max_examples=40)
@given(plans(), st.integers(1, 28), st.integers(0, 9))
def test_no_vllm_version_gets_a_flag_that_it_lacks(changes, minor, patch):
    runtime = Runtime().with_facts(
        command=reported_fact(COMMAND[:4], "x"), version=reported_fact(f"0.{minor}.{patch}", "x")
    )
    spelled = commands_for(changes, runtime, AtHand(listed=SEEN))
    words = [*spelled.argv[4:], *spelled.environment]
    assert all(SINCE.get(word, (0,)) <= (0, minor, patch) < UNTIL.get(word, (99,)) for word in words)


def one(version: str, change: Change, **facts):
    runtime = Runtime().with_facts(
        command=reported_fact(["vllm", "serve", "m"], "x"), version=reported_fact(version, "x"), **facts
    )
    return commands_for([change], runtime, AtHand(listed=SEEN))


def test_old_vllm_versions_get_their_own_flags():
    assert one("0.12.0", Knob.ATTENTION.to("FLASHINFER")).environment == {"VLLM_ATTENTION_BACKEND": "FLASHINFER"}
    assert one("0.15.1", Knob.FLASH_ATTENTION.to(False)).argv[3:] == ("--attention-backend", "TRITON_ATTN")
    assert one("0.7.3", Knob.SPECULATIVE.to("org/draft")).argv[3:5] == ("--speculative-model", "org/draft")
    config = one("0.9.0", Knob.SPECULATIVE.to("org/draft")).argv[-1]
    assert json.loads(config) == {"model": "org/draft", "num_speculative_tokens": 3}


@pytest.mark.parametrize(
    ("version", "change", "why"),
    [
        ("0.2.7", Knob.KV_CACHE_TYPE.to("fp8"), "vLLM 0.2.7 has no fp8 KV cache"),
        ("0.10.2", Knob.KV_CACHE_TYPE.to("bfloat16"), "vLLM 0.10.2 has no bfloat16 KV cache"),
        ("0.27.1", Knob.KV_CACHE_TYPE.to("q4_0"), "vLLM has no q4_0 KV cache"),
        ("0.27.1", Knob.VALUE_CACHE_TYPE.to("fp8"), "vLLM has one type for keys and values"),
        ("0.6.0", Knob.PROMPT_CACHE.to(False), "vLLM 0.6.0 has no --no-enable-prefix-caching, which came with 0.6.5"),
        (
            "0.27.1",
            Knob.MODEL_FILE.to("org/never-seen"),
            "org/never-seen is neither a folder on this machine nor a known checkpoint",
        ),
        ("0.27.1", Knob.SPECULATIVE.to("org/never-seen"), "org/never-seen is neither a folder on this machine"),
        ("0.27.1", Knob.QUANT.to("AWQ"), "no checkpoint of this model as AWQ is known"),
        ("0.27.1", Knob.SPLIT_MODE.to("layer"), "the number of GPUs is unknown"),
        ("0.27.1", Knob.GPU_LAYERS.to(20), "vLLM computes no layers on the CPU beside a GPU"),
        ("0.27.1", Knob.MEMORY_SHARE.to(2), "2 is not between 0 and 1"),
        ("0.27.1", Knob.THREADS.to(4), "vLLM uses CPU threads only when it runs on the CPU"),
        ("0.27.1", Knob.EXPERTS_ON_CPU.to(4), "vLLM has no setting for it"),
    ],
)
def test_changes_that_vllm_does_not_support_are_left_out(version, change, why):
    ((left, said),) = one(version, change).left_out
    assert left == change
    assert said.startswith(why)


def test_cache_quant_and_eager_changes_use_the_nearest_vllm_flags():
    assert one("0.27.1", Knob.KV_CACHE_TYPE.to("q8_0")).argv[3:] == ("--kv-cache-dtype", "fp8")
    assert one("0.27.1", Knob.QUANT.to("fp8")).argv[3:] == ("--quantization", "fp8")
    assert one("0.27.1", Knob.QUANT.to("fp8"), quantization=reported_fact("awq", "x")).left_out
    stages = one("0.27.1", Knob.SPLIT_MODE.to("layer"), tensor_parallel=reported_fact(4, "x"))
    assert stages.argv[3:] == ("--pipeline-parallel-size", "4")
    assert one("0.27.1", Knob.DEVICE.to("CUDA1")).lines == ("CUDA_VISIBLE_DEVICES=1 vllm serve m",)
    both = commands_for(
        [Knob.GRAPHS.to(False), Knob.COMPILE.to(False)],
        Runtime().with_facts(command=reported_fact(["vllm", "serve", "m"], "x")),
    )
    assert both.argv == ("vllm", "serve", "m", "--enforce-eager")


@pytest.mark.parametrize(
    "at_hand", [AtHand(), AtHand(Model(name=reported_fact("llama-3.1-8b", "our own name for it")))]
)
def test_without_a_servable_model_the_line_says_so(at_hand, wording):
    spelled = commands_for([Knob.PARALLEL.to(4)], Runtime(), at_hand._replace(anew=True))
    assert spelled.argv == ()
    note, line = spelled.lines
    wording(note, tells="`vllm serve`")
    assert line == "vllm serve --max-num-seqs 4"


KNOB_VALUES = (None, True, False, -1, 1, 4, 0.5, "layer", "layer 2", "none", "q8_0", "q4_0", "f16", "bf16", "fp8", "x",
               "CUDA1", "TRITON_ATTN", "awq_marlin", "all blocks", "DRAFT_MODEL", "/models/other")  # fmt: skip
BY_HAND = (Knob.GPU_BACKEND, Knob.VERSION, Knob.THINKING, Knob.OTHER_PROCESS)
EVERY_FLAG = [
    "vllm", "serve", "m", "--max-model-len", "8192", "--kv-cache-dtype", "fp8", "--max-num-seqs", "8",
    "--dtype", "half", "--max-num-batched-tokens", "99", "-tp", "2", "--cpu-offload-gb", "4", "--enforce-eager",
    "--quantization", "awq", "--speculative-config", "{}", "--enable-prefix-caching", "--gpu-memory-utilization", "0.5",
    "--attention-backend", "FLASHINFER", "--num-gpu-blocks-override", "500",
]  # fmt: skip


def whole_command(line: str) -> tuple[dict[str, str], tuple[str, ...]]:
    """Variables in front of a line for a shell, and the words of the command."""
    words = shlex.split(line)
    start = words.index("vllm")
    return dict(word.split("=", 1) for word in words[:start]), tuple(words[start:])


@pytest.mark.parametrize("knob", Knob)
@pytest.mark.parametrize("command", [EVERY_FLAG, ["vllm", "serve", "m"]], ids=["every flag", "no flag"])
@pytest.mark.parametrize("version", ["0.9.2", "0.27.1"])
@pytest.mark.parametrize("device", ["cuda", "cpu"])
def test_a_single_change_equals_the_same_change_in_a_plan(knob, command, version, device):
    facts = {"version": reported_fact(version, "x"), "device_used": reported_fact(device, "x")}
    runtime = Runtime().with_facts(command=reported_fact(command, "x"), **facts)
    for value in KNOB_VALUES:
        lines, plan = one_change(vllm, knob.to(value), runtime), commands_for([knob.to(value)], runtime)
        if knob in BY_HAND or (knob is Knob.CAPACITY and value != "all blocks"):
            assert plan.left_out, value
        elif knob is Knob.QUANT:  # beside the checkpoint to look for, what can be made of the one that is there
            assert not plan.argv or shlex.join(plan.argv[-2:]) in lines
        elif plan.left_out:
            assert len(lines) <= 1, (value, lines)  # at most a fragment, with a place to fill in
            assert not lines or re.search(r"\bN\b|NUMBER|DRAFT_MODEL", lines[0]), (value, lines)
        elif not lines:
            assert (list(plan.argv), plan.environment) == (command, {}), value
        else:
            assert whole_command(lines[-1]) == (plan.environment, plan.argv), value


@pytest.mark.parametrize("knob", [Knob.CONTEXT_LENGTH, Knob.PARALLEL, Knob.BATCH, Knob.MEMORY_SHARE, Knob.FIT_MARGIN])
def test_an_unknown_number_becomes_a_placeholder(knob, wording):
    runtime = Runtime().with_facts(command=reported_fact(EVERY_FLAG, "x"), version=NEW)
    (fragment,) = one_change(vllm, knob.to(None), runtime)
    assert fragment.endswith(" N")
    ((change, why),) = commands_for([knob.to(None)], runtime).left_out
    assert change == knob.to(None)
    wording(why)


def test_fit_sets_max_model_len_auto_and_margin_sets_memory_utilization():
    assert one("0.27.1", Knob.FIT.to(True)).argv[3:] == ("--max-model-len", "auto")
    assert one("0.27.1", Knob.FIT_MARGIN.to(0.93)).argv[3:] == ("--gpu-memory-utilization", "0.93")
    both = commands_for(
        [Knob.FIT.to(True), Knob.CONTEXT_LENGTH.to(4096)],
        Runtime().with_facts(command=reported_fact(["vllm", "serve", "m"], "x")),
    )
    assert both.argv[3:] == ("--max-model-len", "4096")
