import shlex

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unslow.facts.knob import Change, Knob
from unslow.facts.model import Model
from unslow.facts.runtime import ALL_LAYERS, Runtime
from unslow.facts.values import MIB, reported_fact
from unslow.look.command_writer import AtHand
from unslow.look.command_writer.starters import Unit
from unslow.look.gguf_server_flags import parse_settings
from unslow.look.runtimes._gguf_server import requested_settings
from unslow.look.runtimes.llama_cpp.commands import commands_for
from unslow.look.runtimes.llama_cpp.flags import SINCE

NEW = reported_fact("b10500-abc", "x")
COMMAND = [
    "/usr/bin/llama-server", "-hf", "some/model:Q4_K_M", "--api-key", "secret-secret", "-ngl", "20", "--n-cpu-moe", "3",
    "--no-mmap", "-nkvo", "-fa", "off", "--port", "9",
]  # fmt: skip
CACHE_TYPES = ["f16", "bf16", "q8_0", "q4_0", "q5_1", "iq4_nl"]
VALUES = {
    Knob.MODEL_FILE: st.sampled_from(["/models/a b.gguf", "it's.GGUF"]),
    Knob.GPU_LAYERS: st.sampled_from([-1, 0, 7, 99]),
    Knob.EXPERTS_ON_CPU: st.integers(1, 90),
    Knob.TENSOR_OVERRIDE: st.sampled_from([r"blk\.(1|2)\.ffn_.*=CPU", "a=CPU,b=CUDA0"]),
    Knob.CONTEXT_LENGTH: st.integers(1, 10**6),
    Knob.KV_CACHE_TYPE: st.sampled_from(CACHE_TYPES),
    Knob.VALUE_CACHE_TYPE: st.sampled_from(CACHE_TYPES),
    Knob.FLASH_ATTENTION: st.just(value=True),
    Knob.BATCH: st.integers(1, 8192),
    Knob.LOGICAL_BATCH: st.integers(8192, 16384),
    Knob.THREADS: st.integers(1, 256),
    Knob.PARALLEL: st.integers(1, 64),
    Knob.FIT: st.booleans(),
    Knob.FIT_MARGIN: st.integers(1, 10**4).map(lambda size: size * MIB),
    Knob.KV_OFFLOAD: st.booleans(),
    Knob.OP_OFFLOAD: st.booleans(),
    Knob.MAIN_GPU: st.integers(0, 15),
    Knob.SPLIT_MODE: st.sampled_from(["none", "layer", "row", "tensor"]),
    Knob.TENSOR_SPLIT: st.sampled_from(["3,1", "1,0,2.5"]),
    Knob.LOAD_MODE: st.sampled_from(["mmap", "none", "mlock", "mmap+mlock", "dio"]),
    Knob.NUMA: st.sampled_from(["distribute", "isolate"]),
    Knob.SPECULATIVE: st.sampled_from(["/models/draft.gguf", "draft-mtp"]),
    Knob.SAMPLER: st.integers(0, 100),
}
FACTS = {
    Knob.CONTEXT_LENGTH: "context_set", Knob.KV_CACHE_TYPE: "kv_type_k", Knob.VALUE_CACHE_TYPE: "kv_type_v",
    Knob.FLASH_ATTENTION: "flash_attention", Knob.BATCH: "ubatch", Knob.LOGICAL_BATCH: "batch", Knob.THREADS: "threads",
    Knob.PARALLEL: "slots", Knob.FIT: "fit", Knob.FIT_MARGIN: "fit_margin_bytes", Knob.KV_OFFLOAD: "kv_offload",
    Knob.OP_OFFLOAD: "op_offload", Knob.MAIN_GPU: "main_gpu", Knob.SPLIT_MODE: "split_mode",
    Knob.LOAD_MODE: "load_mode", Knob.NUMA: "numa", Knob.SPECULATIVE: "speculative", Knob.SAMPLER: "top_k",
}  # fmt: skip


@st.composite
def plans(draw) -> list[Change]:
    knobs = draw(st.lists(st.sampled_from(sorted(VALUES)), unique=True, min_size=1, max_size=len(VALUES)))
    return [knob.to(draw(VALUES[knob])) for knob in knobs]


def read_back(argv: tuple[str, ...], environment: dict[str, str]) -> tuple[Runtime, dict]:
    settings = parse_settings(argv, environment)
    return requested_settings(settings, complete=True), settings


def as_told(change: Change, runtime: Runtime, settings: dict) -> object:
    """What the server is told by a command line, in the terms of the change."""
    match change.knob:
        case Knob.MODEL_FILE:
            return settings["model"].value
        case Knob.GPU_LAYERS:
            return (
                -1 if runtime.placement.gpu_layers_set.value == ALL_LAYERS else runtime.placement.gpu_layers_set.value
            )
        case Knob.EXPERTS_ON_CPU:
            return int(settings["n_cpu_moe"].value)
        case Knob.FIT:  # which is on by itself
            return "fit" not in settings or settings["fit"].value == "on"
        case Knob.TENSOR_OVERRIDE:
            return settings["override"].value
        case Knob.TENSOR_SPLIT:
            return ",".join(f"{part:g}" for part in runtime.placement.tensor_split.value)
        case knob:
            model = settings.get("draft_model") if knob is Knob.SPECULATIVE else None
            return model.value if model else runtime.fact(FACTS[knob]).value


