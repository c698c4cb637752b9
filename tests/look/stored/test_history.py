"""The benchmark history: stored, found by id or label, and kept when the process is killed."""

import os
import sqlite3
import stat
import subprocess
import sys
import zlib
from pathlib import Path

import msgspec
import pytest
from bench_cases import answered, bench, failed

from unslow.facts.calibration import MachineMark
from unslow.facts.errors import UserError
from unslow.look.stored.history import MIGRATIONS, History, default_history, writing_database

TESTS = Path(__file__).parents[2]


@pytest.fixture
def history(tmp_path) -> History:
    return History(tmp_path / "data" / "benchmarks.sqlite3")


def ids(history: History) -> list[str]:
    return [entry.id for entry in history.all()]


def changed(history: History, *statements: str) -> None:
    with sqlite3.connect(history.path) as connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()


def test_reading_an_empty_history_creates_no_file(history):
    assert history.all() == []
    assert history.count() == 0
    assert history.latest() is None
    assert not history.path.parent.exists()


def test_a_benchmark_is_stored_with_owner_only_permissions(history):
    one = bench(1, failures=(failed(),), notes=("a note",))
    history.keep(one)
    assert history.find(one.id) == one
    assert stat.S_IMODE(history.path.stat().st_mode) == 0o600
    (entry,) = history.all()
    assert (entry.decode_tokens_per_s, entry.answered, entry.failed, entry.state) == (100.0, 2, 1, "whole")


def test_storing_a_benchmark_again_replaces_it(history):
    history.keep(bench(1, 100.0))
    history.keep(bench(1, 90.0))
    assert history.count() == 1
    assert history.find("LAST").figures["decode_tokens_per_s"].median == 90.0


def test_benchmarks_are_listed_newest_first(history):
    for one in (bench(2, model="Qwen3-8B"), bench(3, label="before"), bench(1, runtime="ollama")):
        history.keep(one)
    assert [i[:4] for i in ids(history)] == ["0003", "0002", "0001"]
    assert [entry.id[:4] for entry in history.all(limit=1)] == ["0003"]


@pytest.mark.parametrize(
    ("word", "number"),
    [("0002-abcdef", 2), ("0002", 2), ("LAST", 3), ("last~2", 1), ("LAST~0", 3), ("before the update", 1)],
)
def test_a_benchmark_is_found_by_id_prefix_last_or_label(history, word, number):
    for n in (1, 2, 3):
        history.keep(bench(n, label="before the update" if n == 1 else ""))
    assert history.find(word).id == f"{number:04d}-abcdef"


@pytest.mark.parametrize(
    ("word", "told"),
    [
        pytest.param("00", ("'00'", "0002-abcdef, 0001-abcdef"), id="several"),
        pytest.param("LAST~2", "only 2", id="too far back"),
        pytest.param("nothing", "'nothing'", id="none"),
        pytest.param("", "''", id="empty"),
        pytest.param("x" * 5000, "'xxx", id="long"),
        pytest.param("%", "'%'", id="a wildcard"),
    ],
)
def test_an_ambiguous_or_unknown_benchmark_is_a_user_error(history, word, told, wording):
    history.keep(bench(1))
    history.keep(bench(2))
    with pytest.raises(UserError) as error:
        history.find(word)
    wording(error.value.message, tells=told)


def test_last_finds_the_latest_benchmark_of_the_same_setup(history, wording):
    now, nothing = bench(9), bench(6, passes=(), figures={}, samples={})
    others = (bench(3, model="other"), bench(4, machine=MachineMark(cpu="Xeon")), bench(5, protocol="sweep"), nothing)
    for one in (bench(1), bench(2), *others, now):
        history.keep(one)
    assert history.find("LAST", like=now).id[:4] == "0002"
    assert history.latest(like=now).id[:4] == "0002"
    with pytest.raises(UserError) as caught:
        history.find("LAST~5", like=now)
    wording(str(caught.value), tells="llama-3.1-8b-q4_k_m.gguf")
    with pytest.raises(UserError) as caught:
        history.find("LAST", like=bench(10, model="new"))
    wording(str(caught.value))
    history.append(nothing.id, [answered()])
    assert history.find("LAST", like=now).id[:4] == "0006"


