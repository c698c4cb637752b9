"""Every benchmark that was run here, kept in one file of the user's data folder."""

import hashlib
import math
import os
import platform
import re
import sqlite3
import sys
import zlib
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from unslow.facts.bench import DECODE, LARGEST_BENCH_BYTES, PREFILL, Bench, Entry, Failure, Pass, parse_bench
from unslow.facts.errors import UserError
from unslow.facts.stored_json import dump_stored
from unslow.look.stored import own_folder

_VERSIONS = ("version", "driver", "kernel", "build")
SELECTED = """
    id, taken_at, label, protocol, runtime, runtime_version, model, seconds, decode, prefill,
    answered + coalesce((SELECT sum(pieces.answered) FROM pieces WHERE pieces.bench = benches.id), 0),
    failed + coalesce((SELECT sum(pieces.failed) FROM pieces WHERE pieces.bench = benches.id), 0), interrupted, owner
"""
"""The columns behind an entry, with what was appended since."""
_LONGEST = 300

_HINT = "`unslow bench --list` shows the others"

APPLICATION = 0x756E736C  # Marks the file as this program's own ("unsl")
MIGRATIONS = (
    """
    CREATE TABLE benches (
        number INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, taken_at TEXT NOT NULL,
        label TEXT NOT NULL, protocol TEXT NOT NULL, runtime TEXT NOT NULL, runtime_version TEXT NOT NULL,
        model TEXT NOT NULL, machine TEXT NOT NULL, setup TEXT NOT NULL, seconds REAL NOT NULL,
        decode REAL, prefill REAL, answered INTEGER NOT NULL, failed INTEGER NOT NULL,
        interrupted INTEGER NOT NULL, owner TEXT NOT NULL, body BLOB NOT NULL
    );
    CREATE INDEX benches_by_time ON benches (taken_at DESC, number DESC);
    CREATE INDEX benches_by_setup ON benches (setup, taken_at DESC);
    CREATE TABLE pieces (
        number INTEGER PRIMARY KEY AUTOINCREMENT, bench TEXT NOT NULL, answered INTEGER NOT NULL,
        failed INTEGER NOT NULL, body BLOB NOT NULL
    );
    CREATE INDEX pieces_by_bench ON pieces (bench, number);
    """,
)
"""What takes a file from each version to the next one; the first makes it."""
BUSY_S = 20.0
_STEPS, _MOST_STEPS = 1_000_000, 300
"""A query of this program needs thousands of steps; one that a tampered file makes endless is broken off."""
_DATABASE_HINT = "set UNSLOW_DATA_DIR to another folder, or move that file away; it is not changed"

_REASONS = {
    "SQLITE_NOTADB": "it is not a database",
    "SQLITE_CORRUPT": "it is damaged",
    "SQLITE_BUSY": f"another program has held it for {BUSY_S:.0f} s",
    "SQLITE_INTERRUPT": "reading it does not end",
}

FILE_NAME = "benchmarks.sqlite3"
MOST = 10_000  # More are never read at once
MOST_PIECES = 100_000
_LAST = re.compile(r"(?i)last(?:~([0-9]{1,6}))?")
_NEWEST = "ORDER BY taken_at DESC, number DESC"
_STORE_HINT = "`unslow bench --list` lists the saved ones"
_SHORTEST_PREFIX = 2
_MEASURED = "(answered > 0 OR decode > 0 OR prefill > 0 OR EXISTS (SELECT 1 FROM pieces WHERE bench = benches.id))"


class Piece(msgspec.Struct, frozen=True, omit_defaults=True):
    """What came since the last time something was written down."""

    passes: tuple[Pass, ...] = ()
    failures: tuple[Failure, ...] = ()


class _Where(NamedTuple):
    text: str = "1"
    values: tuple[object, ...] = ()


