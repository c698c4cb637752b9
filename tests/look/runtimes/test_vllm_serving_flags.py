import pytest

from unslow.facts.values import GIB, Absence, Known, Origin, Unknown
from unslow.look.runtimes import sglang, tgi
from unslow.look.runtimes._given_settings import human_count
from unslow.look.runtimes.vllm import flags as vllm_flags


def vllm(command: str, environment: dict[str, str] | None = None, *, complete: bool = True):
    return vllm_flags.requested_settings(
        vllm_flags.FLAGS.settings(command.split(), environment or {}), complete=complete
    )


def test_omp_threads_count_only_with_nobind():
    unbound = {"VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_NUM_THREADS": "6"}
    assert vllm("vllm serve org/m", unbound).compute.threads.need() == 6
    bound = {**unbound, "VLLM_CPU_OMP_THREADS_BIND": "auto"}
    assert not isinstance(vllm("vllm serve org/m", bound).compute.threads, Known)
    assert not isinstance(vllm("vllm serve org/m", {"OMP_NUM_THREADS": "6"}).compute.threads, Known)


def test_vllm_flags_give_settings():
    told = vllm(
        "vllm serve org/m --enforce-eager -tp 2 --quantization=awq --max-model-len 32k --gpu_memory_utilization 0.85 "
        "--kv-cache-dtype fp8 --cpu-offload-gb 4 --max-num-seqs 16 --attention-backend FLASHINFER --dtype float16"
    )
    assert told.compute.eager == Known(value=True, origin=Origin.REPORTED, source="command line: --enforce-eager")
    assert (told.placement.tensor_parallel.need(), told.compute.quantization.need()) == (2, "awq")
    assert (told.context.requested.need(), told.memory.gpu_memory_fraction.need()) == (32000, 0.85)
    assert (told.cache.type_k.need(), told.placement.cpu_offload_bytes.need()) == ("fp8", 4 * GIB)
    assert (told.scheduling.max_sequences.need(), told.compute.attention.need()) == (16, "FLASHINFER")
    assert told.compute.weights_type.need() == "float16"


def test_missing_vllm_flags_are_defaults_or_unknown():
    told = vllm("vllm serve org/m")
    assert told.compute.eager == Known(
        value=False, origin=Origin.ESTIMATED, source="default of vLLM: no --enforce-eager"
    )
    assert (told.placement.tensor_parallel.need(), told.placement.cpu_offload_bytes.need()) == (1, 0)
    assert told.compute.quantization == Unknown("--quantization was not given")
    assert vllm("vllm serve org/m", complete=False).compute.eager.absence is Absence.FAILED


@pytest.mark.parametrize("word", ["--no-enforce-eager", "--enforce-eager=False"])
def test_a_negated_switch_is_off(word):
    assert vllm(f"vllm serve m {word}").compute.eager.need() is False


@pytest.mark.parametrize("words", ["-O0", "-O 0", "--optimization-level=0"])
def test_optimization_level_0_is_eager(words):
    assert vllm(f"vllm serve m {words}").compute.eager.need() is True


@pytest.mark.parametrize(
    "words",
    [
        ("--compilation-config", '{"cudagraph_mode":"NONE"}'),
        ("-cc", '{"mode": 3, "cudagraph_mode": "none"}'),
        ('--compilation_config={"cudagraph_mode": 0}',),
        ("--compilation-config.cudagraph_mode=NONE",),
        ("-cc.cudagraph_mode", "none"),
        ("-O", '{"use_cudagraph": false}'),
    ],
)
def test_a_mode_without_graphs_is_eager_in_every_spelling(words):
    told = vllm_flags.requested_settings(vllm_flags.FLAGS.settings(["vllm", "serve", "m", *words], {}), complete=True)
    assert told.compute.eager.need() is True
    assert told.compute.eager.source == f"command line: {' '.join(words)}"


@pytest.mark.parametrize(
    "words",
    [
        ("--compilation-config", '{"cudagraph_mode":"PIECEWISE"}'),
        ("-cc", '{"cudagraph_mode":"FULL_DECODE_ONLY"}'),
        ("-cc.cudagraph_mode=FULL",),
        ("--compilation-config", '{"mode": 0}'),
        ("--compilation-config", "not JSON"),
    ],
)
def test_graphs_of_pieces_or_of_whole_steps_are_graphs(words):
    told = vllm_flags.requested_settings(vllm_flags.FLAGS.settings(["vllm", "serve", "m", *words], {}), complete=True)
    assert told.compute.eager.need() is False
    assert told.compute.graphs_without_attention.value_or(default=False) is ("PIECEWISE" in words[-1])