@settings(max_examples=150)
@given(plans(), st.sampled_from([[], COMMAND]))
def test_spelled_flags_read_back_as_the_changes(changes, command):
    runtime = Runtime().with_facts(
        command=reported_fact(command, "x") if command else Runtime().process.command,
        environment=reported_fact({"LLAMA_ARG_NO_KV_OFFLOAD": "1", "LLAMA_ARG_THREADS": "3"}, "x"),
        version=NEW,
    )
    spelled = commands_for(changes, runtime, AtHand(Model(path=reported_fact("/models/m.gguf", "x")), anew=True))
    assert spelled.left_out == ()
    left = {k: v for k, v in runtime.process.environment.value.items() if k not in spelled.environment}
    found, settings = read_back(spelled.argv, left | {k: v for k, v in spelled.environment.items() if v})
    assert [as_told(change, found, settings) for change in changes] == [change.value for change in changes]
    if command:
        assert "secret-secret" in spelled.argv
        assert settings["port"].value == "9"
    assert not any("secret-secret" in line for line in spelled.lines)
    if not spelled.lines:  # it is told all of that already
        assert list(spelled.argv) == command
        return
    assert shlex.split(spelled.lines[-1])[-1] == ("KEY" if spelled.argv[-1] == "secret-secret" else spelled.argv[-1])


@settings(max_examples=60)
@given(plans(), st.integers(3717, 10600))
def test_no_build_gets_a_flag_that_it_lacks(changes, build):
    runtime = Runtime().with_facts(command=reported_fact(COMMAND[:3], "x"), version=reported_fact(f"b{build}", "x"))
    spelled = commands_for(changes, runtime)
    assert all(SINCE.get(word, 0) <= build for word in spelled.argv[3:])
    left = [change for change, _ in spelled.left_out]
    assert all(why for _, why in spelled.left_out)
    assert {change.knob for change in left} <= {change.knob for change in changes}


def spelled_at(build: int, *changes: Change, command: tuple[str, ...] = ("llama-server", "-m", "m.gguf")):
    return commands_for(
        changes,
        Runtime().with_facts(command=reported_fact(list(command), "x"), version=reported_fact(f"b{build}", "x")),
    )


@pytest.mark.parametrize(
    ("build", "change", "words"),
    [
        (6000, Knob.EXPERTS_ON_CPU.to(2), ["-ot", r"blk\.(0|1)\.ffn_(up|down|gate)_exps=CPU"]),
        (6100, Knob.EXPERTS_ON_CPU.to(2), ["-ncmoe", "2"]),
        (6000, Knob.FLASH_ATTENTION.to(True), ["-fa"]),
        (6000, Knob.KV_CACHE_TYPE.to("q8_0"), ["-ctk", "q8_0", "-ctv", "q8_0", "-fa"]),
        (6400, Knob.KV_CACHE_TYPE.to("q8_0"), ["-ctk", "q8_0", "-ctv", "q8_0"]),
        (9000, Knob.LOAD_MODE.to("mlock"), ["--no-mmap", "--mlock"]),
        (9000, Knob.LOAD_MODE.to("dio"), ["-dio"]),
        (7000, Knob.GPU_LAYERS.to(None), ["-ngl", "999"]),
        (9000, Knob.GPU_LAYERS.to(None), []),
        (9000, Knob.GPU_LAYERS.to(-1), ["-ngl", "all"]),
        (7000, Knob.FIT.to(False), []),
        (9000, Knob.BATCH.to(1024), ["-ub", "1024"]),
        (9000, Knob.BATCH.to(4096), ["-ub", "4096", "-b", "4096"]),
        (9000, Knob.PROMPT_CACHE.to("swa-full"), ["--swa-full"]),
        (9000, Knob.PROMPT_CACHE.to(False), ["--no-cache-prompt"]),
        (9000, Knob.SPECULATIVE.to("/m/d.gguf"), ["-md", "/m/d.gguf"]),
        (9131, Knob.SPECULATIVE.to("/m/d.gguf"), ["-md", "/m/d.gguf", "--spec-type", "draft-simple"]),
    ],
)
def test_each_build_gets_its_own_flags(build, change, words):
    spelled = spelled_at(build, change)
    assert list(spelled.argv[3:]) == words
    assert spelled.left_out == ()


