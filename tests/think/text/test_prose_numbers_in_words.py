import pytest

from unslow.catalog.bug_reports import number_phrases
from unslow.facts.values import GB, GIB, MHZ, MIB, Known, Unknown
from unslow.think.text.prose import _READERS, layers_of, read_words


def fact(path: str, *lines: str):
    told = read_words(lines, "r")
    at = told.machine if path.startswith("machine.") else told.subject
    for step in path.removeprefix("machine.").split("."):
        at = at.need()[0] if step == "0" else getattr(at, step)
    return at.value_or(None)


@pytest.mark.parametrize(
    ("line", "path", "value"),
    [
        ("top_k 0 and the rest default", "runtime.sampling.top_k", 0),
        ("started with --enforce-eager", "runtime.compute.eager", True),
        ("CUDA graphs are disabled", "runtime.compute.eager", True),
        ("vllm serve x --quantization gptq", "runtime.compute.quantization", "gptq"),
        ("--tensor-parallel-size 4", "runtime.placement.tensor_parallel", 4),
        ("tp=2", "runtime.placement.tensor_parallel", 2),
        ("llama-server -sm row", "runtime.placement.split_mode", "row"),
        ("with -ctk q8_0", "runtime.cache.type_k", "q8_0"),
        ("with -ctv q4_0", "runtime.cache.type_v", "q4_0"),
        ("-fa off", "runtime.compute.flash_attention", False),
        ("OLLAMA_FLASH_ATTENTION=1", "runtime.compute.flash_attention", True),
        ("--grammar-file json.gbnf", "runtime.sampling.grammar", "json.gbnf"),
        ("num_gpu 20", "runtime.placement.gpu_layers_set", 20),
        ("-ngl 99", "runtime.placement.gpu_layers_set", 99),
        ("num_ctx 8192", "runtime.context.length", 8192),
        ("a 32k context", "runtime.context.length", 32768),
        ("24 threads on 6 cores", "runtime.compute.threads", 24),
        ("24 threads on 6 cores", "machine.cpu.physical_cores", 6),
        ("draft acceptance rate 34 %", "runtime.sampling.draft_acceptance", 0.34),
        ("acceptance is 0.34", "runtime.sampling.draft_acceptance", 0.34),
        ("GPU KV cache usage: 99.8%", "runtime.cache.usage", 0.998),
        ("12 requests running, 30 waiting", "runtime.scheduling.running_requests", 12),
        ("12 requests running, 30 waiting", "runtime.scheduling.deferred_requests", 30),
        ("a 40 GB gguf", "model.weights_bytes", 40 * GB),
        ("docker run --cpus 2", "machine.cpu.quota_cpus", 2.0),
        ("--cpuset-cpus 0-3, cpuset: 0-3", "machine.cpu.allowed_cpus", 4),
        ("12.5 GB of swap", "machine.memory.swap_used_bytes", int(12.5 * GB)),
        ("nr_throttled 1200 of 1500", "run.cpu_throttled_fraction", 0.8),
        ("loading takes 3 minutes", "run.load_s", 180.0),
        ("it takes two hours to load", "run.load_s", 7200.0),
        ("--cpu-offload-gb 8", "runtime.placement.cpu_offload_bytes", 8 * GB),
        ("CPU clock stuck at 800 MHz", "machine.cpu.frequency_hz", 800 * MHZ),
        ("RTX 3090 shows 23000MiB / 24576MiB", "machine.gpus.0.vram_used_bytes", 23000 * MIB),
        ("RTX 3090 shows 23000MiB / 24576MiB", "machine.gpus.0.vram_total_bytes", 24 * GIB),
    ],
)
def test_settings_and_numbers_are_parsed(line, path, value):
    assert fact(path, line) == pytest.approx(value)


@pytest.mark.parametrize(
    ("line", "path"),
    [
        ("top_k is fine", "runtime.sampling.top_k"),
        ("stopped 5 times", "runtime.sampling.top_k"),
        ("a 7b model on 8 gpus", "runtime.context.length"),
        ("-sm rows", "runtime.placement.split_mode"),
        ("threads are idle", "runtime.compute.threads"),
        ("4k context-free grammar", "runtime.compute.threads"),
        ("the load is 3 on average", "run.load_s"),
    ],
)
def test_near_misses_give_no_fact(line, path):
    assert fact(path, line) is None


def test_first_mention_counts():
    assert fact("runtime.context.length", "num_ctx 8192", "num_ctx 4096") == 8192


@pytest.mark.parametrize(
    "line",
    [
        "KV cache usage 9999999 %",
        "acceptance 5000 %",
        "RTX 3090 with gpu temperature 999 c",
        "9999999 tb gguf",
        "--cpus 9999999",
    ],
)
def test_numbers_stay_within_bounds(line):
    told = read_words([line], "r")
    for path, fact_ in (
        ("kv_usage", told.subject.runtime.cache.usage),
        ("draft_acceptance", told.subject.runtime.sampling.draft_acceptance),
    ):
        assert isinstance(fact_, Unknown) or 0 <= fact_.value <= 1, path
    weights = told.subject.model.weights_bytes
    assert not isinstance(weights, Known) or weights.value <= 2**60


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("23/33 layers offloaded", {"runtime.placement.gpu_layers": 23, "runtime.placement.layers": 33}),
        ("20 of 33 layers", {"runtime.placement.gpu_layers": 20, "runtime.placement.layers": 33}),
        ("layers: 20/33", {"runtime.placement.gpu_layers": 20, "runtime.placement.layers": 33}),
        ("only 12 layers fit", {"runtime.placement.gpu_layers": 12}),
        ("all 33 layers", {"runtime.placement.layers": 33}),
        ("33/20 layers", {}),
        ("many layers", {}),
    ],
)
def test_layer_counts_are_parsed(text, expected):
    assert dict(layers_of(text)) == expected


def test_several_contexts_become_several_loads():
    loads = read_words(["num_ctx 4096, 8192 then 16384: each loads again"], "r").subject.runtime.history.loads.need()
    assert [load.context_length.need() for load in loads] == [4096, 8192, 16384]
    assert not read_words(["context 4096 is enough"], "r").subject.runtime.history.loads.value_or([])


def test_every_phrase_kind_has_a_reader():
    assert {phrase.kind for phrase in number_phrases()} <= _READERS.keys()


def test_cpu_count_of_a_machine_is_not_a_quota():
    assert read_words(["docker compose with cpus: 4"], "r").machine.cpu.quota_cpus.need() == 4
    assert read_words(["2 CPUs, 64 GB"], "r").machine.cpu.quota_cpus.value_or(None) is None
