import pytest

from unslow.facts.runtime import Runtime
from unslow.facts.values import Known, Origin
from unslow.look.logs.dialect import LogFacts, Text
from unslow.look.logs.ollama_commands import parse_ps_table, parse_ps_text
from unslow.look.logs.text_blocks import Places

SIX = """$ ollama ps
NAME           ID              SIZE      PROCESSOR          CONTEXT    UNTIL
llama3.3:70b   a6eb4748fd29    47 GB     52%/48% CPU/GPU    32768      4 minutes from now
qwen3:8b       500a1f067a9f    6.1 GB    100% GPU           4096       Forever
"""
FIVE = """NAME                    ID              SIZE    PROCESSOR       UNTIL
mixtral:8x7b            7708c059a8bb    29 GB   100% CPU        3 minutes from now
"""
WRAPPED = """NAME    ID    SIZE    PROCESSOR
   CONTEXT    UNTIL
hf.co/someone/Model-GGUF:Q4_K_M    a6eb4748fd29    47
GB    52%/48%
CPU/GPU    32768    4 minutes from now
"""
JSON = """{"models":[{"name":"gemma3:27b","model":"gemma3:27b","size":20000000000,"details":{"format":"gguf",
"family":"gemma3","parameter_size":"27.4B","quantization_level":"Q4_K_M"},"expires_at":"2026-01-01T00:00:00Z",
"size_vram":15000000000,"context_length":8192}]}"""


def seen(text: str) -> LogFacts:
    return parse_ps_text(Text(text.split("\n"), "paste"))


def runtime(text: str) -> Runtime:
    return seen(text).subject.runtime


def test_the_loaded_model_with_the_least_gpu_share_is_the_subject():
    result = seen(SIX)
    assert result.subject.model.name == Known("llama3.3:70b", Origin.REPORTED, "paste:3")
    assert result.subject.runtime.memory.vram_share == Known(0.48, Origin.REPORTED, "paste:3")
    assert result.subject.runtime.memory.size_bytes.need() == 47 * 10**9
    assert result.subject.runtime.memory.size_vram_bytes == Known(round(47e9 * 0.48), Origin.ESTIMATED, "paste:3")
    assert result.subject.runtime.context.per_slot.need() == 32768
    assert result.spans == ((2, 3), (3, 4))


def test_every_row_of_ollama_ps_is_parsed():
    rows = parse_ps_table(Places(Text(SIX.split("\n"), "paste")))
    assert [row.model.name.need() for row in rows] == ["llama3.3:70b", "qwen3:8b"]
    assert rows[1].runtime.scheduling.keep_alive_s.need() == -1
    assert rows[1].runtime.memory.vram_share.need() == 1


def test_ollama_ps_without_a_context_column_is_parsed():
    assert runtime(FIVE).memory.vram_share == Known(0.0, Origin.REPORTED, "paste:2")
    assert not isinstance(runtime(FIVE).context.per_slot, Known)


@pytest.mark.parametrize("text", [WRAPPED, SIX.replace("    ", "\t"), SIX.replace("    ", " | ")])
def test_a_wrapped_or_retabbed_ollama_ps_is_parsed(text: str):
    assert runtime(text).memory.vram_share.need() == 0.48
    assert runtime(text).context.per_slot.need() == 32768
    assert runtime(text).memory.size_bytes.need() == 47 * 10**9


def test_ollama_api_ps_json_is_parsed_in_bytes():
    result = seen(JSON)
    assert result.subject.model.name.need() == "gemma3:27b"
    assert result.subject.model.quant.need() == "Q4_K_M"
    assert (result.subject.runtime.memory.vram_share.need(), result.subject.runtime.context.per_slot.need()) == (
        0.75,
        8192,
    )


@pytest.mark.parametrize(
    ("text", "share"),
    [
        ("it shows 68%/32% CPU/GPU all the time", 0.32),
        ("ollama ps 68%/32% CPU/GPU", 0.32),
        ("`ollama ps` says 100% CPU", 0.0),
        ("and ollama ps:\n100% GPU", 1.0),
        ("ollama ps: 32% CPU / 68% GPU", 0.68),
    ],
)
def test_ollama_ps_percentages_are_parsed_from_a_phrase(text: str, share: float):
    assert runtime(text).memory.vram_share.need() == share


def test_the_size_before_ollama_ps_percentages_is_parsed():
    held = runtime("ollama ps: 51 GB 100% GPU; after num_ctx: 156 GB 41%/59% CPU/GPU")
    assert (held.memory.size_bytes.need(), held.memory.vram_share.need()) == (156 * 10**9, 0.59)
    assert held.memory.size_vram_bytes.need() == round(156 * 10**9 * 0.59)


@pytest.mark.parametrize(
    "text", ["my machine is at 100% CPU", "100% GPU usage while it answers", "90%/90% CPU/GPU", "999%/-1% CPU/GPU", ""]
)
def test_utilization_percentages_are_not_a_placement(text: str):
    assert seen(text) == LogFacts()


def test_a_hostile_ollama_ps_table_is_bounded():
    text = "a " * 100_000 + "100% GPU " * 10_000 + "x 0123456789ab " * 10_000
    assert seen(text) == LogFacts()
    rows = "m:1  0123456789ab  99999 TB  100% GPU  \n" * 5000
    assert len(parse_ps_table(Places(Text(rows.split("\n"), "paste")))) == 64
