"""One request of a benchmark, in the words of whatever runtime answers, and with the same meaning on all of them."""

import re

from unslow.facts.bench import FailureKind
from unslow.facts.values import Absence
from unslow.look.bench.dialects import dialect_of
from unslow.look.bench.guest import AskError, Question, Reply, Target
from unslow.look.bench.heard import Heard
from unslow.look.system import LookError, System
from unslow.look.system.door import ExchangeError, read_text

_ENDED = re.compile(r"\) [ZXx] ")
"""The state of a process of which only its number is left, as /proc/PID/stat has it after the name."""


def ask(system: System, target: Target, question: Question) -> Reply:
    """Ask, and wait for the whole answer; AskError, and nothing else, where it does not come."""
    heard = Heard()
    try:
        return dialect_of(target.runtime)(system, target, question, heard)
    except LookError as error:
        pieces = len(heard.arrivals)
        kind = _kind(error, pieces)
        if kind in ("refused", "broke_off") and is_gone(system, target.pid):
            kind = "gone"
        raise AskError(kind, error.why, pieces, error.how_to_get, arrivals_s=heard.arrivals) from error


def _kind(error: LookError, pieces: int) -> FailureKind:
    """What happened, as a benchmark counts it; silence before the first piece is another thing than after it."""
    if not isinstance(error, ExchangeError):
        return "error"
    if error.kind == "silent":
        return "stalled" if pieces else "not_answered"
    return error.kind


def is_gone(system: System, pid: int | None) -> bool:
    """Whether the process has ended; False where that can't be told, as without /proc."""
    if pid is None:
        return False
    try:
        return bool(_ENDED.search(read_text(system, f"/proc/{pid}/stat")))
    except LookError as error:
        return error.absence is Absence.NOT_FOUND and _has_proc(system)


def _has_proc(system: System) -> bool:
    try:
        return bool(system.read_bytes("/proc/self/stat"))
    except LookError:
        return False
