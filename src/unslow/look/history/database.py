"""The file of the history: opened for one piece of work at a time, and never made new over something else.

The journal of SQLite is the plain one, not the write-ahead log: that needs memory shared between processes, which a
home on a network lacks, and a folder that can be written even to read. Writes here are small and rare.
"""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from unslow.facts.bench import LARGEST_BENCH_BYTES
from unslow.facts.errors import UserError

APPLICATION = 0x756E736C
"""Marks the file as this program's own ("unsl")."""
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
_HINT = "set UNSLOW_DATA_DIR to another folder, or move that file away; it is left as it is"


@contextmanager
def reading(path: Path) -> Iterator[sqlite3.Connection | None]:
    """The file to read from, even where nothing can be written; None where there is none yet."""
    with _told(path, "read"):
        if not path.exists() or not path.stat().st_size:
            yield None
            return
        with closing(_opened(path, _reading_mode(path))) as connection:
            if _version(connection, path) < len(MIGRATIONS):
                _upgrade(path)
            yield connection


def _reading_mode(path: Path) -> str:
    """Where the file can be written, whoever reads it takes back what a killed process left half done."""
    return "rw" if os.access(path, os.W_OK) and os.access(path.parent, os.W_OK) else "ro"


@contextmanager
def writing(path: Path) -> Iterator[sqlite3.Connection]:
    """The file to change: all of the work is kept, or none of it."""
    with _told(path, "write"):
        _create(path)
        with closing(_opened(path, "rw")) as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                _migrate(connection, path)
                yield connection
            except BaseException:
                if connection.in_transaction:  # a full disk has ended it already, and must be what is told
                    connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")


@contextmanager
def _told(path: Path, what: str) -> Iterator[None]:
    """What goes wrong with the file, said to the user."""
    try:
        yield
    except sqlite3.Error as error:
        raise UserError(f"can't {what} the history {path}: {_reason(error)}", _HINT) from error
    except OSError as error:
        raise UserError(f"can't {what} the history {path}: {error.strerror or error}", _HINT) from error
    except UnicodeEncodeError as error:
        raise UserError(f"can't {what} the history {path}: a word is no text", "give it as UTF-8") from error


def _reason(error: sqlite3.Error) -> str:
    match getattr(error, "sqlite_errorname", ""):
        case "SQLITE_NOTADB":
            return "it is no database"
        case "SQLITE_CORRUPT":
            return "it is damaged"
        case "SQLITE_BUSY":
            return f"another program has held it for {BUSY_S:.0f} s"
        case "SQLITE_INTERRUPT":
            return "reading it does not come to an end"
        case _:
            return str(error)


def _create(path: Path) -> None:
    """An empty file that only its owner may read, where there is none; SQLite gives its companions the same rights."""
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    except FileExistsError:
        return


def _opened(path: Path, mode: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}",
        timeout=BUSY_S,
        isolation_level=None,
        uri=True,
        check_same_thread=False,
    )
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LARGEST_BENCH_BYTES)
    steps = iter(range(_MOST_STEPS))
    connection.set_progress_handler(lambda: next(steps, None) is None, _STEPS)
    connection.execute("PRAGMA trusted_schema = OFF")
    return connection


def _version(connection: sqlite3.Connection, path: Path) -> int:
    """The version of the file's tables; UserError where it is another program's, or of a newer version."""
    mark, version = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version"))
    if mark != APPLICATION:
        raise UserError(f"{path} is a database of something else, not the history of benchmarks", _HINT)
    if version > len(MIGRATIONS):
        raise UserError(
            f"{path} was written by a newer unslow (version {version} of the history)", "use a newer unslow"
        )
    return int(version)


def _migrate(connection: sqlite3.Connection, path: Path) -> None:
    """Bring the tables to this version; whoever holds the lock looks again, as another may have been faster."""
    empty = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0] == 0
    if empty:
        connection.execute(f"PRAGMA application_id = {APPLICATION}")
    for step in MIGRATIONS[_version(connection, path) :]:
        for statement in step.split(";"):
            connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")


def _upgrade(path: Path) -> None:
    with writing(path):
        pass
