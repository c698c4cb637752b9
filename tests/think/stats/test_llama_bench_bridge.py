"""llama-bench results become benchmarks and are written back unchanged; own results use its format."""

import json
from pathlib import Path

import msgspec
import pytest
from bench_cases import answered, around, bench, spread

from unslow.facts.bench import DECODE, DECODE_AT_4K, PREFILL, Sweep, SweepPoint, parse_bench
from unslow.facts.stored_json import dump_stored
from unslow.look.bench.llama_bench import parse_llama_bench
from unslow.show.bench import render_llama_bench
from unslow.think.stats.llama_bench import benches_of

REAL = Path(__file__).parents[2] / "look" / "bench" / "llama_bench"


def imported(name: str):
    return benches_of(parse_llama_bench((REAL / name).read_text(), name), "1")


def test_one_setup_is_one_benchmark_with_all_tests():
    (one,) = imported("full.json")
    assert (one.protocol, one.runtime, one.model, one.model_bytes) == (
        "imported",
        "llama.cpp",
        "smollm2-135m.gguf",
        96576768,
    )
    assert (one.settings["test.decode"], one.settings["test.prefill"]) == ("tg8", "pp64")
    assert one.settings["measured_with"] == "llama-bench"
    assert set(one.figures) == {
        DECODE, PREFILL, "pp32", "pp32+tg8", "pp32 @ d64", "pp64 @ d64", "tg8 @ d64", "pp32+tg8 @ d64",
    }  # fmt: skip
    assert one.samples.keys() == one.figures.keys()
    assert one.seconds == pytest.approx(4.64, abs=2)
    assert parse_bench(dump_stored(one), "x") == one


def test_depths_become_a_sweep():
    (sweep,) = imported("full.json")[0].sweeps
    assert (sweep.axis, sweep.verdict) == ("depth", "cannot_tell")
    assert [(point.at, sorted(point.figures)) for point in sweep.points] == [
        (0, [DECODE, PREFILL]),
        (64, [DECODE, PREFILL]),
    ]


def test_different_settings_are_separate_benchmarks():
    one, two = imported("threads.jsonl")
    assert (one.settings["runtime.threads"], two.settings["runtime.threads"]) == ("1", "2")
    assert one.id != two.id
    assert imported("threads.jsonl")[0].id == one.id


def test_rows_with_only_means_are_noted(wording):
    wording(imported("one.csv")[0].notes)
    assert imported("threads.jsonl")[0].notes == ()


def test_usual_lengths_give_the_key_figures():
    row = {"build_commit": "abc1234", "build_number": 6000, "model_filename": "/home/me/models/a.gguf"}
    tests = [{"n_prompt": n, "avg_ts": n} for n in (512, 2048)] + [{"n_gen": n, "avg_ts": n} for n in (32, 128, 256)]
    (one,) = benches_of(parse_llama_bench(json.dumps([row | test for test in tests]), "x"), "1")
    assert (one.figures[PREFILL].median, one.figures[DECODE].median) == (512, 128)
    assert (one.runtime_version, one.model) == ("b6000-abc1234", "a.gguf")


def test_repeated_test_adds_repeats():
    text = (REAL / "threads.jsonl").read_text()
    one, _ = benches_of(parse_llama_bench(text + text, "twice"), "1")
    assert len(one.samples[DECODE]) == 4


@pytest.mark.parametrize("name", ["full.json", "threads.jsonl"])
def test_imported_rows_are_exported_unchanged(name):
    written = [
        msgspec.json.decode(msgspec.json.encode(row)) for row in parse_llama_bench((REAL / name).read_text(), name)
    ]
    back = [row for one in imported(name) for row in json.loads(render_llama_bench(one))]
    assert len(back) == len(written)
    for before, after in zip(written, back, strict=True):
        assert list(before) == list(after)
        assert after["samples_ns"] == before["samples_ns"]
        assert after["samples_ts"] == pytest.approx(before["samples_ts"])
        for field in ("avg_ts", "stddev_ts", "avg_ns", "stddev_ns"):
            assert after[field] == pytest.approx(before[field], rel=1e-3), (
                field
            )  # its own deviation in ns is of whole numbers
        same = before.keys() - {"samples_ts", "avg_ts", "stddev_ts", "avg_ns", "stddev_ns", "test_time"}
        assert {field: after[field] for field in same} == {field: before[field] for field in same}