@dataclass(frozen=True)
class History:
    """The benchmarks in one file; it is made with the first one.

    A benchmark that runs is begun, gets its answers appended as they come, and is finished; whoever ends in between
    leaves all but the last answers.
    """

    path: Path

    def keep(self, bench: Bench) -> None:
        """Keep it whole, in the place of what was known of it."""
        self._put(bench, "")

    finish = keep

    def begin(self, bench: Bench) -> None:
        """Note that it runs; until it is finished it counts as broken off once this process is gone."""
        self._put(bench, this_process())

    def append(self, bench_id: str, passes: Sequence[Pass], failures: Sequence[Failure] = ()) -> None:
        """Add what came since; only the new ones."""
        if not passes and not failures:
            return
        body = zlib.compress(msgspec.json.encode(Piece(tuple(passes), tuple(failures))))
        row = (bench_id, len(passes), len(failures), body)
        with writing_database(self.path) as connection:
            connection.execute("INSERT INTO pieces (bench, answered, failed, body) VALUES (?, ?, ?, ?)", row)

    def _put(self, bench: Bench, owner: str) -> None:
        data = dump_stored(bench)
        if len(data) > LARGEST_BENCH_BYTES:  # it could not be read again
            limit = f"{LARGEST_BENCH_BYTES >> 20} MiB"
            raise UserError(f"this benchmark is larger than {limit}", "write it to a file instead")
        decode, prefill = bench.figures.get(DECODE), bench.figures.get(PREFILL)
        same = ("id", "taken_at", "label", "protocol", "runtime", "runtime_version", "model", "seconds")
        known = {
            **{name: getattr(bench, name) for name in same},
            "machine": machine_key(bench),
            "setup": setup_key(bench),
            "decode": decode.median if decode else None,
            "prefill": prefill.median if prefill else None,
            "answered": len(bench.passes),
            "failed": len(bench.failures),
            "interrupted": int(bench.interrupted),
            "owner": owner,  # Empty once it is finished
            "body": zlib.compress(data),
        }
        names, marks = ", ".join(known), ", ".join("?" * len(known))
        fresh = ", ".join(f"{name} = excluded.{name}" for name in known)
        query = f"INSERT INTO benches ({names}) VALUES ({marks}) ON CONFLICT (id) DO UPDATE SET {fresh}"  # noqa: S608
        with writing_database(self.path) as connection:
            connection.execute(query, tuple(known.values()))
            connection.execute("DELETE FROM pieces WHERE bench = ?", (bench.id,))

    def all(self, limit: int = 50) -> list[Entry]:
        """The newest ones, newest first."""
        return self._entries(_Where(), limit)

    def entry(self, bench_id: str) -> Entry | None:
        """The line of one benchmark, by its whole id."""
        return next(iter(self._entries(_Where("id = ?", (bench_id,)), 1)), None)

    def count(self) -> int:
        with reading_database(self.path) as connection:
            return int(connection.execute("SELECT count(*) FROM benches").fetchone()[0]) if connection else 0

    def find(self, word: str, like: Bench | None = None) -> Bench:
        """The one that is meant: an id or its beginning, a label, LAST, LAST~2; UserError where none or several are.

        With `like`, LAST counts only those of its machine, runtime, model and protocol, and never that one itself.
        """
        return self._read(self._find_entry(word.strip(), like).id)

    def latest(self, like: Bench | None = None) -> Bench | None:
        """The newest one; with `like`, of its machine, runtime, model and protocol, and not that one itself."""
        found = self._entries(_alike(like), 1)
        return self._read(found[0].id) if found else None

    def same_setup(self, bench: Bench, limit: int = 20) -> list[Bench]:
        """Others of the same machine, runtime, model and settings, in whatever version, newest first."""
        where = _Where("setup = ? AND id != ?", (setup_key(bench), bench.id))
        return [self._read(entry.id) for entry in self._entries(where, limit)]

    def forget(self, word: str) -> list[Entry]:
        """Remove the one that is meant, or those with that label; what was removed."""
        gone = self._entries(_Where("label = ? AND label != ''", (word,)), MOST) or [self._find_entry(word.strip())]
        with writing_database(self.path) as connection:
            for entry in gone:
                connection.execute("DELETE FROM benches WHERE id = ?", (entry.id,))
                connection.execute("DELETE FROM pieces WHERE bench = ?", (entry.id,))
        return gone

    def _find_entry(self, word: str, like: Bench | None = None) -> Entry:
        if last := _LAST.fullmatch(word):
            back = int(last[1] or 0)
            found = self._entries(_alike(like), back + 1)
            if len(found) > back:
                return found[back]
            which = f"{like.protocol} benchmark" if like else "benchmark"
            of = f" of {like.model} with {like.runtime} on this machine" if like else ""
            several = len(found) > 1
            only = f"only {len(found)} {which}{'s' if several else ''}{of} {'are' if several else 'is'} kept"
            raise UserError(only if found else f"no earlier {which}{of} was saved", _STORE_HINT)
        for condition in ("id = ?", "label = ? AND label != ''"):
            if found := self._entries(_Where(condition, (word,)), 1):
                return found[0]
        begins = self._entries(_Where("substr(id, 1, ?) = ?", (len(word), word)), 5) if word else []
        if len(begins) == 1 and len(word) >= _SHORTEST_PREFIX:
            return begins[0]
        if begins:
            named = ", ".join(entry.id for entry in begins[:4])
            raise UserError(f"several benchmarks begin with {word[:80]!r}: {named}", "give more of the id")
        raise UserError(f"no saved benchmark {word[:80]!r}", _STORE_HINT)

    def _entries(self, where: _Where, limit: int) -> list[Entry]:
        query = f"SELECT {SELECTED} FROM benches WHERE {where.text} {_NEWEST} LIMIT ?"  # noqa: S608 (fixed texts)
        with reading_database(self.path) as connection:
            rows = connection.execute(query, (*where.values, min(limit, MOST))).fetchall() if connection else []
        return [entry_of(row) for row in rows]

    def _read(self, bench_id: str) -> Bench:
        where = f"the benchmark {bench_id}"
        query = "SELECT body, owner FROM benches WHERE id = ?"
        with reading_database(self.path) as connection:
            row = connection.execute(query, (bench_id,)).fetchone() if connection else None
            if connection is None or row is None:
                raise UserError(f"{where} is gone", _STORE_HINT)
            bench = parse_bench(_inflate(row[0], where), where)
            if not row[1]:
                return bench
            query = "SELECT body FROM pieces WHERE bench = ? ORDER BY number LIMIT ?"
            bodies, good = connection.execute(query, (bench.id, MOST_PIECES)).fetchall(), []
        for (body,) in bodies:  # where one cannot be read, the others still can
            with suppress(UserError, msgspec.MsgspecError, RecursionError, UnicodeDecodeError):
                good.append(msgspec.json.decode(_inflate(body, "a piece"), type=Piece))
        lost = len(bodies) - len(good)
        notes = ["it was interrupted; the answers received by then were kept"]
        notes += [f"{lost} of {len(bodies)} pieces can't be read"] if lost else []
        return msgspec.structs.replace(
            bench,
            passes=(*bench.passes, *(one for piece in good for one in piece.passes)),
            failures=(*bench.failures, *(one for piece in good for one in piece.failures)),
            interrupted=True,
            notes=(*bench.notes, *notes),
        )


