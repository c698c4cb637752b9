"""Benchmarks are listed, brought in, written out, forgotten, and held against each other."""

import json
import sqlite3
from pathlib import Path

import msgspec
import pytest
from bench_cases import answered, around, bench, spread

from unslow.commands._bench_history import compare_with, export, figured, forget, import_file, listed, read_benches
from unslow.facts.bench import DECODE, PREFILL
from unslow.facts.errors import UserError
from unslow.facts.stored_json import dump_stored
from unslow.look.stored.history import History

REAL = Path(__file__).parents[2] / "look" / "bench" / "llama_bench"


@pytest.fixture
def history(tmp_path) -> History:
    return History(tmp_path / "benchmarks.sqlite3")


def test_listed(history):
    for number in (1, 2, 3):
        history.keep(bench(number, model="qwen" if number == 2 else "llama"))
    report = listed(history=history)
    assert ([entry.id[:4] for entry in report.benchmarks], report.total) == (["0003", "0002", "0001"], 3)


@pytest.mark.parametrize(("name", "count"), [("full.json", 1), ("threads.jsonl", 2), ("one.csv", 1), ("one.md", 1)])
def test_files_of_llama_bench_are_brought_in_once(history, name, count):
    for _ in range(2):
        report = import_file(str(REAL / name), history)
        assert (report.what, len(report.benchmarks), report.total) == ("imported", count, count)
    assert {entry.protocol for entry in report.benchmarks} == {"imported"}


def test_our_own_file_is_brought_in_as_it_was(history, tmp_path):
    export(bench(1), str(tmp_path / "mine.json"))
    import_file(str(tmp_path / "mine.json"), history)
    assert history.find("LAST") == bench(1)


def test_written_as_llama_bench_does(tmp_path):
    export(bench(1), str(tmp_path / "theirs.json"), "llama-bench")
    assert [row["n_gen"] for row in json.loads((tmp_path / "theirs.json").read_text())] == [0, 128]
    (back,) = read_benches(str(tmp_path / "theirs.json"))
    assert back.figures[DECODE].median == pytest.approx(100.0)
    assert (back.runtime_version, back.settings["runtime.threads"]) == ("b9000-unknown", "8")


def test_what_can_not_be_written(tmp_path):
    with pytest.raises(UserError, match="No such file or directory"):
        export(bench(1), str(tmp_path / "nowhere" / "a.json"))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "holds no test of llama-bench"),
        (b"\xff\xfe\x00", "holds no test of llama-bench"),
        (b'{"schema": "unslow.bench/2"}', "this version reads unslow.bench/1"),
        (b'{"schema": "unslow.bench/1"}', "is no benchmark"),
        (b'{"schema": "unslow.bench/1", "id": ' + b"[" * 100_000, "is no benchmark"),
        (dump_stored(bench(1))[:-200], "is no benchmark"),
    ],
)
def test_a_hostile_file_is_told_and_nothing_is_kept(history, tmp_path, data, words):
    (tmp_path / "file").write_bytes(data)
    with pytest.raises(UserError, match=words):
        import_file(str(tmp_path / "file"), history)
    assert history.count() == 0


def test_a_file_that_is_not_there(history):
    with pytest.raises(UserError, match="nowhere") as error:
        import_file("/nowhere/at/all.json", history)
    assert "llama-bench -o json" in error.value.hint


def test_forgotten(history):
    history.keep(bench(1))
    history.keep(bench(2))
    report = forget("0001", history)
    assert (report.what, [entry.id[:4] for entry in report.benchmarks], report.total) == ("forgotten", ["0001"], 1)


def test_slower_since_a_version(history, wording):
    history.keep(bench(1, 100.0))
    now = bench(2, 70.0, runtime_version="b9100")
    history.keep(now)
    found = compare_with(now, "LAST", history)
    assert (found.before.id[:4], found.verdict) == ("0001", "slower")
    wording(found.suspect, tells=("b9000", "b9100"))
    decode = next(one for one in found.comparison.differences if one.metric == DECODE)
    assert decode.ratio == pytest.approx(0.7)


def test_the_same_is_the_same_and_needs_no_suspect(history, wording):
    for number in range(1, 7):
        history.keep(bench(number, 100.0 + number / 10))
    found = compare_with(bench(9, 100.2), "LAST~1", history)
    assert (found.verdict, found.suspect, found.before.id[:4]) == ("same", "", "0005")
    wording(found.comparison.notes)


def test_against_a_file(history, tmp_path, wording):
    export(bench(1, 100.0), str(tmp_path / "before.json"))
    assert compare_with(bench(2, 60.0), str(tmp_path / "before.json"), history).verdict == "slower"
    with pytest.raises(UserError) as caught:
        compare_with(bench(2), "nothing.json", history)
    wording(str(caught.value))


def test_against_a_file_even_where_the_history_is_broken(history, tmp_path):
    history.path.write_bytes(b"no database" * 100)
    export(bench(1, 100.0), str(tmp_path / "before.json"))
    assert compare_with(bench(2, 60.0), str(tmp_path / "before.json"), history).verdict == "slower"


def test_against_llama_bench_the_setup_that_is_most_alike(history):
    now = bench(
        2, model="smollm2-135m.gguf", settings={"runtime.threads": "2"}, samples={}, figures={DECODE: spread(90)}
    )
    found = compare_with(now, str(REAL / "threads.jsonl"), history)
    assert found.before.settings["runtime.threads"] == "2"
    assert found.changes[0].name == "measured with"


def test_one_that_broke_off_is_compared_by_its_answers(history):
    begun = bench(1, passes=(), figures={}, samples={})
    history.begin(begun)
    history.append(begun.id, [answered(n, case="short") for n in (1, 2, 3, 4)])
    slow = bench(2, 50.0, samples={DECODE: around(50)}, figures={DECODE: spread(50)})
    found = compare_with(slow, begun.id, history)
    assert found.verdict == "slower"
    with pytest.raises(UserError, match="no earlier"):
        compare_with(slow, "LAST", history)  # which is one that ended
    assert found.before.figures[DECODE].median == pytest.approx(100.0)
    assert figured(bench(3)) == bench(3)
    swept = bench(3, protocol="sweep", figures={}, samples={})
    assert figured(swept) == swept
    assert PREFILL not in found.before.figures  # prompts of 40 tokens time nothing


def test_a_word_that_no_file_can_have(history):
    with pytest.raises(UserError, match="no benchmark"):
        compare_with(bench(1), "a\x00b", history)


def test_a_hostile_history_is_told(history):
    history.keep(bench(1))
    with sqlite3.connect(history.path) as connection:
        connection.execute("UPDATE benches SET body = x'00'")
    connection.close()
    with pytest.raises(UserError, match="is damaged"):
        compare_with(msgspec.structs.replace(bench(2), label="now"), "LAST", history)
