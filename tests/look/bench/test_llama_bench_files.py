"""llama-bench output in every format and from old versions; other text is refused."""

import json
from pathlib import Path

import pytest

from unslow.facts.errors import UserError
from unslow.look.bench.llama_bench import bench_row, parse_llama_bench

REAL = Path(__file__).parent / "llama_bench"


def rows(name: str):
    return parse_llama_bench((REAL / name).read_text(), name)


def test_llama_bench_json_has_every_test_and_repeat():
    found = rows("full.json")
    assert [row.test for row in found] == [
        "pp32", "pp64", "tg8", "pp32+tg8", "pp32 @ d64", "pp64 @ d64", "tg8 @ d64", "pp32+tg8 @ d64",
    ]  # fmt: skip
    first, written = found[0], json.loads((REAL / "full.json").read_text())[0]
    assert first.samples_ns == tuple(written["samples_ns"])
    assert first.samples_ts == pytest.approx(written["samples_ts"], rel=1e-5)
    assert (first.model_size, first.n_threads, first.type_k, first.flash_attn) == (96576768, 2, "f16", -1)


@pytest.mark.parametrize(("name", "tests"), [("threads.jsonl", 2), ("one.csv", 1), ("one.sql", 1), ("one.md", 1)])
def test_llama_bench_jsonl_csv_sql_and_markdown_are_parsed(name, tests):
    found = rows(name)
    assert [row.test for row in found] == ["pp32", "tg8"] * tests
    assert all(row.samples_ts for row in found)
    assert found[-1].n_threads == 2
    assert found[0].model_size == pytest.approx(96576768, rel=1e-4)


def test_truncated_llama_bench_output_keeps_its_complete_tests():
    text = (REAL / "full.json").read_text()
    found = parse_llama_bench(text[: text.rindex('"build_commit"')], "cut")
    assert len(found) == 7
    assert len(found[-1].samples_ns) == 3
    lines = (REAL / "threads.jsonl").read_text()
    assert len(parse_llama_bench(lines[:-100], "cut")) == 3


def test_fields_of_old_llama_bench_versions_are_mapped():
    old = {
        "build_commit": "1f126af",
        "build_number": 1700,
        "cuda": True,
        "metal": False,
        "f16_kv": False,
        "use_mmap": True,
    }
    test = {
        "n_prompt": 0,
        "n_gen": 128,
        "avg_ts": 20.5,
        "samples_ns": [6243902439],
        "samples_ts": [20.5],
        "flash_attn": True,
    }
    row = bench_row({**old, **test})
    assert (row.backends, row.type_k, row.load_mode, row.flash_attn, row.test) == ("CUDA", "f32", "mmap", 1, "tg128")
    assert bench_row({**old, **test, "f16_kv": True, "use_direct_io": True}).load_mode == "dio"
    assert bench_row({**old, **test, "cuda": False}).backends == "CPU"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "hello",
        "[]",
        "{}",
        "[1, 2, null]",
        "[" * 100_000,
        '[{"build_commit": "x"}]',
        '[{"n_prompt": 512, "avg_ts": 0}]',
        '[{"n_prompt": -512, "n_gen": 600, "avg_ts": 5}]',
        '[{"n_prompt": 512, "avg_ts": "NaN"}]',
        '[{"n_prompt": 512, "avg_ts": 1e300}]',
        '[{"n_prompt": 512, "samples_ns": {"a": 1}}]',
        '[{"n_prompt": 512, "samples_ns": [0, -1, null, "x"]}]',
        '[{"n_prompt": [512], "avg_ts": 3}]',
    ],
)
def test_text_that_is_not_llama_bench_output_is_a_user_error(text, wording):
    with pytest.raises(UserError) as error:
        parse_llama_bench(text, "the file")
    wording(str(error.value))
    assert "-o json" in error.value.hint


def test_a_llama_bench_file_over_32_mib_or_5000_tests_is_refused(wording):
    with pytest.raises(UserError) as refused:
        parse_llama_bench(" " * (32 * 2**20 + 1), "the file")
    wording(refused.value.message, tells="32 MiB")
    with pytest.raises(UserError) as refused:
        parse_llama_bench(json.dumps([{"n_prompt": 1, "avg_ts": 1}] * 5001), "the file")
    wording(refused.value.message, tells="5000")


def test_wrong_types_in_a_llama_bench_row_get_defaults():
    row = bench_row(
        {"n_prompt": "512", "avg_ts": "3.5", "n_gen": None, "model_type": "x" * 10_000, "n_threads": 1e400,
         "repack": "maybe", "poll": [1], "samples_ns": [1e300, 10**9], "unknown": {}}
    )  # fmt: skip
    assert (row.n_prompt, row.n_threads, row.repack, row.poll, row.samples_ns) == (512, 0, True, 50, (10**9,))
    assert len(row.model_type) == 1000
