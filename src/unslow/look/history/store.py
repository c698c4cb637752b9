"""The history of benchmarks: whole ones, those that were interrupted, and what is left of one that was killed.

A benchmark that runs is begun, gets its answers appended as they come, and is finished; whoever ends in between leaves
all but the last answers.
"""

import re
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import msgspec

from unslow.facts.bench import Bench, Failure, Pass
from unslow.facts.errors import UserError
from unslow.look.calibration.store import data_folder
from unslow.look.history.bodies import packed_bench, packed_piece, unpacked_bench, unpacked_piece
from unslow.look.history.database import reading, writing
from unslow.look.history.entries import (
    SELECTED,
    Entry,
    Filters,
    columns_of,
    entry_of,
    machine_key,
    setup_key,
    this_process,
)

FILE_NAME = "benchmarks.sqlite3"
MOST = 10_000
"""More are never read at once."""
MOST_PIECES = 100_000
_LAST = re.compile(r"(?i)last(?:~([0-9]{1,6}))?")
_NEWEST = "ORDER BY taken_at DESC, number DESC"
_HINT = "`unslow bench --list` shows what is kept"
_SHORTEST_PREFIX = 2
_MEASURED = "(answered > 0 OR decode > 0 OR prefill > 0 OR EXISTS (SELECT 1 FROM pieces WHERE bench = benches.id))"


class _Where(NamedTuple):
    """A condition of a query and its values."""

    text: str = "1"
    values: tuple[object, ...] = ()

    def and_(self, text: str, *values: object) -> "_Where":
        return _Where(f"{self.text} AND {text}", (*self.values, *values))


@dataclass(frozen=True)
class History:
    """The benchmarks in one file; it is made with the first one."""

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
        row = (bench_id, len(passes), len(failures), packed_piece(passes, failures))
        with writing(self.path) as connection:
            connection.execute("INSERT INTO pieces (bench, answered, failed, body) VALUES (?, ?, ?, ?)", row)

    def _put(self, bench: Bench, owner: str) -> None:
        known = {**columns_of(bench, owner), "body": packed_bench(bench)}
        names, marks = ", ".join(known), ", ".join("?" * len(known))
        fresh = ", ".join(f"{name} = excluded.{name}" for name in known)
        query = f"INSERT INTO benches ({names}) VALUES ({marks}) ON CONFLICT (id) DO UPDATE SET {fresh}"  # noqa: S608
        with writing(self.path) as connection:
            connection.execute(query, tuple(known.values()))
            connection.execute("DELETE FROM pieces WHERE bench = ?", (bench.id,))

    def all(self, limit: int = 50, filters: Filters | None = None) -> list[Entry]:
        """The newest ones that pass, newest first."""
        return self._entries(_passing(filters or Filters()), limit)

    def entry(self, bench_id: str) -> Entry | None:
        """The line of one benchmark, by its whole id."""
        found = self._entries(_Where("id = ?", (bench_id,)), 1)
        return found[0] if found else None

    def count(self) -> int:
        """How many are kept."""
        with reading(self.path) as connection:
            return int(connection.execute("SELECT count(*) FROM benches").fetchone()[0]) if connection else 0

    def find(self, word: str, like: Bench | None = None) -> Bench:
        """The one that is meant: an id or its beginning, a label, LAST, LAST~2; UserError where none or several are.

        With `like`, LAST counts only those of its machine, runtime, model and protocol, and never that one itself.
        """
        last = _LAST.fullmatch(word.strip())
        return self._last(int(last[1] or 0), like) if last else self._read(self._meant(word.strip()).id)

    def latest(self, like: Bench | None = None) -> Bench | None:
        """The newest one; with `like`, of its machine, runtime, model and protocol, and not that one itself."""
        found = self._entries(_alike(like), 1)
        return self._read(found[0].id) if found else None

    def same_setup(self, bench: Bench, limit: int = 20) -> list[Bench]:
        """Others of the same machine, runtime, model and settings, in whatever version, newest first."""
        where = _Where().and_("setup = ?", setup_key(bench)).and_("id != ?", bench.id)
        return [self._read(entry.id) for entry in self._entries(where, limit)]

    def forget(self, word: str) -> list[Entry]:
        """Remove the one that is meant, or those with that label; what was removed."""
        gone = self._entries(_Where("label = ? AND label != ''", (word,)), MOST)
        if not gone:
            gone = [self._meant_or_last(word)]
        with writing(self.path) as connection:
            for entry in gone:
                connection.execute("DELETE FROM benches WHERE id = ?", (entry.id,))
                connection.execute("DELETE FROM pieces WHERE bench = ?", (entry.id,))
        return gone

    def _meant_or_last(self, word: str) -> Entry:
        last = _LAST.fullmatch(word.strip())
        return self._entry_of_last(int(last[1] or 0), None) if last else self._meant(word.strip())

    def _meant(self, word: str) -> Entry:
        for condition in ("id = ?", "label = ? AND label != ''"):
            if found := self._entries(_Where(condition, (word,)), 1):
                return found[0]
        begins = self._entries(_Where("substr(id, 1, ?) = ?", (len(word), word)), 5) if word else []
        if len(begins) == 1 and len(word) >= _SHORTEST_PREFIX:
            return begins[0]
        if begins:
            several = ", ".join(entry.id for entry in begins[:4])
            raise UserError(f"several benchmarks begin with {word[:80]!r}: {several}", "give more of the id")
        raise UserError(f"no benchmark {word[:80]!r} is kept", _HINT)

    def _last(self, back: int, like: Bench | None) -> Bench:
        return self._read(self._entry_of_last(back, like).id)

    def _entry_of_last(self, back: int, like: Bench | None) -> Entry:
        found = self._entries(_alike(like), back + 1)
        if len(found) > back:
            return found[back]
        which = f"{like.protocol} benchmark" if like else "benchmark"
        of = f" of {like.model} with {like.runtime} on this machine" if like else ""
        only = f"only {len(found)} {which}{'s' if len(found) > 1 else ''}{of} {'are' if len(found) > 1 else 'is'} kept"
        raise UserError(only if found else f"no earlier {which}{of} is kept", _HINT)

    def _entries(self, where: _Where, limit: int) -> list[Entry]:
        query = f"SELECT {SELECTED} FROM benches WHERE {where.text} {_NEWEST} LIMIT ?"  # noqa: S608 (fixed texts)
        with reading(self.path) as connection:
            rows = connection.execute(query, (*where.values, min(limit, MOST))).fetchall() if connection else []
        return [entry_of(row) for row in rows]

    def _read(self, bench_id: str) -> Bench:
        where = f"the benchmark {bench_id}"
        with reading(self.path) as connection:
            if connection is None:
                raise UserError(f"{where} is gone", _HINT)
            row = connection.execute("SELECT body, owner FROM benches WHERE id = ?", (bench_id,)).fetchone()
            if row is None:
                raise UserError(f"{where} is gone", _HINT)
            bench = unpacked_bench(row[0], where)
            return _recovered(bench, connection) if row[1] else bench


