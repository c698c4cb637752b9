"""How much other processes compute on a GPU of NVIDIA's: the driver samples the work of each process by itself."""

from collections.abc import Collection, Sequence
from math import nan
from typing import Any

from unslow.look.probes.nvml.query import Nvml

MOST_PERCENT = 100
_NOTHING_NEW = (0, 6)
"""NVML_SUCCESS with no sample to hand out, and NVML_ERROR_NOT_FOUND: no process worked since the last look."""


class OthersBusy:
    """The share of the time in which kernels of others ran, since the last look.

    In a container the driver may count processes by other numbers than /proc does. Then the runtime itself looks like a
    stranger, so nothing is told before one of its own numbers was seen at work.
    """

    def __init__(self, nvml: Nvml, gpu: Any, own: Collection[int]) -> None:
        self._nvml, self._gpu, self._own = nvml, gpu, frozenset(own)
        self._since_us, self._knows_own = 0, False

    def read(self, _now: float) -> Sequence[float]:
        """One share; NaN at the first look, which shows the past, and while nobody worked."""
        is_first = not self._since_us
        busy = self._percent_by_pid()
        self._knows_own = self._knows_own or any(pid in self._own for pid in busy)
        if is_first or not busy or not self._knows_own:
            return (nan,)
        others = sum(percent for pid, percent in busy.items() if pid not in self._own)
        return (min(1.0, others / MOST_PERCENT),)

    def _percent_by_pid(self) -> dict[int, float]:
        """What each process used since the last look; a process may be sampled more than once."""
        seen: dict[int, list[int]] = {}
        for sample in self._samples():
            self._since_us = max(self._since_us, sample.timeStamp)
            if sample.smUtil <= MOST_PERCENT:  # drivers hand out a row of noise now and then
                seen.setdefault(sample.pid, []).append(sample.smUtil)
        return {pid: sum(used) / len(used) for pid, used in seen.items()}

    def _samples(self) -> Sequence[Any]:
        try:
            return list(self._nvml.nvmlDeviceGetProcessUtilization(self._gpu, self._since_us))
        except Exception as error:
            if getattr(error, "value", None) in _NOTHING_NEW:
                return ()
            raise
