import shlex

import msgspec
import pytest
from written import one_change

from unslow.facts.knob import Knob
from unslow.facts.runtime import Runtime
from unslow.facts.values import reported_fact
from unslow.look.runtimes import llama_cpp

COMMAND = ["llama-server", "-m", "m.gguf", "-ngl", "20", "-c", "8192"]


def runtime(command: list[str], environment: dict[str, str] | None = None) -> Runtime:
    return Runtime().with_facts(
        command=reported_fact(command, "x"),
        environment=reported_fact(environment or {}, "x"),
        version=reported_fact("b10200", "x"),
    )


@pytest.mark.parametrize(
    ("change", "fragment", "line"),
    [
        (Knob.GPU_LAYERS.to(None), "remove -ngl 20", "llama-server -m m.gguf -c 8192"),
        (Knob.GPU_LAYERS.to(33), "-ngl 33", "llama-server -m m.gguf -c 8192 -ngl 33"),
        (Knob.CONTEXT_LENGTH.to(4096), "-c 4096", "llama-server -m m.gguf -ngl 20 -c 4096"),
        (
            Knob.KV_CACHE_TYPE.to("q8_0"),
            "-ctk q8_0 -ctv q8_0",
            "llama-server -m m.gguf -ngl 20 -c 8192 -ctk q8_0 -ctv q8_0",
        ),
        (Knob.THREADS.to(8), "-t 8", "llama-server -m m.gguf -ngl 20 -c 8192 -t 8"),
        (Knob.FIT.to(True), "remove -ngl 20 -c 8192", "llama-server -m m.gguf"),
    ],
)
def test_a_change_gives_fragment_and_full_command(change, fragment, line):
    assert one_change(llama_cpp, change, runtime(COMMAND)) == [fragment, line]


@pytest.mark.parametrize(
    ("change", "fragment"),
    [
        (Knob.PARALLEL.to(1), "-np 1"),
        (Knob.KV_OFFLOAD.to(True), "remove -nkvo"),
        (Knob.KV_OFFLOAD.to(False), "-nkvo"),
        (Knob.FLASH_ATTENTION.to(True), "-fa on"),
        (Knob.BATCH.to(1024), "-ub 1024"),
        (Knob.BATCH.to(4096), "-ub 4096 -b 4096"),
        (Knob.SPLIT_MODE.to("layer"), "-sm layer"),
        (Knob.TENSOR_SPLIT.to("3,1"), "-ts 3,1"),
        (Knob.FIT_MARGIN.to(512), "-fitt 512"),
        (Knob.FIT_MARGIN.to(2 * 1024**3), "-fitt 2048"),
        (Knob.LOAD_MODE.to("none"), "-lm none"),
        (Knob.NUMA.to("distribute"), "--numa distribute"),
        (Knob.SPECULATIVE.to(None), "remove -md/-hfd/--spec-type/--spec-draft-n-max"),
        (Knob.SPECULATIVE.to("draft.gguf"), "-md draft.gguf --spec-type draft-simple"),
        (Knob.SAMPLER.to(40), "--top-k 40"),
        (Knob.PROMPT_CACHE.to(True), "remove --no-cache-prompt"),
        (Knob.GRAPHS.to(True), "unset GGML_CUDA_DISABLE_GRAPHS"),
        (Knob.KEEP_ALIVE.to(-1), "--sleep-idle-seconds -1"),
        (Knob.VERSION.to("b10586"), "by hand: install llama.cpp b10586"),
    ],
)
def test_each_knob_has_its_llama_cpp_flag(change, fragment):
    assert one_change(llama_cpp, change, Runtime())[0] == fragment


def test_old_builds_use_no_mmap_and_mlock():
    old = Runtime(version=reported_fact("b9000-abc", "x"))
    assert one_change(llama_cpp, Knob.LOAD_MODE.to("none"), old) == ["--no-mmap"]
    assert one_change(llama_cpp, Knob.LOAD_MODE.to("mmap+mlock"), old) == ["--mlock"]
    assert one_change(llama_cpp, Knob.LOAD_MODE.to("none"), Runtime(version=reported_fact("b0-unknown", "x"))) == [
        "-lm none"
    ]