def default_history() -> History:
    """The user's own."""
    return History(own_folder("DATA") / FILE_NAME)


def _alike(like: Bench | None) -> _Where:
    """Others of its machine, runtime, model and protocol that measured anything."""
    if like is None:
        return _Where()
    same = "machine = ? AND runtime = ? AND model = ? AND protocol = ? AND id != ?"
    values = (machine_key(like), like.runtime, like.model, like.protocol, like.id)
    return _Where(f"{same} AND {_MEASURED} AND owner = ''", values)  # none that broke off


def machine_key(bench: Bench) -> str:
    """One for each machine; how much memory it has is left out, as a virtual one's may vary."""
    mark = bench.machine
    return _hash_of([mark.cpu, mark.cores, sorted(mark.gpus)])


def setup_key(bench: Bench) -> str:
    """One for each machine, runtime, model and settings; not their versions, since that is what one compares across."""
    settings = sorted(pair for pair in bench.settings.items() if not pair[0].endswith(_VERSIONS))
    return _hash_of([machine_key(bench), bench.runtime, bench.model, bench.model_bytes, settings])


def _hash_of(value: object) -> str:
    return hashlib.sha256(repr(value).encode(errors="replace")).hexdigest()[:24]


def entry_of(row: tuple[Any, ...]) -> Entry:
    """A row of `SELECTED`, whatever a tampered file holds there."""
    taken: dict[str, Any] = dict(zip(Entry._fields, row, strict=False))
    interrupted, owner = row[-2:]
    taken |= {name: str(taken[name])[:_LONGEST] for name in Entry._fields[:7]}
    taken |= {name: _number(taken[name]) for name in ("decode_tokens_per_s", "prefill_tokens_per_s")}
    taken |= {name: int(_number(taken[name]) or 0) for name in ("answered", "failed")}
    taken["seconds"] = _number(taken["seconds"]) or 0.0
    taken["state"] = "interrupted" if interrupted else "whole"
    if owner:
        taken["state"] = "running" if _is_alive(str(owner)) else "broke_off"
    return Entry(**taken)


