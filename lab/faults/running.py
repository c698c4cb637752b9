"""One fault from end to end: played and diagnosed, cured and measured again."""

import os
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import NamedTuple

from lab.faults.asked import USUAL, Asked, asked_in
from lab.faults.diagnosing import diagnosed
from lab.faults.fault import Fault, Metric, Playing, SkippedError, Stage
from lab.faults.measuring import measured
from lab.faults.playing import Place, played
from lab.faults.recordings import finish
from lab.faults.rows import Row, row_of

QUIET_CPUS = 0.25
"""Strangers that keep less than that busy are no disturbance."""
_LOOK_S = 1.0
Say = Callable[[str], None]


class Limits(NamedTuple):
    """How long the lab takes for a fault, and how sure it wants to be."""

    diagnosis_s: float
    quiet_s: float
    """How long it waits for strangers to leave the CPUs."""
    rounds: int
    """How often fault and cure are measured; 0: they are only diagnosed."""


class Runtime(NamedTuple):
    """How the stages of one runtime are played and measured; llama-server's way is the usual one."""

    played: Callable[[Fault, Stage, Place], AbstractContextManager[Playing]] = played
    measured: Callable[[Metric, Playing, Asked], float | None] = measured
    ahead: Callable[[Sequence[Fault], Place], AbstractContextManager[object]] = lambda _faults, _place: nullcontext()
    """What is started for several faults at once, before the first of them is played."""


LLAMA_SERVER = Runtime()


def run_fault(
    fault: Fault, where: str, place: Place, out: Path, limits: Limits, say: Say, runtime: Runtime = LLAMA_SERVER
) -> Row:
    """The row of a fault; its recording goes to a folder of its own under `out`."""
    others = quiet(limits.quiet_s)
    try:
        row = _diagnosed(fault, where, place, out, limits, runtime)
        say(f"  diagnosed {', '.join(row.diagnosed) or row.verdict or row.trouble} in {row.diagnosis_s} s")
        if fault.cure is not None and limits.rounds:
            _cured(row, fault, fault.cure, place, limits.rounds, runtime)
    except SkippedError as why:
        return Row(name=fault.name, where=where, what=fault.what, cause=fault.cause, skipped=str(why))
    row.others_cpus = round(others, 2)
    return row


def _diagnosed(fault: Fault, where: str, place: Place, out: Path, limits: Limits, runtime: Runtime) -> Row:
    folder = out / f"{where}_{fault.name}"
    with runtime.played(fault, fault.stage, place) as playing:
        diagnosis = diagnosed(playing, folder, fault.flags, limits.diagnosis_s)
        row = row_of(fault, where, diagnosis)
        row.asked = asked_in(folder, row.diagnosed) if fault.metric == "first_token" else None
        row.measured_before = _measure(fault, playing, row, runtime) if limits.rounds else None
        private = (place.scratch, place.servers.resolve().parent, place.servers)
        row.trouble = "; ".join(filter(None, [row.trouble, *finish(folder, fault, playing, private)]))
    return row


def _measure(fault: Fault, playing: Playing, row: Row, runtime: Runtime) -> float | None:
    """The metric; what is in its way is noted in the row."""
    try:
        return runtime.measured(fault.metric, playing, Asked(*row.asked) if row.asked else USUAL)
    except OSError as error:
        row.trouble = f"could not be measured: {error}"
        return None


def _cured(row: Row, fault: Fault, cure: Stage, place: Place, rounds: int, runtime: Runtime) -> None:
    """Measure with the cure, and in further rounds fault and cure in turns: a machine has better and worse minutes."""
    before, after = [row.measured_before], [_played_speed(fault, cure, place, row, runtime)]
    for _ in range(rounds - 1):
        before.append(_played_speed(fault, fault.stage, place, row, runtime))
        after.append(_played_speed(fault, cure, place, row, runtime))
    row.measured_before, row.measured_after = _middle(before), _middle(after)
    if row.predicted_after and row.measured_after:
        row.error = row.predicted_after / row.measured_after - 1


def _played_speed(fault: Fault, stage: Stage, place: Place, row: Row, runtime: Runtime) -> float | None:
    with runtime.played(fault, stage, place) as playing:
        return _measure(fault, playing, row, runtime)


def _middle(values: list[float | None]) -> float | None:
    had = [value for value in values if value is not None]
    return statistics.median(had) if had else None


def quiet(patience_s: float) -> float:
    """Wait until strangers leave the CPUs alone, or patience ends; how many CPUs they keep busy."""
    end = time.monotonic() + patience_s
    busy = busy_cpus()
    while busy > QUIET_CPUS and time.monotonic() < end:
        busy = busy_cpus()
    return busy


def busy_cpus() -> float:
    """How many CPUs are busy, over a second in which the lab itself does nothing."""
    before = _busy_ticks()
    time.sleep(_LOOK_S)
    return (_busy_ticks() - before) / os.sysconf("SC_CLK_TCK") / _LOOK_S


def _busy_ticks() -> int:
    """All that is not idle or waiting for a disk, by the first line of /proc/stat."""
    user, nice, system, _idle, _wait, irq, softirq, steal = (
        int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
    )
    return user + nice + system + irq + softirq + steal