def test_exported_fields_match_llama_bench():
    real = json.loads((REAL / "full.json").read_text())[0]
    ours = json.loads(render_llama_bench(bench()))[0]
    assert list(ours) == list(real)
    assert {field: type(value) for field, value in ours.items()} == {
        field: type(value) for field, value in real.items()
    }


def test_own_benchmark_is_exported_with_real_lengths():
    long = [answered(n, case="long", prompt_tokens=3571, generated_tokens=64) for n in (1, 2, 3)]
    short = [answered(n, generated_tokens=512, prompt_tokens=41) for n in (1, 2, 3)]
    warm = answered(0, generated_tokens=16)
    one = bench(
        passes=(warm, *short, *long), samples={DECODE: around(100), PREFILL: around(2000), DECODE_AT_4K: around(80)}
    )
    rows = json.loads(render_llama_bench(one))
    lengths = [(row["n_prompt"], row["n_gen"], row["n_depth"], row["avg_ts"]) for row in rows]
    assert lengths == [
        (3571, 0, 0, pytest.approx(2000)),
        (0, 512, 41, pytest.approx(100)),
        (0, 64, 3571, pytest.approx(80)),
    ]
    assert rows[1]["samples_ns"][2] == 5_120_000_000
    assert (rows[0]["build_number"], rows[0]["gpu_info"], rows[0]["n_threads"], rows[0]["flash_attn"]) == (
        9000,
        "RTX 4090",
        8,
        1,
    )


def test_own_depth_sweep_is_exported():
    points = tuple(SweepPoint(at=at, figures={DECODE: spread(speed)}) for at, speed in ((509, 90.0), (4093, 70.0)))
    sweep = Sweep(axis="depth", points=points, verdict="slope", because="x")
    one = bench(passes=(answered(1, case="depth 512", generated_tokens=48),), samples={}, figures={}, sweeps=(sweep,))
    rows = json.loads(render_llama_bench(one))
    assert [(row["n_gen"], row["n_depth"], row["avg_ts"], row["samples_ts"]) for row in rows] == [
        (48, 509, 90.0, []), (48, 4093, 70.0, []),
    ]  # fmt: skip
    assert rows[0]["avg_ns"] == round(48e9 / 90)


def test_non_numeric_settings_are_exported_as_defaults():
    one = bench(
        settings={"runtime.threads": "many", "runtime.batch": "9" * 40, "runtime.repack": "7"}, runtime_version="1.2-x"
    )
    row = json.loads(render_llama_bench(one))[0]
    assert (row["n_threads"], row["n_batch"], row["repack"], row["build_number"]) == (0, 0, True, 0)


def test_model_type_backend_and_time_are_exported():
    settings = {"model.architecture": "llama", "model.parameters": "8030261248", "model.quant": "Q4_K_M"}
    one = bench(
        settings=settings | {"runtime.backends": "CUDA, CPU", "runtime.gpu_layers": "33"},
        taken_at="2026-01-01T10:00:00+00:00",
    )
    row = json.loads(render_llama_bench(one))[0]
    assert (row["model_type"], row["backends"], row["n_gpu_layers"]) == ("llama 8.0B Q4_K_M", "CUDA", 33)
    assert row["test_time"] == "2026-01-01T10:00:00Z"


def test_hostile_benchmark_is_exported_safely():
    points = (SweepPoint(at=1e18, figures={DECODE: spread(1e-200)}), SweepPoint(at=0, figures={DECODE: spread(0.0)}))
    sweep = Sweep(axis="depth", points=points, verdict="slope", because="x")
    samples = {DECODE: (1e-300, 1e18, 0.0), PREFILL: (0.0,)}
    assert len(json.loads(render_llama_bench(bench(samples=samples, sweeps=(sweep,))))) == 4
    odd = {"tg" + "9" * 5000: (1.0,), "": (2.0,), "pp+tg @ d": (3.0,), "\ud7ff": (1e18,), DECODE: ()}
    rows = json.loads(
        render_llama_bench(bench(protocol="imported", samples=odd, settings={"runtime.threads": "9" * 5000}))
    )
    assert [(row["n_prompt"], row["n_gen"], row["n_threads"]) for row in rows] == [(0, 0, 0)] * 5
