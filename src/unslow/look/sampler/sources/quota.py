"""How much a CPU quota holds the runtime back: cpu.stat of the control group that sets it."""

from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack
from math import nan

from unslow.look.probes.cgroup import read_group, read_quota
from unslow.look.sampler.reading import SELDOM_S, Reading
from unslow.look.system import Live, LookError

_LIMIT_BYTES = 2048
_PERIODS, _THROTTLED = b"nr_periods ", b"nr_throttled "


class Quota:
    """The share of the quota's periods in which it ran out, since the last look with a new period."""

    def __init__(self, file: Callable[[], bytes]) -> None:
        self._file = file
        self._before = parse_periods(file())

    def read(self, _now: float) -> Sequence[float]:
        """NaN while no period has ended: a process that sleeps has none."""
        periods, throttled = parse_periods(self._file())
        passed, held = periods - self._before[0], throttled - self._before[1]
        if passed <= 0:
            return (nan,)
        self._before = periods, throttled
        return (min(1.0, max(0.0, held / passed)),)


def open_readings(live: Live, pids: Collection[int], closing: ExitStack) -> list[Reading]:
    """One reading, of the tightest quota above the runtime; LookError where there is none."""
    group = read_group(live, next(iter(pids), "self"), "cpu")
    quotas = [quota for folder in group.folders if (quota := read_quota(live, group.version, folder))]
    if not quotas:
        raise LookError("no CPU quota is set")
    file = live.follow(f"{min(quotas).folder}/cpu.stat", _LIMIT_BYTES)
    closing.callback(file.close)
    return [Reading("quota", ("cpu_throttled_share",), Quota(file).read, every_s=SELDOM_S)]


def parse_periods(text: bytes) -> tuple[int, int]:
    """Periods so far, and those in which the quota ran out; LookError where they are not counted."""
    return _number(text, _PERIODS), _number(text, _THROTTLED)


def _number(text: bytes, label: bytes) -> int:
    at = text.find(label)
    end = text.find(b"\n", at)
    try:
        return int(text[at + len(label) : end if end >= 0 else None] if at >= 0 else b"")
    except ValueError as error:
        raise LookError("cpu.stat counts no periods of a quota") from error
