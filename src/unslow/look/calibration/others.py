"""What other programs take of the processors while engines are measured."""

from collections.abc import Sequence

from unslow.look.kernel.cpu_time import CpuSample, CpuUse, cpus_between, read_cpu_sample, read_own_pid
from unslow.look.system import LookError, System


class Others:
    """Watches from now on; where the kernel does not tell, nobody is seen."""

    def __init__(self, system: System, engine_pids: Sequence[int]) -> None:
        self._system = system
        self._own = [*engine_pids, *_own_pid(system)]
        self._first = self._last = _processors(system)

    def cpus_since_last(self) -> float:
        """Processors that others used since this was last asked."""
        before, self._last = self._last, _processors(self._system)
        return cpus_between(before, self._last, self._own).busy_cpus if before and self._last else 0.0

    def use(self) -> CpuUse | None:
        """Who used how much since the start; None where that can't be seen."""
        return cpus_between(self._first, self._last, self._own) if self._first and self._last else None


def _processors(system: System) -> CpuSample | None:
    try:
        return read_cpu_sample(system)
    except LookError:
        return None


def _own_pid(system: System) -> list[int]:
    try:
        return [read_own_pid(system)]
    except LookError:
        return []
