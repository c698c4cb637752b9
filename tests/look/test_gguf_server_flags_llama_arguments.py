import pytest

from unslow.facts.runtime import ALL_LAYERS
from unslow.facts.values import MIB, Absence, Origin
from unslow.look.gguf_server_flags import parse_settings, without_secrets
from unslow.look.runtimes._gguf_server import requested_settings


def given(line: str, environment: dict[str, str] | None = None):
    return parse_settings(["llama-server", *line.split()], environment or {})


def facts(line: str, environment: dict[str, str] | None = None, complete: bool = True):
    return requested_settings(given(line, environment), complete=complete)


@pytest.mark.parametrize(
    "line",
    ["-ngl 20", "--gpu-layers 20", "--n-gpu-layers 20", "--gpu-layers=20", "--n_gpu_layers 20", "-ngl 5 -ngl 20"],
)
def test_every_spelling_of_gpu_layers_is_parsed(line):
    fact = facts(line).placement.gpu_layers_set
    assert fact.need() == 20
    assert fact.source.startswith("command line: -")


@pytest.mark.parametrize(("value", "layers"), [("0", 0), ("99", 99), ("all", ALL_LAYERS)])
def test_gpu_layer_values_are_parsed(value, layers):
    assert facts(f"-ngl {value}").placement.gpu_layers_set.need() == layers


@pytest.mark.parametrize("value", ["auto", "-1"])
def test_automatic_gpu_layers_are_not_set(value):
    assert facts(f"-ngl {value}").placement.gpu_layers_set.absence is Absence.NOT_FOUND


def test_an_invalid_number_is_a_failed_look():
    assert facts("-ngl many").placement.gpu_layers_set.absence is Absence.FAILED
    assert facts("-c").context.requested.absence is Absence.FAILED


def test_a_missing_flag_is_a_fact_only_if_the_environment_was_readable():
    assert facts("").placement.gpu_layers_set.absence is Absence.NOT_FOUND
    assert facts("").placement.tensor_overrides.need() == []
    assert facts("", complete=False).placement.gpu_layers_set.absence is Absence.FAILED
    assert facts("", complete=False).placement.tensor_overrides.absence is Absence.FAILED


def test_the_command_line_wins_over_the_environment():
    environment = {"LLAMA_ARG_N_GPU_LAYERS": "10", "LLAMA_ARG_CTX_SIZE": "4096"}
    runtime = facts("-ngl 20", environment)
    assert runtime.placement.gpu_layers_set.need() == 20
    assert runtime.context.requested.need() == 4096
    assert runtime.context.requested.source == "environment: LLAMA_ARG_CTX_SIZE"


@pytest.mark.parametrize(
    ("line", "on"), [("-fa on", True), ("-fa off", False), ("--flash-attn 1", True), ("-fa", True), ("-fa -c 8", True)]
)
def test_flash_attention_is_parsed_with_and_without_a_value(line, on):
    assert facts(line).compute.flash_attention.need() is on


def test_automatic_flash_attention_is_not_set():
    assert facts("-fa auto").compute.flash_attention.absence is Absence.NOT_FOUND


def test_a_flag_without_value_does_not_consume_the_next():
    assert facts("-fa -c 8192").context.requested.need() == 8192


def test_kv_types_and_batches_have_defaults():
    runtime = facts("-ctk q8_0 --cache-type-v q4_0 -b 512")
    assert (runtime.cache.type_k.need(), runtime.cache.type_v.need(), runtime.compute.batch.need()) == (
        "q8_0",
        "q4_0",
        512,
    )
    assert (runtime.compute.ubatch.need(), runtime.compute.ubatch.origin) == (512, Origin.ESTIMATED)
    assert facts("").cache.type_k.origin is Origin.ESTIMATED


@pytest.mark.parametrize(("line", "on"), [("-fit off", False), ("--fit on", True), ("--fit=off", False)])
def test_fit_flags_are_parsed(line, on):
    assert facts(line).placement.fit.need() is on


def test_the_largest_fit_margin_of_several_devices_is_used():
    assert facts("-fitt 512,2048").placement.fit_margin_bytes.need() == 2048 * MIB


def test_all_kinds_of_tensor_overrides_are_collected():
    runtime = facts("-ot exps=CPU -ot output=CUDA0 --n-cpu-moe 12 -cmoe")
    assert runtime.placement.tensor_overrides.need() == ["exps=CPU,output=CUDA0", "--cpu-moe", "--n-cpu-moe 12"]
    assert facts("--n-cpu-moe 0").placement.tensor_overrides.need() == []


def test_switches_and_their_opposites_are_parsed():
    assert facts("-kvu").cache.unified.need() is True
    assert facts("--no-kv-unified").cache.unified.need() is False
    assert given("-nkvo")["kv_offload"].value == "off"
    assert given("", {"LLAMA_ARG_NO_KV_OFFLOAD": "1"})["kv_offload"].value == "off"


