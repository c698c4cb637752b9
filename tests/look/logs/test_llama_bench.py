import json

import pytest

from unslow.facts.account import Topic
from unslow.facts.values import Known, Origin
from unslow.look.logs.dialect import LogFacts, Text
from unslow.look.logs.llama_bench import parse_text


def seen(text: str) -> LogFacts:
    return parse_text(Text(text.split("\n"), "post"))


MARKDOWN = """\
Here is what I get:

| model | size | params | backend | ngl | fa | test | t/s |
| --- | ---------: | ---------: | --- | --: | -: | -----: | ------------: |
| qwen3moe 30B.A3B Q4_K - Medium | 17.28 GiB | 30.53 B | CUDA | 99 | 1 | pp512 | 6512.33 ± 45.12 |
| qwen3moe 30B.A3B Q4_K - Medium | 17.28 GiB | 30.53 B | CUDA | 99 | 1 | tg128 | 219.49 ± 1.20 |

build: 0842b9b46 (8322)

and since the update
| model | size | params | backend | ngl | fa | test | t/s |
| --- | ---------: | ---------: | --- | --: | -: | -----: | ------------: |
| qwen3moe 30B.A3B Q4_K - Medium | 17.28 GiB | 30.53 B | CUDA | 99 | 1 | tg128 | 89.10 ± 1.20 |
| qwen3moe 30B.A3B Q4_K - Medium | 17.28 GiB | 30.53 B | CUDA | 99 | 1 | tg128 @ d4096 | 79.10 ± 1.20 |

build: 1842b9b46 (8323)
"""


def test_llama_bench_markdown_table_is_parsed():
    told = seen(MARKDOWN)
    runtime, model, run = told.subject.runtime, told.subject.model, told.subject.run
    assert (runtime.name.need(), runtime.version.need()) == ("llama.cpp", "b8323-1842b9b46")
    assert (runtime.placement.gpu_layers_set.need(), runtime.compute.flash_attention.need()) == (99, True)
    assert runtime.build.backends.need() == ["CUDA"]
    assert (model.name.need(), model.quant.need()) == ("qwen3moe 30B.A3B", "Q4_K_M")
    assert model.weights_bytes == Known(18554258719, Origin.ESTIMATED, "post:14")
    assert run.decode_tokens_per_s == Known(89.10, Origin.REPORTED, "post:13")
    assert run.prefill_tokens_per_s.need() == 6512.33
    assert told.lines == 4


def test_llama_bench_rows_that_differ_in_one_column_are_compared():
    compared = seen(MARKDOWN).subject.account.comparisons.need()
    assert [(c.metric, c.slow, c.fast, c.differs) for c in compared] == [
        ("decode", 89.10, 219.49, (Topic.VERSION,)),
        ("decode", 79.10, 89.10, (Topic.DEPTH,)),
    ]
    assert compared[0].source == "post:13"


@pytest.mark.parametrize(
    ("column", "slow", "fast", "topic"),
    [
        ("fa", "0", "1", Topic.FLASH_ATTENTION),
        ("threads", "32", "8", Topic.THREADS),
        ("ngl", "10", "99", Topic.DEVICE),
        ("n_ubatch", "64", "512", Topic.BATCH),
        ("type_k", "q5_1", "f16", Topic.KV_TYPE),
        ("sm", "row", "layer", Topic.SPLIT_MODE),
        ("n_cpu_moe", "40", "0", Topic.EXPERTS),
        ("mmap", "1", "0", Topic.LOAD_MODE),
    ],
)
def test_each_llama_bench_column_has_its_comparison_topic(column: str, slow: str, fast: str, topic: Topic):
    text = f"""\
| model | size | params | backend | {column} | test | t/s |
| --- | ---: | ---: | --- | ---: | ---: | ---: |
| llama 8B BF16 | 15.00 GiB | 8.03 B | ROCm | {slow} | tg128 | 5.62 ± 0.01 |
| llama 8B BF16 | 15.00 GiB | 8.03 B | ROCm | {fast} | tg128 | 21.92 ± 0.01 |
"""
    [comparison] = seen(text).subject.account.comparisons.need()
    assert (comparison.slow, comparison.fast, comparison.differs) == (5.62, 21.92, (topic,))