def test_speculative_config_and_old_draft_flags_are_parsed():
    command = ["vllm", "serve", "m", "--speculative-config", '{"method": "eagle3", "num_speculative_tokens": 4}']
    told = vllm_flags.requested_settings(vllm_flags.FLAGS.settings(command, {}), complete=True)
    assert (told.sampling.speculative.need(), told.sampling.draft_tokens.need()) == ("eagle3", 4)
    older = vllm("vllm serve m --speculative-model org/draft --num-speculative-tokens 5")
    assert (older.sampling.speculative.need(), older.sampling.draft_tokens.need()) == ("org/draft", 5)


@pytest.mark.parametrize(
    "config", ["{", "[" * 5000, '{"num_speculative_tokens": -1}', '{"num_speculative_tokens": 1e9}', "7"]
)
def test_a_malformed_speculative_config_is_unknown(config):
    told = vllm_flags.requested_settings(
        vllm_flags.FLAGS.settings(["vllm", "serve", "m", "--speculative-config", config], {}), complete=True
    )
    assert isinstance(told.sampling.draft_tokens, Unknown)


def test_a_vllm_flag_wins_over_its_variable():
    environment = {"VLLM_ATTENTION_BACKEND": "XFORMERS"}
    assert vllm("vllm serve m", environment).compute.attention.source == "environment: VLLM_ATTENTION_BACKEND"
    assert vllm("vllm serve m --attention-backend FLASH_ATTN", environment).compute.attention.need() == "FLASH_ATTN"


@pytest.mark.parametrize(
    ("command", "model"),
    [
        ("vllm serve org/m --port 1", "org/m"),
        ("/usr/bin/python3 /venv/bin/vllm serve --port 1 /models/m", "/models/m"),
        ("python -m vllm.entrypoints.openai.api_server --model org/m", "org/m"),
        ("vllm serve --strange-flag value org/m", "org/m"),
        ("vllm serve", ""),
    ],
)
def test_the_model_of_a_vllm_command_is_parsed(command, model):
    words = command.split()
    assert vllm_flags.model_of(words, vllm_flags.FLAGS.settings(words, {})) == model


def test_vllm_keys_are_masked():
    flags = vllm_flags.FLAGS
    assert flags.without_secrets(["vllm", "--api-key", "sk-1", "--hf-token=abc"]) == [
        "vllm",
        "--api-key",
        "KEY",
        "--hf-token=KEY",
    ]
    assert flags.without_secrets(["vllm", "--api-key"]) == ["vllm", "--api-key"]
    assert "sk-1" not in str(flags.settings(["vllm", "--api-key", "sk-1"], {})["api_key"].source)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("8192", 8192),
        ("8k", 8000),
        ("8K", 8192),
        ("1.5k", 1500),
        ("1M", 2**20),
        ("x", None),
        ("9" * 30, None),
        ("", None),
    ],
)
def test_human_readable_counts_are_parsed(text, count):
    assert human_count(text) == count


def test_sglang_flags_give_settings():
    command = (
        "python -m sglang.launch_server --model-path org/m --tp 4 --disable-cuda-graph --disable-radix-cache "
        "--mem-fraction-static 0.8"
    )
    told = sglang.requested_settings(sglang.FLAGS.settings(command.split(), {}), complete=True)
    assert (told.placement.tensor_parallel.need(), told.compute.eager.need(), told.cache.prompt_cache.need()) == (
        4,
        True,
        False,
    )
    assert told.memory.gpu_memory_fraction.need() == 0.8
    assert told.process.metrics_endpoint.need() is False
    assert sglang.requested_settings({}, complete=True).cache.prompt_cache.need() is True


def test_tgi_flags_and_variables_give_settings():
    command = "text-generation-launcher --model-id org/m --quantize awq --cuda-graphs 0"
    told = tgi.requested_settings(tgi.FLAGS.settings(command.split(), {"MAX_TOTAL_TOKENS": "4096"}), complete=True)
    assert (told.compute.quantization.need(), told.compute.eager.need(), told.context.requested.need()) == (
        "awq",
        True,
        4096,
    )
