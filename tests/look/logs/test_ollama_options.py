import pytest

from unslow.facts.runtime import Runtime
from unslow.facts.values import Known, Origin
from unslow.look.logs.dialect import Seen, Text
from unslow.look.logs.ollama_options import parse_text


def seen(text: str) -> Seen:
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
def test_a_context_is_set_in_many_ways(text: str):
    fact = runtime(text).context_set
    assert fact == Known(64000, Origin.REPORTED, "paste:1: num_ctx 64000")


def test_layers_threads_and_the_rest():
    text = "FROM x\nPARAMETER num_gpu 20\nPARAMETER num_thread 8\nPARAMETER num_batch 1024\nPARAMETER use_mmap false\n"
    found = runtime(text + "keep_alive: 0\ntop_k 0\nmain_gpu 1")
    assert (found.gpu_layers_set.need(), found.threads.need(), found.batch.need()) == (20, 8, 1024)
    assert (found.load_mode.need(), found.keep_alive_s.need(), found.top_k.need()) == ("none", 0, 0)
    assert found.main_gpu.need() == 1


def test_what_leaves_the_choice_to_ollama_is_no_setting():
    assert not isinstance(runtime("PARAMETER num_gpu -1").gpu_layers_set, Known)
    assert runtime("num_gpu 0: eval 14.6 tok/s").gpu_layers_set.need() == 0
    assert not isinstance(runtime("num_thread 0").threads, Known)


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
def test_a_variable_is_set_in_many_ways(text: str):
    found = runtime(text)
    assert found.slots.need() == 4
    assert found.environment == Known({"OLLAMA_NUM_PARALLEL": "4"}, Origin.REPORTED, "paste:1")
    assert found.name.need() == "Ollama"


def test_asking_for_flash_attention_is_not_having_it_but_refusing_is():
    assert runtime("OLLAMA_FLASH_ATTENTION=1").flash_attention.origin is Origin.ESTIMATED
    off = runtime("OLLAMA_FLASH_ATTENTION=0").flash_attention
    assert (off.need(), off.origin) == (False, Origin.REPORTED)
    cache = runtime("OLLAMA_KV_CACHE_TYPE=q8_0").kv_type_k
    assert (cache.need(), cache.origin) == ("q8_0", Origin.ESTIMATED)


def test_a_sentence_about_a_variable_is_no_value():
    assert seen("I set OLLAMA_FLASH_ATTENTION and it helped; OLLAMA_DEBUG: enable it") == Seen()


def test_the_server_s_own_line_is_left_to_its_log():
    line = 'level=INFO msg="server config" env="map[OLLAMA_NUM_PARALLEL:4 OLLAMA_KEEP_ALIVE:5m0s]"'
    assert seen(line) == Seen()
    assert seen('level=WARN msg="requested context size too large" num_ctx=99 n_ctx_train=8') == Seen()


def test_the_model_that_was_run():
    assert seen("$ ollama run --verbose llama3.1:8b-instruct-q4_K_M").subject.model.name.need() == (
        "llama3.1:8b-instruct-q4_K_M"
    )
    assert seen("when I use ollama run the model answers") == Seen()
