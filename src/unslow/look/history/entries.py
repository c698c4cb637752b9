"""One line of the history: what can be told of a benchmark without reading all of it."""

import hashlib
import math
import os
import platform
import sys
from typing import Any, Literal, NamedTuple

from unslow.facts.bench import DECODE, PREFILL, Bench

State = Literal["whole", "interrupted", "running", "broke_off"]
"""Broke off: its program ended without a word; what had come by then is kept."""
_VERSIONS = ("version", "driver", "kernel", "build")
SELECTED = """
    id, taken_at, label, protocol, runtime, runtime_version, model, seconds, decode, prefill,
    answered + coalesce((SELECT sum(pieces.answered) FROM pieces WHERE pieces.bench = benches.id), 0),
    failed + coalesce((SELECT sum(pieces.failed) FROM pieces WHERE pieces.bench = benches.id), 0), interrupted, owner
"""
"""The columns behind an entry, with what was appended since."""
_LONGEST = 300


class Filters(NamedTuple):
    """Which benchmarks to list; a word is looked for in any place, in either case."""

    model: str = ""
    runtime: str = ""
    label: str = ""
    protocol: str = ""


class Entry(NamedTuple):
    """A benchmark in the list."""

    id: str
    taken_at: str
    label: str
    protocol: str
    runtime: str
    runtime_version: str
    model: str
    seconds: float
    decode_tokens_per_s: float | None
    prefill_tokens_per_s: float | None
    answered: int
    failed: int
    state: State


def columns_of(bench: Bench, owner: str) -> dict[str, Any]:
    """What the tables hold beside the benchmark itself; `owner` is empty once it is finished."""
    return {
        "id": bench.id,
        "taken_at": bench.taken_at,
        "label": bench.label,
        "protocol": bench.protocol,
        "runtime": bench.runtime,
        "runtime_version": bench.runtime_version,
        "model": bench.model,
        "machine": machine_key(bench),
        "setup": setup_key(bench),
        "seconds": bench.seconds,
        "decode": _median(bench, DECODE),
        "prefill": _median(bench, PREFILL),
        "answered": len(bench.passes),
        "failed": len(bench.failures),
        "interrupted": int(bench.interrupted),
        "owner": owner,
    }


def _median(bench: Bench, figure: str) -> float | None:
    known = bench.figures.get(figure)
    return known.median if known else None


def entry_of(row: tuple[Any, ...]) -> Entry:
    """A row of `SELECTED`, whatever a tampered file holds there."""
    taken: dict[str, Any] = dict(zip(Entry._fields, row, strict=False))
    interrupted, owner = row[-2:]
    taken |= {name: str(taken[name])[:_LONGEST] for name in Entry._fields[:7]}
    taken |= {name: _number(taken[name]) for name in ("decode_tokens_per_s", "prefill_tokens_per_s")}
    taken |= {name: int(_number(taken[name]) or 0) for name in ("answered", "failed")}
    taken |= {"seconds": _number(taken["seconds"]) or 0.0, "state": _state(bool(interrupted), str(owner))}
    return Entry(**taken)


def _number(cell: Any) -> float | None:
    return float(cell) if isinstance(cell, int | float) and math.isfinite(cell) else None


def _state(interrupted: bool, owner: str) -> State:  # noqa: FBT001 (a column)
    if owner:
        return "running" if _is_alive(owner) else "broke_off"
    return "interrupted" if interrupted else "whole"


def this_process() -> str:
    """Who is running a benchmark: the process, and the machine, since a home may be shared by several."""
    return f"{os.getpid()}@{platform.node()}"


def _is_alive(owner: str) -> bool:
    """Whether its process still runs, as far as can be told: on Windows asking would end it, so it counts as gone."""
    pid, _, node = owner.partition("@")
    if owner == this_process():
        return True
    if node != platform.node() or not pid.isdecimal() or len(pid) > 9 or sys.platform == "win32":  # noqa: PLR2004
        return False
    try:
        os.kill(int(pid), 0)
    except PermissionError:
        return True
    except OSError:
        return False
    return True


def machine_key(bench: Bench) -> str:
    """One for each machine; how much memory it has is left out, as a virtual one's may vary."""
    mark = bench.machine
    return _hashed([mark.cpu, mark.cores, sorted(mark.gpus)])


def setup_key(bench: Bench) -> str:
    """One for each machine, runtime, model and settings; not their versions, since that is what one compares across."""
    settings = sorted(pair for pair in bench.settings.items() if not pair[0].endswith(_VERSIONS))
    return _hashed([machine_key(bench), bench.runtime, bench.model, bench.model_bytes, settings])


def _hashed(value: object) -> str:
    return hashlib.sha256(repr(value).encode(errors="replace")).hexdigest()[:24]
