"""Who used the processors of the server's machine while it answered."""

from collections.abc import Sequence
from typing import Any

from unslow.facts.values import Absence, measured
from unslow.look.bench.guest import Target
from unslow.look.bench.watching import is_here
from unslow.look.kernel.cpu_time import CpuSample, CpuUse, cpus_between, read_cpu_sample, read_own_pid, read_run_delay
from unslow.look.system import LookError, System, unknown


def use_between(
    system: System, target: Target, before: CpuSample | LookError, after: CpuSample | LookError
) -> CpuUse | LookError:
    """Who used the processors between two samples, the server and this program apart from the others."""
    if isinstance(before, LookError):
        return before
    if isinstance(after, LookError):
        return after
    own = [p for p in (target.pid, _own_pid(system)) if p is not None]
    return cpus_between(before, after, own)


def sample_here(system: System, target: Target) -> CpuSample | LookError:
    """The processors of the server's machine; those of another say nothing of it."""
    if not is_here(target):
        return LookError("the server runs on another machine", Absence.NOT_SUPPORTED, "run unslow there")
    try:
        return read_cpu_sample(system)
    except LookError as error:
        return error


def _own_pid(system: System) -> int | None:
    try:
        return read_own_pid(system)
    except LookError:
        return None


def run_delay(system: System, pid: int | None) -> float | None:
    """Seconds that its threads have waited for a processor so far, where that can be read."""
    try:
        return read_run_delay(system, pid) if pid is not None else None
    except LookError:
        return None


def processors(uses: Sequence[CpuUse | LookError], when: str = "while generating") -> dict[str, Any]:
    """The facts on who used the processors: of the one in the middle, by how busy they were."""
    known = [u for u in uses if not isinstance(u, LookError)]
    if not known:
        error = next((u for u in uses if isinstance(u, LookError)), LookError("nobody looked"))
        return {"own_cpus": unknown(error), "others_cpus": unknown(error), "busiest_others": unknown(error)}
    source = f"/proc/stat and /proc/PID/stat {when}"
    middle = sorted(known, key=lambda u: u.busy_cpus)[len(known) // 2]
    return {
        "own_cpus": measured(middle.excluded_cpus, source),
        "others_cpus": measured(middle.busy_cpus, source),
        "busiest_others": measured(middle.busiest, source),
    }