def test_same_setup_ignores_versions(history):
    now = bench(9, runtime_version="b9100")
    versions = {**now.settings, "runtime.version": "b1", "machine.gpus.0.driver": "1", "machine.system.kernel": "5"}
    for one in (now, bench(1), bench(2, settings=versions), bench(3, settings={**now.settings, "runtime.batch": "64"})):
        history.keep(one)
    assert [one.id[:4] for one in history.same_setup(now)] == ["0002", "0001"]


def test_benchmarks_are_forgotten_by_label_or_last(history):
    for n in (1, 2, 3, 4):
        history.keep(bench(n, label="trial" if n < 3 else ""))
    assert [entry.id[:4] for entry in history.forget("trial")] == ["0002", "0001"]
    assert [entry.id[:4] for entry in history.forget("LAST")] == ["0004"]
    assert [i[:4] for i in ids(history)] == ["0003"]
    with pytest.raises(UserError, match="no saved benchmark 'trial'"):
        history.forget("trial")


def test_an_interrupted_benchmark_is_marked(history):
    history.keep(bench(1, interrupted=True))
    assert history.all()[0].state == "interrupted"


def test_a_running_benchmark_is_appended_and_finished(history):
    one = bench(1, passes=(), figures={}, samples={})
    history.begin(one)
    history.append(one.id, [answered(1)])
    history.append(one.id, [answered(2)], [failed(3)])
    history.append(one.id, [])
    (entry,) = history.all()
    assert (entry.state, entry.answered, entry.failed) == ("running", 2, 1)
    whole = bench(1, failures=(failed(3),))
    history.finish(whole)
    assert history.find("LAST") == whole
    assert history.all()[0].state == "whole"


def test_beginning_again_replaces_appended_passes(history):
    history.begin(bench(1, passes=()))
    history.append("0001-abcdef", [answered(1)])
    history.begin(bench(1, passes=(answered(1), answered(2))))
    assert len(history.find("LAST").passes) == 2


KILLED = """
import os, signal
from pathlib import Path
from bench_cases import answered, bench, failed
from unslow.look.stored.history import History
history = History(Path(os.environ["HISTORY"]))
history.begin(bench(1, passes=(), figures={}, samples={}))
for number in range(20):
    history.append("0001-abcdef", [answered(number)], [failed(number)] if number % 10 == 9 else [])
os.kill(os.getpid(), signal.SIGKILL)
"""
HALF_DONE = """
import os, sqlite3
connection = sqlite3.connect(os.environ["HISTORY"], isolation_level=None)
connection.execute("PRAGMA cache_size = 1")
connection.execute("BEGIN IMMEDIATE")
connection.execute("UPDATE benches SET label = hex(zeroblob(20000)), model = 'half done'")
os._exit(0)
"""
WRITER = """
import os, sys
from pathlib import Path
from bench_cases import answered, bench
from unslow.look.stored.history import History
history, base = History(Path(os.environ["HISTORY"])), int(sys.argv[1])
for number in range(base, base + 12):
    one = bench(1, id=f"id-{number}")
    history.begin(one)
    history.append(one.id, [answered(1)])
    history.finish(one)
"""


def program(history: History, text: str, *arguments: str) -> subprocess.Popen:
    environment = {**os.environ, "HISTORY": str(history.path), "PYTHONPATH": str(TESTS)}
    return subprocess.Popen([sys.executable, "-c", text, *arguments], env=environment)


def test_a_killed_benchmark_keeps_its_passes(history):
    assert program(history, KILLED).wait(60) == -9
    (entry,) = history.all()
    assert (entry.state, entry.answered, entry.failed) == ("broke_off", 20, 2)
    left = history.find("LAST")
    assert left.interrupted
    assert [one.round for one in left.passes] == list(range(20))
    assert len(left.failures) == 2
    assert "interrupted" in left.notes[-1]


