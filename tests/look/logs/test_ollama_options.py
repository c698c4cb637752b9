import pytest

from unslow.facts.runtime import Runtime
from unslow.facts.values import Known, Origin
from unslow.look.logs.dialect import LogFacts, Text
from unslow.look.logs.ollama_options import parse_text


def seen(text: str) -> LogFacts:
    return parse_text(Text(text.split("\n"), "paste"))


def runtime(text: str) -> Runtime:
    return seen(text).subject.runtime


@pytest.mark.parametrize(
    "text",
    [
        "PARAMETER num_ctx 64000",
        "/set parameter num_ctx 64000",
        '{"options": {"num_ctx": 64000}}',
        "options={'num_ctx': 64000}",
        "with num_ctx=64000 it is slow",
        "num_ctx 64000",
        "I set `num_ctx` to 64000.",
    ],
)
def test_num_ctx_is_parsed_in_every_spelling(text: str):
    fact = runtime(text).context.requested
    assert fact == Known(64000, Origin.REPORTED, "paste:1: num_ctx 64000")


def test_ollama_parameters_are_parsed_as_settings():
    text = "FROM x\nPARAMETER num_gpu 20\nPARAMETER num_thread 8\nPARAMETER num_batch 1024\nPARAMETER use_mmap false\n"
    found = runtime(text + "keep_alive: 0\ntop_k 0\nmain_gpu 1")
    assert (found.placement.gpu_layers_set.need(), found.compute.threads.need(), found.compute.batch.need()) == (
        20,
        8,
        1024,
    )
    assert (found.placement.load_mode.need(), found.scheduling.keep_alive_s.need(), found.sampling.top_k.need()) == (
        "none",
        0,
        0,
    )
    assert found.placement.main_gpu.need() == 1


def test_ollama_automatic_values_are_not_settings():
    assert not isinstance(runtime("PARAMETER num_gpu -1").placement.gpu_layers_set, Known)
    assert runtime("num_gpu 0: eval 14.6 tok/s").placement.gpu_layers_set.need() == 0
    assert not isinstance(runtime("num_thread 0").compute.threads, Known)


@pytest.mark.parametrize(
    "text",
    [
        "export OLLAMA_NUM_PARALLEL=4",
        'Environment="OLLAMA_NUM_PARALLEL=4"',
        "docker run -e OLLAMA_NUM_PARALLEL=4 ollama/ollama",
        "      - OLLAMA_NUM_PARALLEL=4",
        '      OLLAMA_NUM_PARALLEL: "4"',
        '$env:OLLAMA_NUM_PARALLEL="4"',
        "setx OLLAMA_NUM_PARALLEL 4",
        'launchctl setenv OLLAMA_NUM_PARALLEL "4"',
        "OLLAMA_NUM_PARALLEL=4.",
    ],
)
def test_ollama_variables_are_parsed_in_every_spelling(text: str):
    found = runtime(text)
    assert found.scheduling.slots.need() == 4
    assert found.process.environment == Known({"OLLAMA_NUM_PARALLEL": "4"}, Origin.REPORTED, "paste:1")
    assert found.name.need() == "Ollama"


def test_enabled_flash_attention_variable_is_an_estimate_and_disabled_is_reported():
    assert runtime("OLLAMA_FLASH_ATTENTION=1").compute.flash_attention.origin is Origin.ESTIMATED
    off = runtime("OLLAMA_FLASH_ATTENTION=0").compute.flash_attention
    assert (off.need(), off.origin) == (False, Origin.REPORTED)
    cache = runtime("OLLAMA_KV_CACHE_TYPE=q8_0").cache.type_k
    assert (cache.need(), cache.origin) == ("q8_0", Origin.ESTIMATED)


def test_prose_about_an_ollama_variable_is_not_a_value():
    assert seen("I set OLLAMA_FLASH_ATTENTION and it helped; OLLAMA_DEBUG: enable it") == LogFacts()


def test_ollama_server_config_lines_are_left_to_the_log_dialect():
    line = 'level=INFO msg="server config" env="map[OLLAMA_NUM_PARALLEL:4 OLLAMA_KEEP_ALIVE:5m0s]"'
    assert seen(line) == LogFacts()
    assert seen('level=WARN msg="requested context size too large" num_ctx=99 n_ctx_train=8') == LogFacts()


def test_the_model_of_an_ollama_run_command_is_parsed():
    assert seen("$ ollama run --verbose llama3.1:8b-instruct-q4_K_M").subject.model.name.need() == (
        "llama3.1:8b-instruct-q4_K_M"
    )
    assert seen("when I use ollama run the model answers") == LogFacts()