@pytest.mark.parametrize(
    ("build", "change", "why"),
    [
        (7000, Knob.FIT.to(True), "b7000 has no --fit, which came with b7407"),
        (4000, Knob.EXPERTS_ON_CPU.to(2), "b4000 has no -ncmoe, which came with b6089"),
        (7000, Knob.LOAD_MODE.to("dio"), "b7000 has no -dio, which came with b7668"),
        (10110, Knob.LOAD_MODE.to("mmap+mlock"), "b10110 has no -lm mmap+mlock, which came with b10145"),
        (8000, Knob.SPLIT_MODE.to("tensor"), "b8000 has no -sm tensor, which came with b8738"),
        (9000, Knob.SPECULATIVE.to("draft-mtp"), "b9000 has no --spec-type draft-mtp, which came with b9180"),
        (9000, Knob.QUANT.to("Q4_K_M"), "no file of this model as Q4_K_M is known"),
        (9000, Knob.MODEL_FILE.to("llama3:8b"), "llama3:8b is not the path of a GGUF file"),
        (9000, Knob.KV_CACHE_TYPE.to("fp8"), "'fp8' is not a valid value"),
        (9000, Knob.TENSOR_OVERRIDE.to("nowhere"), "'nowhere' is not of the form PATTERN=DEVICE"),
        (9000, Knob.MEMORY_SHARE.to(0.9), "llama.cpp has no setting for it"),
    ],
)
def test_changes_that_a_build_does_not_support_are_left_out(build, change, why):
    spelled = spelled_at(build, change)
    assert spelled.left_out == ((change, why),)
    assert spelled.argv == ()


def test_a_quantized_value_cache_without_flash_attention_is_left_out():
    changes = (Knob.FLASH_ATTENTION.to(False), Knob.KV_CACHE_TYPE.to("q8_0"))
    spelled = spelled_at(9000, *changes)
    assert [change for change, _ in spelled.left_out] == [changes[1]]
    keys_only = spelled_at(9000, changes[0], Knob.KV_CACHE_TYPE.to("q8_0"), Knob.VALUE_CACHE_TYPE.to("f16"))
    assert keys_only.left_out == ()
    assert spelled_at(9000, changes[1], command=("s", "-m", "m", "-fa", "off")).argv[-2:] == ("-fa", "on")


def test_fit_removes_explicit_placement_flags():
    command = ("s", "-m", "m", "-ngl", "5", "-c", "8192", "-ts", "1,1", "-ncmoe", "3", "-ot", "a=CPU", "--fit", "off")
    assert spelled_at(9000, Knob.FIT.to(True), command=command).argv == ("s", "-m", "m")  # it is on by itself
    both = spelled_at(9000, Knob.FIT.to(True), Knob.EXPERTS_ON_CPU.to(4), Knob.GPU_LAYERS.to(None), command=command)
    assert both.argv == ("s", "-m", "m", "-ncmoe", "4")


def test_a_quant_change_uses_the_file_that_has_it():
    spelled = spelled_at(9000, Knob.QUANT.to("Q8_0"), Knob.MODEL_FILE.to("/m/q8.gguf"))
    assert spelled.argv == ("llama-server", "-m", "/m/q8.gguf")
    assert spelled.left_out == ()


def test_without_a_server_the_model_at_hand_is_started(wording):
    at_hand = AtHand(Model(path=reported_fact("/m/x.gguf", "x")), program="/opt/llama-server", anew=True)
    assert commands_for([Knob.THREADS.to(4)], Runtime(), at_hand).argv == (
        "/opt/llama-server",
        "-m",
        "/m/x.gguf",
        "-t",
        "4",
    )
    unknown = commands_for([Knob.THREADS.to(4)], Runtime(), AtHand(anew=True))
    assert unknown.argv == ()
    wording(unknown.lines[0], tells="`-m FILE`")


def test_lines_for_a_service_a_container_and_llama_swap():
    runtime = Runtime().with_facts(command=reported_fact(COMMAND, "x"), version=NEW)
    unit = commands_for([Knob.THREADS.to(4)], runtime, AtHand(unit=Unit("llama.service")))
    assert any("ExecStart=/usr/bin/llama-server" in line and "--api-key KEY" in line for line in unit.lines)
    boxed = runtime.with_facts(container=reported_fact("docker", "x"))
    assert commands_for([Knob.THREADS.to(4)], boxed).lines[0].startswith("in the compose file: command: ")
    swapped = runtime.with_facts(front=reported_fact("llama-swap at http://127.0.0.1:1", "x"))
    assert any("llama-swap" in line for line in commands_for([Knob.THREADS.to(4)], swapped).lines)


def test_graphs_are_a_variable_and_a_version_is_an_instruction(wording):
    here = Runtime().with_facts(
        command=reported_fact(["s", "-m", "m"], "x"), environment=reported_fact({"GGML_CUDA_DISABLE_GRAPHS": "1"}, "x")
    )
    assert commands_for([Knob.GRAPHS.to(True)], here).environment == {"GGML_CUDA_DISABLE_GRAPHS": None}
    assert commands_for([Knob.GRAPHS.to(False)], Runtime()).environment == {"GGML_CUDA_DISABLE_GRAPHS": "1"}
    wording(commands_for([Knob.VERSION.to("b10586")], here).lines, tells="b10586")
    assert commands_for([], here) == commands_for((), Runtime())