def test_a_half_written_transaction_is_rolled_back(history):
    for number in range(1, 10):
        history.keep(bench(number))
    assert program(history, HALF_DONE).wait(60) == 0
    assert history.path.with_name(f"{history.path.name}-journal").exists()
    assert {entry.model for entry in history.all()} == {"llama-3.1-8b-q4_k_m.gguf"}
    history.keep(bench(11))
    assert history.count() == 10


def test_a_read_only_history_is_read(history, monkeypatch):
    history.keep(bench(1))
    monkeypatch.setattr("unslow.look.stored.history.os.access", lambda *_: False)
    assert history.find("LAST") == bench(1)


def test_concurrent_writers_lose_nothing(history):
    writers = [program(history, WRITER, str(base)) for base in (100, 200, 300)]
    assert [writer.wait(120) for writer in writers] == [0, 0, 0]
    assert history.count() == 36
    assert {entry.state for entry in history.all()} == {"whole"}


def test_a_damaged_piece_leaves_the_others(history, wording):
    history.begin(bench(1, passes=()))
    for number in (1, 2, 3):
        history.append("0001-abcdef", [answered(number)])
    changed(history, "UPDATE pieces SET body = x'00' WHERE number = 2")
    left = history.find("LAST")
    assert [one.round for one in left.passes] == [1, 3]
    wording(left.notes, tells="1 of 3")


def test_a_running_benchmark_of_another_host_broke_off(history):
    history.begin(bench(1))
    changed(history, "UPDATE benches SET owner = '1@elsewhere'")
    assert history.all()[0].state == "broke_off"


def test_a_foreign_database_is_not_touched(history, wording):
    history.path.parent.mkdir()
    changed(history, "CREATE TABLE mine (a)")
    before = history.path.read_bytes()
    for work in (history.all, lambda: history.keep(bench(1))):
        with pytest.raises(UserError) as caught:
            work()
        wording(str(caught.value))
    assert history.path.read_bytes() == before


@pytest.mark.parametrize(
    "data", [b"not a database at all, but some text\n" * 40, b"SQLite format 3\x00" + b"\xff" * 4096]
)
def test_a_file_that_is_not_a_database_is_not_touched(history, data, wording):
    history.path.parent.mkdir()
    history.path.write_bytes(data)
    for work in (history.all, lambda: history.keep(bench(1))):
        with pytest.raises(UserError, match=r"it is not a database|it is damaged|unable to open") as error:
            work()
    wording(error.value.hint)
    assert history.path.read_bytes() == data


def test_a_damaged_database_is_a_user_error(history):
    for n in range(1, 20):
        history.keep(bench(n, notes=(os.urandom(4000).hex(),)))
    whole = history.path.read_bytes()
    history.path.write_bytes(whole[:8192] + b"\xff" * (len(whole) - 8192))
    with pytest.raises(UserError, match=r"damaged|malformed"):
        history.find("0001")
    assert history.path.stat().st_size == len(whole)


def test_a_newer_schema_version_is_refused(history, wording):
    history.keep(bench(1))
    changed(history, f"PRAGMA user_version = {len(MIGRATIONS) + 1}")
    for work in (history.all, lambda: history.keep(bench(2))):
        with pytest.raises(UserError) as caught:
            work()
        wording(str(caught.value))