def test_conflicting_switches_are_removed():
    command = ["llama-server", "-nkvo", "--no-mmap", "--mlock", "-m", "m.gguf"]
    assert one_change(llama_cpp, Knob.KV_OFFLOAD.to(True), runtime(command)) == [
        "remove -nkvo",
        "llama-server --no-mmap --mlock -m m.gguf",
    ]
    assert (
        one_change(llama_cpp, Knob.LOAD_MODE.to("mmap"), runtime(command))[1] == "llama-server -nkvo -m m.gguf -lm mmap"
    )


def test_enabling_graphs_unsets_the_disabling_variable():
    lines = one_change(llama_cpp, Knob.GRAPHS.to(True), runtime(["llama-server"], {"GGML_CUDA_DISABLE_GRAPHS": "1"}))
    assert lines == ["unset GGML_CUDA_DISABLE_GRAPHS", "env -u GGML_CUDA_DISABLE_GRAPHS llama-server"]


def test_every_spelling_of_a_flag_is_replaced():
    command = ["llama-server", "--n-gpu-layers=5", "-fit", "off", "--gpu-layers", "20", "-m", "a b.gguf"]
    assert shlex.split(one_change(llama_cpp, Knob.GPU_LAYERS.to(None), runtime(command))[-1]) == [
        "llama-server",
        "-fit",
        "off",
        "-m",
        "a b.gguf",
    ]
    assert shlex.split(one_change(llama_cpp, Knob.FIT.to(True), runtime(command))[-1]) == [
        "llama-server",
        "-m",
        "a b.gguf",
    ]


def test_words_with_spaces_are_quoted():
    assert (
        one_change(llama_cpp, Knob.THREADS.to(4), runtime(["llama-server", "-m", "a b.gguf"]))[1]
        == "llama-server -m 'a b.gguf' -t 4"
    )


def test_a_variable_that_would_set_the_knob_again_is_unset():
    lines = one_change(llama_cpp, Knob.GPU_LAYERS.to(None), runtime(["llama-server"], {"LLAMA_ARG_N_GPU_LAYERS": "20"}))
    assert lines[1] == "env -u LLAMA_ARG_N_GPU_LAYERS llama-server"


def test_keys_in_llama_cpp_commands_are_masked():
    lines = one_change(
        llama_cpp, Knob.THREADS.to(4), runtime(["llama-server", "--api-key", "hush", "--hf-token=hush", "-c", "1"])
    )
    assert "hush" not in " ".join(lines)
    assert lines[-1] == "llama-server --api-key KEY --hf-token=KEY -c 1 -t 4"


@pytest.mark.parametrize("knob", list(Knob))
def test_every_knob_is_spelled_without_a_known_command(knob):
    assert all(isinstance(line, str) for line in one_change(llama_cpp, knob.to(4), Runtime()))


def test_experts_return_to_the_gpu_by_removing_every_override():
    command = ["llama-server", "-cmoe", "-ot", "exps=CPU", "-m", "m.gguf"]
    assert one_change(llama_cpp, Knob.EXPERTS_ON_CPU.to(None), runtime(command))[1] == "llama-server -m m.gguf"
    assert one_change(llama_cpp, Knob.EXPERTS_ON_CPU.to(5), runtime(command))[1] == "llama-server -m m.gguf -ncmoe 5"


def test_quant_and_backend_changes_are_instructions(wording):
    wording(one_change(llama_cpp, Knob.QUANT.to("Q3_K_M"), runtime(COMMAND)), tells="Q3_K_M")
    wording(one_change(llama_cpp, Knob.QUANT.to(None), runtime(COMMAND)))
    assert one_change(llama_cpp, Knob.OTHER_PROCESS.to(None), runtime(COMMAND)) == [" ".join(COMMAND)]
    wording(one_change(llama_cpp, Knob.GPU_BACKEND.to("CUDA"), runtime(COMMAND)))


@pytest.mark.parametrize("version", ["b3500", None])
def test_builds_without_automatic_layers_get_all_layers_explicitly(version, wording):
    told = Runtime().with_facts(command=reported_fact(["./main", "-m", "m.gguf", "-ngl", "20"], "x"))
    old = msgspec.structs.replace(told, version=reported_fact(version, "x")) if version else told
    assert one_change(llama_cpp, Knob.GPU_LAYERS.to(None), old) == ["-ngl 999", "./main -m m.gguf -ngl 999"]
    wording(one_change(llama_cpp, Knob.FIT.to(value=True), old)[0], tells="-ngl N")
    assert one_change(llama_cpp, Knob.GPU_LAYERS.to(None), runtime(COMMAND))[0] == "remove -ngl 20"