def test_other_settings_are_parsed_verbatim():
    settings = given(
        "-m a.gguf --port 9000 --host 0.0.0.0 --log-file x.log -dev none -mg 1 -sm row -ts 3,1 -np 2 -hf a/b:Q4_K_M"
    )
    assert {name: setting.value for name, setting in settings.items()} == {
        "model": "a.gguf",
        "port": "9000",
        "host": "0.0.0.0",
        "log_file": "x.log",
        "device": "none",
        "main_gpu": "1",
        "split_mode": "row",
        "tensor_split": "3,1",
        "slots": "2",
        "repository": "a/b:Q4_K_M",
    }


@pytest.mark.parametrize(
    ("line", "fact", "value"),
    [
        ("-nkvo", "kv_offload", False),
        ("", "kv_offload", True),
        ("--no-op-offload", "op_offload", False),
        ("-nr", "repack", False),
        ("--swa-full", "swa_full", True),
        ("--no-cache-prompt", "prompt_cache", False),
        ("--cache-reuse 256", "cache_reuse", 256),
        ("-cram 2048", "cache_ram_bytes", 2048 * MIB),
        ("-cram 0", "cache_ram_bytes", 0),
        ("-fitc 8192", "fit_context_min", 8192),
        ("-sm row", "split_mode", "row"),
        ("", "split_mode", "layer"),
        ("-ts 3,1", "tensor_split", [3.0, 1.0]),
        ("-ts 3/1", "tensor_split", [3.0, 1.0]),
        ("-mg 1", "main_gpu", 1),
        ("--numa isolate", "numa", "isolate"),
        ("-Cr 0-7", "cpu_list", "0-7"),
        ("-C ff", "cpu_list", "ff"),
        ("--prio -1", "priority", -1),
        ("--poll 0", "polling", 0),
        ("--metrics", "metrics_endpoint", True),
        ("--top-k 0", "top_k", 0),
        ("-j {}", "grammar", "{}"),
        ("--grammar-file g.gbnf", "grammar", "g.gbnf"),
        ("-md d.gguf --draft-max 8", "speculative", "d.gguf"),
        ("-md d.gguf --draft-max 8", "draft_tokens", 8),
        ("--spec-type ngram-mod", "speculative", "ngram-mod"),
        ("-lm mlock", "load_mode", "mlock"),
        ("", "load_mode", "auto"),
        ("--mlock", "load_mode", "mmap+mlock"),
        ("--no-mmap", "load_mode", "none"),
        ("--no-mmap --mlock", "load_mode", "mlock"),
        ("-dio", "load_mode", "dio"),
        ("-ncffn 4", "tensor_overrides", ["--n-cpu-ffn 4"]),
    ],
)
def test_every_other_flag_gives_its_fact(line, fact, value):
    assert facts(line).fact(fact).need() == value


@pytest.mark.parametrize(
    ("line", "fact"),
    [
        ("-ts a,b", "tensor_split"),
        ("-ts nan,1", "tensor_split"),
        ("-ts -1,1", "tensor_split"),
        ("-cram much", "cache_ram_bytes"),
        ("--top-k few", "top_k"),
        ("-t ٣", "threads"),
        ("-c 99999999999999999999", "context_set"),
    ],
)
def test_invalid_flag_values_are_a_failed_look(line, fact):
    assert facts(line).fact(fact).absence is Absence.FAILED


def test_no_speculation_and_no_cache_limit_are_not_found():
    assert facts("").sampling.speculative.absence is Absence.NOT_FOUND
    assert facts("--spec-type none").sampling.speculative.absence is Absence.NOT_FOUND
    assert facts("-cram -1").cache.ram_bytes.absence is Absence.NOT_FOUND


def test_switches_in_the_environment_are_parsed():
    assert facts("", {"LLAMA_ARG_MLOCK": "1"}).placement.load_mode.need() == "mmap+mlock"
    assert facts("", {"LLAMA_ARG_NO_MMAP": "1"}).placement.load_mode.need() == "none"
    assert facts("", {"LLAMA_ARG_ENDPOINT_METRICS": "true"}).process.metrics_endpoint.need() is True


def test_keys_on_the_command_line_are_masked():
    words = ["llama-server", "--api-key", "hush", "--hf-token=hush", "-c", "1", "--api-key"]
    shown = ["llama-server", "--api-key", "KEY", "--hf-token=KEY", "-c", "1", "--api-key"]
    assert without_secrets(words) == shown


def test_verbosity_is_parsed_as_number_or_flag():
    assert facts("-lv 4").process.log_level.need() == 4
    assert facts("-v").process.log_level.need() > 1000


def test_zero_and_minus_one_mean_automatic():
    runtime = facts("-c 0 -t -1 -np -1")
    assert {runtime.context.requested.absence, runtime.compute.threads.absence, runtime.scheduling.slots.absence} == {
        Absence.NOT_FOUND
    }


def test_a_key_is_not_in_the_source_of_its_setting():
    assert "hush" not in given("--api-key hush")["api_key"].source


def test_an_empty_command_line_has_no_settings():
    assert parse_settings([], {}) == {}