def test_an_older_schema_version_is_migrated(history, monkeypatch):
    history.keep(bench(1))
    later = (*MIGRATIONS, "ALTER TABLE benches ADD COLUMN extra TEXT NOT NULL DEFAULT 'x'")
    monkeypatch.setattr("unslow.look.stored.history.MIGRATIONS", later)
    assert history.find("LAST") == bench(1)
    changed(history, "UPDATE benches SET extra = 'y'")
    history.keep(bench(2))
    assert history.count() == 2


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("x'00'", "is damaged"),
        ("'text'", "holds no bytes"),
        ("12", "holds no bytes"),
        (f"x'{zlib.compress(b'[]').hex()}'", "has the schema 'None'"),
        (f"x'{zlib.compress(b'[' * 100_000).hex()}'", "is not a benchmark"),
        (f"x'{zlib.compress(b' ' * (33 * 2**20)).hex()}'", "larger than 32 MiB"),
        (f"x'{zlib.compress(b'x' * 9000)[:-9].hex()}'", "ends too early"),
        ("zeroblob(20000000)", "is damaged"),
    ],
)
def test_a_hostile_row_is_a_user_error_and_leaves_the_others(history, body, words):
    history.keep(bench(1))
    history.keep(bench(2))
    changed(history, f"UPDATE benches SET body = {body} WHERE number = 1")
    with pytest.raises(UserError, match=words):
        history.find("0001")
    assert len(history.all()) == 2
    assert history.find("0002") == bench(2)


def test_hostile_columns_are_bounded(history):
    history.keep(bench(1))
    changed(
        history,
        "UPDATE benches SET model = hex(zeroblob(1000000)), decode = 'fast', seconds = x'ff', answered = 'all', "
        "failed = 9e999, owner = '99999999999999999999@x'",
    )
    (entry,) = history.all()
    assert len(entry.model) == 300
    assert (entry.decode_tokens_per_s, entry.seconds, entry.answered, entry.failed) == (None, 0.0, 0, 0)
    assert entry.state == "broke_off"


def test_an_endless_query_is_aborted(history, monkeypatch, tmp_path, wording):
    monkeypatch.setattr("unslow.look.stored.history._MOST_STEPS", 20)
    history.keep(bench(1))
    names = "number, id, taken_at, label, protocol, runtime, runtime_version, model, machine, setup, seconds, decode, "
    names += "prefill, answered, failed, interrupted, owner, body"
    endless = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT " + ", ".join(["x"] * 18)
    changed(history, "ALTER TABLE benches RENAME TO old", f"CREATE VIEW benches ({names}) AS {endless} FROM n")
    with pytest.raises(UserError) as refused:
        history.all()
    wording(refused.value.message, tells=str(history.path))


def test_an_unwritable_history_is_a_user_error(tmp_path, wording):
    (tmp_path / "data").write_text("a file")
    with pytest.raises(UserError) as error:
        History(tmp_path / "data" / "benchmarks.sqlite3").keep(bench(1))
    wording(error.value.message, error.value.hint, tells="UNSLOW_DATA_DIR")


def test_a_benchmark_above_32_mib_is_refused(history):
    with pytest.raises(UserError, match="larger than 32 MiB"):
        history.keep(bench(1, notes=("x" * (33 * 2**20),)))
    assert history.count() == 0


def test_the_history_is_in_the_users_data_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("UNSLOW_DATA_DIR", str(tmp_path))
    assert default_history().path == tmp_path / "benchmarks.sqlite3"


def test_a_locked_history_is_a_user_error(history, monkeypatch, wording):
    monkeypatch.setattr("unslow.look.stored.history.BUSY_S", 0.05)
    history.keep(bench(1))
    with sqlite3.connect(history.path, isolation_level=None) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(UserError) as caught:
            history.keep(bench(2))
        wording(str(caught.value))
        other.execute("ROLLBACK")
    other.close()
    history.keep(msgspec.structs.replace(bench(2), label="now"))
    assert history.count() == 2


def test_a_full_disk_is_the_reported_error(history):
    history.keep(bench(1))

    def write() -> None:
        with writing_database(history.path) as connection:
            connection.execute("ROLLBACK")  # as SQLite does by itself then
            raise sqlite3.OperationalError("database or disk is full")

    with pytest.raises(UserError, match="disk is full"):
        write()


def test_an_undecodable_search_word_is_a_user_error(history):
    history.keep(bench(1))
    with pytest.raises(UserError, match="not valid UTF-8"):
        history.find("\udcff")
