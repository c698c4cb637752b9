"""Benchmarks are listed, imported, exported, removed and compared."""

import json
import sqlite3
from pathlib import Path

import msgspec
import pytest
from bench_cases import answered, around, bench, spread

from unslow.commands._bench_history import (
    compare_with,
    export,
    forget,
    import_file,
    list_benchmarks,
    read_benches,
    with_figures,
)
from unslow.facts.bench import DECODE, PREFILL
from unslow.facts.errors import UserError
from unslow.facts.stored_json import dump_stored
from unslow.look.stored.history import History

REAL = Path(__file__).parents[2] / "look" / "bench" / "llama_bench"


@pytest.fixture
def history(tmp_path) -> History:
    return History(tmp_path / "benchmarks.sqlite3")


def test_list_is_newest_first_with_total(history):
    for number in (1, 2, 3):
        history.keep(bench(number, model="qwen" if number == 2 else "llama"))
    report = list_benchmarks(history=history)
    assert ([entry.id[:4] for entry in report.benchmarks], report.total) == (["0003", "0002", "0001"], 3)


@pytest.mark.parametrize(("name", "count"), [("full.json", 1), ("threads.jsonl", 2), ("one.csv", 1), ("one.md", 1)])
def test_llama_bench_files_are_imported_once(history, name, count):
    for _ in range(2):
        report = import_file(str(REAL / name), history)
        assert (report.what, len(report.benchmarks), report.total) == ("imported", count, count)
    assert {entry.protocol for entry in report.benchmarks} == {"imported"}


def test_exported_benchmark_is_imported_unchanged(history, tmp_path):
    export(bench(1), str(tmp_path / "mine.json"))
    import_file(str(tmp_path / "mine.json"), history)
    assert history.find("LAST") == bench(1)


def test_export_as_llama_bench_can_be_read_back(tmp_path):
    export(bench(1), str(tmp_path / "theirs.json"), "llama-bench")
    assert [row["n_gen"] for row in json.loads((tmp_path / "theirs.json").read_text())] == [0, 128]
    (back,) = read_benches(str(tmp_path / "theirs.json"))
    assert back.figures[DECODE].median == pytest.approx(100.0)
    assert (back.runtime_version, back.settings["runtime.threads"]) == ("b9000-unknown", "8")


def test_export_into_a_missing_folder_is_refused(tmp_path):
    with pytest.raises(UserError, match="No such file or directory"):
        export(bench(1), str(tmp_path / "nowhere" / "a.json"))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "holds no test of llama-bench"),
        (b"\xff\xfe\x00", "holds no test of llama-bench"),
        (b'{"schema": "unslow.bench/2"}', "this version reads unslow.bench/1"),
        (b'{"schema": "unslow.bench/1"}', "is not a benchmark"),
        (b'{"schema": "unslow.bench/1", "id": ' + b"[" * 100_000, "is not a benchmark"),
        (dump_stored(bench(1))[:-200], "is not a benchmark"),
    ],
)
def test_invalid_file_is_refused_and_nothing_is_stored(history, tmp_path, data, words):
    (tmp_path / "file").write_bytes(data)
    with pytest.raises(UserError, match=words):
        import_file(str(tmp_path / "file"), history)
    assert history.count() == 0


def test_missing_import_file_suggests_llama_bench_json(history):
    with pytest.raises(UserError, match="nowhere") as error:
        import_file("/nowhere/at/all.json", history)
    assert "llama-bench -o json" in error.value.hint


def test_forget_removes_one_benchmark(history):
    history.keep(bench(1))
    history.keep(bench(2))
    report = forget("0001", history)
    assert (report.what, [entry.id[:4] for entry in report.benchmarks], report.total) == ("forgotten", ["0001"], 1)


def test_slower_newer_version_is_the_suspect(history, wording):
    history.keep(bench(1, 100.0))
    now = bench(2, 70.0, runtime_version="b9100")
    history.keep(now)
    found = compare_with(now, "LAST", history)
    assert (found.before.id[:4], found.verdict) == ("0001", "slower")
    wording(found.suspect, tells=("b9000", "b9100"))
    decode = next(one for one in found.comparison.differences if one.metric == DECODE)
    assert decode.ratio == pytest.approx(0.7)


def test_same_speed_has_no_suspect(history, wording):
    for number in range(1, 7):
        history.keep(bench(number, 100.0 + number / 10))
    found = compare_with(bench(9, 100.2), "LAST~1", history)
    assert (found.verdict, found.suspect, found.before.id[:4]) == ("same", "", "0005")
    wording(found.comparison.notes)


def test_comparison_with_a_file(history, tmp_path, wording):
    export(bench(1, 100.0), str(tmp_path / "before.json"))
    assert compare_with(bench(2, 60.0), str(tmp_path / "before.json"), history).verdict == "slower"
    with pytest.raises(UserError) as caught:
        compare_with(bench(2), "nothing.json", history)
    wording(str(caught.value))


def test_comparison_with_a_file_needs_no_readable_history(history, tmp_path):
    history.path.write_bytes(b"no database" * 100)
    export(bench(1, 100.0), str(tmp_path / "before.json"))
    assert compare_with(bench(2, 60.0), str(tmp_path / "before.json"), history).verdict == "slower"


def test_comparison_with_llama_bench_takes_the_most_similar_setup(history):
    now = bench(
        2, model="smollm2-135m.gguf", settings={"runtime.threads": "2"}, samples={}, figures={DECODE: spread(90)}
    )
    found = compare_with(now, str(REAL / "threads.jsonl"), history)
    assert found.before.settings["runtime.threads"] == "2"
    assert found.changes[0].name == "measured with"


def test_interrupted_benchmark_is_compared_by_its_passes(history):
    begun = bench(1, passes=(), figures={}, samples={})
    history.begin(begun)
    history.append(begun.id, [answered(n, case="short") for n in (1, 2, 3, 4)])
    slow = bench(2, 50.0, samples={DECODE: around(50)}, figures={DECODE: spread(50)})
    found = compare_with(slow, begun.id, history)
    assert found.verdict == "slower"
    with pytest.raises(UserError, match="no earlier"):
        compare_with(slow, "LAST", history)  # which is one that ended
    assert found.before.figures[DECODE].median == pytest.approx(100.0)
    assert with_figures(bench(3)) == bench(3)
    swept = bench(3, protocol="sweep", figures={}, samples={})
    assert with_figures(swept) == swept
    assert PREFILL not in found.before.figures  # prompts of 40 tokens time nothing


def test_name_with_a_null_byte_is_refused(history):
    with pytest.raises(UserError, match="no saved benchmark"):
        compare_with(bench(1), "a\x00b", history)


def test_damaged_history_is_a_user_error(history):
    history.keep(bench(1))
    with sqlite3.connect(history.path) as connection:
        connection.execute("UPDATE benches SET body = x'00'")
    connection.close()
    with pytest.raises(UserError, match="is damaged"):
        compare_with(msgspec.structs.replace(bench(2), label="now"), "LAST", history)