def _recovered(bench: Bench, connection: sqlite3.Connection) -> Bench:
    """One that was never finished, with all that was appended."""
    query = "SELECT body FROM pieces WHERE bench = ? ORDER BY number LIMIT ?"
    pieces = [unpacked_piece(body) for (body,) in connection.execute(query, (bench.id, MOST_PIECES))]
    good = [piece for piece in pieces if piece]
    lost = len(pieces) - len(good)
    notes = ["it broke off; what had been answered by then was kept"]
    notes += [f"{lost} of {len(pieces)} pieces of it can't be read"] if lost else []
    return msgspec.structs.replace(
        bench,
        passes=(*bench.passes, *(one for piece in good for one in piece.passes)),
        failures=(*bench.failures, *(one for piece in good for one in piece.failures)),
        interrupted=True,
        notes=(*bench.notes, *notes),
    )


def _alike(like: Bench | None) -> _Where:
    """Others of its machine, runtime, model and protocol that measured anything."""
    if like is None:
        return _Where()
    same = _Where("machine = ? AND runtime = ? AND model = ?", (machine_key(like), like.runtime, like.model))
    whole = same.and_("protocol = ?", like.protocol).and_(_MEASURED).and_("owner = ''")  # none that broke off
    return whole.and_("id != ?", like.id)


def _passing(filters: Filters) -> _Where:
    where = _Where()
    for column in ("model", "runtime", "label"):
        if word := getattr(filters, column):
            where = where.and_(f"instr(lower({column}), lower(?)) > 0", word)
    return where.and_("protocol = ?", filters.protocol) if filters.protocol else where


def default_history() -> History:
    """The user's own."""
    return History(data_folder() / FILE_NAME)
