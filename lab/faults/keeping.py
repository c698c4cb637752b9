"""Keeps what the lab saw as machines of the test suite: every row that was diagnosed right, so that it stays so."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from lab.faults.every import every_fault
from lab.faults.fault import Fault
from lab.faults.recordings import expectation
from lab.faults.rows import Row

from unslow.commands.diagnose.target import SNAPSHOT, read_stored
from unslow.facts.snapshot import dump_snapshot

EXPECTED, RECORDING, LOG = "expected.toml", "recording.jsonl", "server.log"
MOST_BYTES = 260_000
"""A recording that is larger is kept as the facts that were read from it."""


def keep(rows: list[Row], out: Path, machines: Path) -> Iterator[Path]:
    """Copy the machine of each row; yields the folders."""
    faults = {(where, fault.name): fault for fault in every_fault() for where in fault.where}
    for row in rows:
        source, target = out / f"{row.where}_{row.name}", machines / f"lab_{row.where}_{row.name}"
        if row.skipped or not row.right or row.strays or not source.is_dir():
            continue
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir(parents=True)
        (target / EXPECTED).write_text(expectation(as_found(faults[row.where, row.name], row)), encoding="utf-8")
        _copy(source, target)
        yield target


def as_found(fault: Fault, row: Row) -> Fault:
    """The fault; of several that cost about as much, with that one as its cause which stood first in this recording."""
    if not fault.either:
        return fault
    causes = (fault.cause, *fault.also)
    return replace(fault, cause=row.diagnosed[0], also=tuple(c for c in causes if c != row.diagnosed[0]))


def _copy(source: Path, target: Path) -> None:
    recording = source / RECORDING
    if not recording.is_file():
        shutil.copy(source / LOG, target)  # of a load that failed there is nothing else
    elif recording.stat().st_size <= MOST_BYTES:
        shutil.copy(recording, target)
    else:
        (target / SNAPSHOT).write_bytes(dump_snapshot(read_stored(str(source))))