def test_thinking_is_disabled_by_flag_or_request():
    assert one_change(llama_cpp, Knob.THINKING.to(None), Runtime()) == [
        "--reasoning-budget 0",
        'in a request: "chat_template_kwargs": {"enable_thinking": false}',
    ]


def test_a_flag_that_is_not_on_the_command_line_is_not_removed():
    for change in (Knob.THREADS.to(None), Knob.LOAD_MODE.to(None), Knob.PROMPT_CACHE.to(True)):
        assert one_change(llama_cpp, change, runtime(COMMAND)) == []
    assert one_change(llama_cpp, Knob.THREADS.to(None), runtime([*COMMAND, "-t", "64"]))[0] == "remove -t 64"
    by_variable = one_change(llama_cpp, Knob.THREADS.to(None), runtime(COMMAND, {"LLAMA_ARG_THREADS": "64"}))
    assert by_variable[1].startswith("env -u LLAMA_ARG_THREADS ")
    assert one_change(llama_cpp, Knob.THREADS.to(None), Runtime()) == ["remove -t"], "nobody knows what stands there"


def test_one_slot_gets_its_share_of_a_split_context():
    ten = ["llama-server", "-m", "m.gguf", "-np", "10", "-c", "1310720"]
    facts = {
        "slots": reported_fact(10, "x"),
        "context_length": reported_fact(1310720, "x"),
        "kv_unified": reported_fact(False, "x"),
    }
    apart = runtime(ten).with_facts(**facts)
    assert one_change(llama_cpp, Knob.PARALLEL.to(1), apart) == [
        "-np 1 -c 131072",
        "llama-server -m m.gguf -np 1 -c 131072",
    ]
    assert one_change(llama_cpp, Knob.PARALLEL.to(20), apart)[0] == "-np 20"
    shared = apart.with_facts(kv_unified=reported_fact(True, "x"))
    assert one_change(llama_cpp, Knob.PARALLEL.to(1), shared)[0] == "-np 1"


def test_a_gpu_in_a_container_or_without_permission_gets_its_own_fix():
    boxed = Runtime().with_facts(container=reported_fact("docker", "x"))
    assert one_change(llama_cpp, Knob.GPU_BACKEND.to("CUDA"), boxed)[0] == "docker run --gpus all IMAGE"
    denied = Runtime().with_facts(
        gpu_refused=reported_fact("failed to initialize ROCm: no ROCm-capable device is detected", "x")
    )
    assert "sudo usermod -a -G render,video $USER" in one_change(llama_cpp, Knob.GPU_BACKEND.to("ROCm"), denied)
    assert len(one_change(llama_cpp, Knob.GPU_BACKEND.to("ROCm"), Runtime())) == 1


def test_loaded_models_set_models_max_of_the_router():
    assert one_change(llama_cpp, Knob.LOADED_MODELS.to(2), runtime(COMMAND)) == ["--models-max 2"]


def test_a_larger_micro_batch_raises_a_smaller_batch():
    small = runtime([*COMMAND, "-b", "32", "-ub", "32"]).with_facts(batch=reported_fact(32, "log"))
    assert one_change(llama_cpp, Knob.BATCH.to(512), small) == ["-ub 512 -b 512", f"{' '.join(COMMAND)} -ub 512 -b 512"]
    assert one_change(llama_cpp, Knob.BATCH.to(512), runtime([*COMMAND, "-ub", "32"]))[0] == "-ub 512"


def test_the_swa_full_prompt_cache_has_a_flag():
    assert one_change(llama_cpp, Knob.PROMPT_CACHE.to("swa-full"), runtime(COMMAND))[0] == "--swa-full"


@pytest.mark.parametrize(
    ("change", "variable"),
    [(Knob.GPU_LAYERS.to(None), "LLAMA_ARG_N_GPU_LAYERS"), (Knob.KV_OFFLOAD.to(True), "LLAMA_ARG_NO_KV_OFFLOAD")],
)
def test_a_variable_that_sets_the_knob_is_unset(change, variable):
    told = runtime(["llama-server", "-m", "m.gguf"], {variable: "10", "HOME": "/root"})
    assert one_change(llama_cpp, change, told) == [f"unset {variable}", f"env -u {variable} llama-server -m m.gguf"]