def test_llama_bench_compares_quants_of_one_model_but_not_models():
    rows = """\
| model | size | params | backend | ngl | test | t/s |
| --- | ---: | ---: | --- | ---: | ---: | ---: |
| llama 1B BF16 | 2.90 GiB | 1.57 B | CUDA | 99 | tg128 | 5.62 ± 0.01 |
| llama 1B F16 | 2.90 GiB | 1.57 B | CUDA | 99 | tg128 | 191.95 ± 0.01 |
| qwen2 7B F16 | 14.90 GiB | 7.57 B | CUDA | 99 | tg128 | 60.00 ± 0.01 |
"""
    [comparison] = seen(rows).subject.account.comparisons.need()
    assert (comparison.slow, comparison.fast, comparison.differs) == (5.62, 191.95, (Topic.QUANT_TYPE,))


ROW = {
    "build_commit": "3469684",
    "build_number": 1275,
    "cpu_info": "AMD Ryzen 9 5950X 16-Core Processor",
    "gpu_info": "NVIDIA GeForce RTX 3090, NVIDIA GeForce RTX 3060",
    "backends": "CUDA",
    "model_filename": "models/7B/ggml-model-q4_0.gguf",
    "model_type": "llama 7B Q4_0",
    "model_size": 3825065984,
    "model_n_params": 6738415616,
    "n_batch": 2048,
    "n_ubatch": 512,
    "n_threads": 16,
    "type_k": "f16",
    "type_v": "f16",
    "n_gpu_layers": 99,
    "split_mode": "layer",
    "no_kv_offload": False,
    "flash_attn": 1,
    "n_prompt": 0,
    "n_gen": 128,
    "n_depth": 0,
    "test_time": "2026-08-22T10:00:00Z",
    "avg_ns": 1_000_000_000,
    "stddev_ns": 100,
    "avg_ts": 128.5,
    "stddev_ts": 0.3,
}


def _csv() -> str:
    return ",".join(ROW) + "\n" + ",".join(f'"{value}"' for value in ROW.values())


def _sql() -> str:
    values = ", ".join(f"'{value}'" for value in ROW.values())
    return f"INSERT INTO llama_bench ({', '.join(ROW)}) VALUES ({values});"


@pytest.mark.parametrize(
    "text",
    [
        json.dumps([ROW, {**ROW, "samples_ts": [1.0] * 5}], indent=2),
        json.dumps(ROW) + "\n" + json.dumps(ROW),
        _csv(),
        _sql(),
    ],
    ids=["json", "jsonl", "csv", "sql"],
)
def test_llama_bench_json_csv_and_sql_are_parsed_with_hardware(text: str):
    told = seen("some words\n" + text + "\nmore words")
    subject = told.subject
    assert subject.run.decode_tokens_per_s.need() == 128.5
    assert subject.runtime.version.need() == "b1275-3469684"
    assert (subject.runtime.compute.threads.need(), subject.runtime.cache.type_k.need()) == (16, "f16")
    assert subject.model.weights_bytes.need() == 3825065984
    assert subject.model.quant.need() == "Q4_0"
    assert told.machine.cpu.model.need() == "AMD Ryzen 9 5950X 16-Core Processor"
    assert [gpu.name.need() for gpu in told.machine.gpus.need()] == [
        "NVIDIA GeForce RTX 3090",
        "NVIDIA GeForce RTX 3060",
    ]


@pytest.mark.parametrize(
    "text",
    [
        "| model | test | t/s |\n| a | tg128 | nan |",
        "| model | test | t/s |\n| a | tg128 | -5 |",
        "| my GPU | t/s |\n| 3090 | 50 |",
        '{"build_commit": ' + "[" * 50_000,
        '{"build_commit": "a", "avg_ts": 1e999, "n_gen": 128}',
        '{"build_commit": "a", "avg_ts": -1, "n_gen": 128}',
        "build_commit,avg_ts\n1,2\n",
        "just words",
    ],
)
def test_tables_that_are_not_llama_bench_are_ignored(text: str):
    assert seen(text) == LogFacts()
