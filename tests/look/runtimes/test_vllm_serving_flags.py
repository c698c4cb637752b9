import pytest

from unslow.facts.values import GIB, Absence, Known, Origin, Unknown
from unslow.look.runtimes import sglang, tgi
from unslow.look.runtimes._given_settings import human_count
from unslow.look.runtimes.vllm import flags as vllm_flags


def vllm(command: str, environment: dict[str, str] | None = None, *, complete: bool = True):
    return vllm_flags.requested_settings(
        vllm_flags.FLAGS.settings(command.split(), environment or {}), complete=complete
    )


def test_threads_are_the_variable_s_only_where_vllm_binds_none():
    unbound = {"VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_NUM_THREADS": "6"}
    assert vllm("vllm serve org/m", unbound).threads.need() == 6
    bound = {**unbound, "VLLM_CPU_OMP_THREADS_BIND": "auto"}
    assert not isinstance(vllm("vllm serve org/m", bound).threads, Known)
    assert not isinstance(vllm("vllm serve org/m", {"OMP_NUM_THREADS": "6"}).threads, Known)


def test_flags_of_vllm_are_facts():
    told = vllm(
        "vllm serve org/m --enforce-eager -tp 2 --quantization=awq --max-model-len 32k --gpu_memory_utilization 0.85 "
        "--kv-cache-dtype fp8 --cpu-offload-gb 4 --max-num-seqs 16 --attention-backend FLASHINFER --dtype float16"
    )
    assert told.eager == Known(value=True, origin=Origin.REPORTED, source="command line: --enforce-eager")
    assert (told.tensor_parallel.need(), told.quantization.need()) == (2, "awq")
    assert (told.context_set.need(), told.gpu_memory_fraction.need()) == (32000, 0.85)
    assert (told.kv_type_k.need(), told.cpu_offload_bytes.need()) == ("fp8", 4 * GIB)
    assert (told.max_sequences.need(), told.attention.need()) == (16, "FLASHINFER")
    assert told.weights_type.need() == "float16"


def test_what_nobody_said_is_a_default_or_left_open():
    told = vllm("vllm serve org/m")
    assert told.eager == Known(value=False, origin=Origin.ESTIMATED, source="default of vLLM: no --enforce-eager")
    assert (told.tensor_parallel.need(), told.cpu_offload_bytes.need()) == (1, 0)
    assert told.quantization == Unknown("--quantization was not given")
    assert vllm("vllm serve org/m", complete=False).eager.absence is Absence.FAILED


@pytest.mark.parametrize("word", ["--no-enforce-eager", "--enforce-eager=False"])
def test_a_switch_turned_off(word):
    assert vllm(f"vllm serve m {word}").eager.need() is False


@pytest.mark.parametrize("words", ["-O0", "-O 0", "--optimization-level=0"])
def test_the_lowest_level_of_optimisation_is_eager(words):
    assert vllm(f"vllm serve m {words}").eager.need() is True


def test_drafting_in_json_and_in_the_older_flags():
    command = ["vllm", "serve", "m", "--speculative-config", '{"method": "eagle3", "num_speculative_tokens": 4}']
    told = vllm_flags.requested_settings(vllm_flags.FLAGS.settings(command, {}), complete=True)
    assert (told.speculative.need(), told.draft_tokens.need()) == ("eagle3", 4)
    older = vllm("vllm serve m --speculative-model org/draft --num-speculative-tokens 5")
    assert (older.speculative.need(), older.draft_tokens.need()) == ("org/draft", 5)


@pytest.mark.parametrize(
    "config", ["{", "[" * 5000, '{"num_speculative_tokens": -1}', '{"num_speculative_tokens": 1e9}', "7"]
)
def test_drafting_that_is_nonsense(config):
    told = vllm_flags.requested_settings(
        vllm_flags.FLAGS.settings(["vllm", "serve", "m", "--speculative-config", config], {}), complete=True
    )
    assert isinstance(told.draft_tokens, Unknown)


def test_a_flag_beats_its_variable():
    environment = {"VLLM_ATTENTION_BACKEND": "XFORMERS"}
    assert vllm("vllm serve m", environment).attention.source == "environment: VLLM_ATTENTION_BACKEND"
    assert vllm("vllm serve m --attention-backend FLASH_ATTN", environment).attention.need() == "FLASH_ATTN"


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
def test_the_model_of_a_command(command, model):
    words = command.split()
    assert vllm_flags.model_of(words, vllm_flags.FLAGS.settings(words, {})) == model


def test_keys_are_not_shown():
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
def test_counts_as_people_write_them(text, count):
    assert human_count(text) == count


def test_flags_of_sglang():
    command = (
        "python -m sglang.launch_server --model-path org/m --tp 4 --disable-cuda-graph --disable-radix-cache "
        "--mem-fraction-static 0.8"
    )
    told = sglang.requested_settings(sglang.FLAGS.settings(command.split(), {}), complete=True)
    assert (told.tensor_parallel.need(), told.eager.need(), told.prompt_cache.need()) == (4, True, False)
    assert told.gpu_memory_fraction.need() == 0.8
    assert told.metrics_endpoint.need() is False
    assert sglang.requested_settings({}, complete=True).prompt_cache.need() is True


def test_flags_and_variables_of_tgi():
    command = "text-generation-launcher --model-id org/m --quantize awq --cuda-graphs 0"
    told = tgi.requested_settings(tgi.FLAGS.settings(command.split(), {"MAX_TOTAL_TOKENS": "4096"}), complete=True)
    assert (told.quantization.need(), told.eager.need(), told.context_set.need()) == ("awq", True, 4096)