def _number(cell: Any) -> float | None:
    return float(cell) if isinstance(cell, int | float) and math.isfinite(cell) else None


def _is_alive(owner: str) -> bool:
    """Whether its process still runs, as far as can be told: on Windows asking would end it, so it counts as gone."""
    pid, _, node = owner.partition("@")
    if owner == this_process():
        return True
    if node != platform.node() or not pid.isdecimal() or len(pid) > 9 or sys.platform == "win32":  # noqa: PLR2004
        return False
    try:
        os.kill(int(pid), 0)
    except OSError as error:
        return isinstance(error, PermissionError)
    return True


def this_process() -> str:
    """Who is running a benchmark: the process, and the machine, since a home may be shared by several."""
    return f"{os.getpid()}@{platform.node()}"


def _inflate(body: object, where: str) -> bytes:
    if not isinstance(body, bytes):
        raise UserError(f"{where} is damaged: it holds no bytes", _HINT)
    inflater = zlib.decompressobj()
    try:
        data = inflater.decompress(body, LARGEST_BENCH_BYTES + 1)
    except zlib.error as error:
        raise UserError(f"{where} is damaged: {error}", _HINT) from error
    if len(data) <= LARGEST_BENCH_BYTES and not inflater.eof:
        raise UserError(f"{where} is damaged: it ends too early", _HINT)
    return data


@contextmanager
def reading_database(path: Path) -> Iterator[sqlite3.Connection | None]:
    """The file to read from, even where nothing can be written; None where there is none yet."""
    with _user_errors(path, "read"):
        if not path.exists() or not path.stat().st_size:
            yield None
            return
        # Where the file can be written, whoever reads it takes back what a killed process left half done
        mode = "rw" if os.access(path, os.W_OK) and os.access(path.parent, os.W_OK) else "ro"
        with closing(_open_database(path, mode)) as connection:
            if _version(connection, path) < len(MIGRATIONS):
                with writing_database(path):
                    pass
            yield connection


@contextmanager
def writing_database(path: Path) -> Iterator[sqlite3.Connection]:
    """The file to change: all of the work is kept, or none of it.

    The journal of SQLite is the plain one, not the write-ahead log: that needs memory shared between processes, which a
    home on a network lacks, and a folder that can be written even to read. Writes here are small and rare.
    """
    with _user_errors(path, "write"):
        path.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):  # only its owner may read it; SQLite gives its companions the same rights
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        with closing(_open_database(path, "rw")) as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                # Bring the tables to this version; whoever holds the lock looks again, as another may have been faster
                empty = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0
                if empty:
                    connection.execute(f"PRAGMA application_id = {APPLICATION}")
                for step in MIGRATIONS[_version(connection, path) :]:
                    for statement in step.split(";"):
                        connection.execute(statement)
                connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
                yield connection
            except BaseException:
                if connection.in_transaction:  # a full disk has ended it already, and must be what is told
                    connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")


@contextmanager
def _user_errors(path: Path, what: str) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        reason = (isinstance(error, OSError) and error.strerror) or str(error)
        reason = _REASONS.get(getattr(error, "sqlite_errorname", ""), reason)
        raise UserError(f"can't {what} the history {path}: {reason}", _DATABASE_HINT) from error
    except UnicodeEncodeError as error:
        raise UserError(
            f"can't {what} the history {path}: a value is not valid UTF-8 text", "give it as UTF-8"
        ) from error


def _open_database(path: Path, mode: str) -> sqlite3.Connection:
    address = f"{path.absolute().as_uri()}?mode={mode}"
    connection = sqlite3.connect(address, timeout=BUSY_S, isolation_level=None, uri=True, check_same_thread=False)
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LARGEST_BENCH_BYTES)
    steps = iter(range(_MOST_STEPS))
    connection.set_progress_handler(lambda: next(steps, None) is None, _STEPS)
    connection.execute("PRAGMA trusted_schema = OFF")
    return connection


def _version(connection: sqlite3.Connection, path: Path) -> int:
    """The version of the file's tables; UserError where it is another program's, or of a newer version."""
    mark, version = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version"))
    if mark != APPLICATION:
        raise UserError(f"{path} is another program's database, not the history of benchmarks", _DATABASE_HINT)
    if version > len(MIGRATIONS):
        newer = f"a newer unslow (version {version} of the history)"
        raise UserError(f"{path} was written by {newer}", "use a newer unslow")
    return int(version)
