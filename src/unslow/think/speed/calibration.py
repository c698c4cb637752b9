"""Which calibration holds for a machine and an engine: the newest one of both, unless something has changed since."""

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from unslow.facts.calibration import Calibration, MachineMark
from unslow.facts.machine import Machine
from unslow.facts.merge import computing_gpus
from unslow.facts.runtime import Runtime
from unslow.facts.values import GB, GIB

OLD_DAYS = 180
MEMORY_SPEED_OFF = 1.3  # two readings of the same memory differ by less than this on a machine that is left alone
MEMORY_SIZE_OFF = 0.05  # a kernel keeps a little more or less for itself after each start
_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)")
_YEAR = 365.2425


class Match(NamedTuple):
    """The calibration to use, or the nearest one and why it is not to be used; neither where there is none."""

    calibration: Calibration | None
    stale: str = ""

    @property
    def usable(self) -> Calibration | None:
        """The calibration, if nothing speaks against it."""
        return None if self.stale else self.calibration


def match_calibration(calibrations: Iterable[Calibration], machine: Machine, runtime: Runtime, now: str = "") -> Match:
    """The newest calibration of this machine, engine and device that is not stale; else the newest stale one."""
    # The same engine, and the same kind of device; an engine that does not say what it uses is on the processor
    buffers, layers = runtime.memory.buffers.value_or([]), runtime.placement.gpu_layers.value_or(0)
    on_gpu = any(buffer.on_gpu for buffer in buffers) or bool(layers)
    made_here = calibrations_of_machine(calibrations, machine)
    mine = [c for c in made_here if runtime.name.value_or(c.engine) == c.engine and (c.backend == "gpu") == on_gpu]
    mine.sort(key=lambda c: c.taken_at, reverse=True)
    stale = [Match(c, "; ".join(stale_because(c, machine, runtime, now))) for c in mine]
    return next((m for m in stale if not m.stale), stale[0] if stale else Match(None))


def calibrations_of_machine(calibrations: Iterable[Calibration], machine: Machine) -> tuple[Calibration, ...]:
    """Those that were made on this machine."""
    now, found = mark_of(machine), []
    for calibration in calibrations:
        then = calibration.machine
        same_memory = abs(then.memory_bytes - now.memory_bytes) <= max(MEMORY_SIZE_OFF * then.memory_bytes, GIB / 4)
        if (then.cpu, then.cores, then.gpus) == (now.cpu, now.cores, now.gpus) and same_memory:
            found.append(calibration)
    return tuple(found)


def mark_of(machine: Machine) -> MachineMark:
    """By what the machine is known again."""
    gpus = computing_gpus(machine.gpus.value_or(()))
    return MachineMark(
        cpu=machine.cpu.model.value_or(""),
        cores=machine.cpu.physical_cores.value_or(machine.cpu.logical_cpus.value_or(0)),
        memory_bytes=machine.memory.total_bytes.value_or(0),
        gpus=tuple(sorted(gpu.name.value_or("?") for gpu in gpus)),
        drivers=tuple(sorted({gpu.driver.value_or("") for gpu in gpus} - {""})),
        kernel=machine.system.kernel.value_or(""),
    )


def stale_because(calibration: Calibration, machine: Machine, runtime: Runtime, now: str = "") -> Iterator[str]:
    """What has changed since; `now` is an ISO 8601 time, without which its age is not looked at."""
    mark, then = mark_of(machine), calibration.machine
    version = runtime.version.value_or(calibration.engine_version)
    if version != calibration.engine_version:
        yield f"{calibration.engine} is now {version} (was {calibration.engine_version})"
    if runtime.compute.threads.value_or(calibration.threads) != calibration.threads and calibration.backend == "cpu":
        yield f"{runtime.compute.threads.value_or(0)} threads (measured with {calibration.threads})"
    if calibration.backend == "gpu" and mark.drivers and mark.drivers != then.drivers:
        yield f"the GPU driver is now {', '.join(mark.drivers)}, and was {', '.join(then.drivers) or 'unknown'}"
    if mark.kernel and then.kernel and mark.kernel != then.kernel:
        yield f"the kernel is now {mark.kernel} (was {then.kernel})"
    before, after = calibration.ram_read_bytes_per_s, machine.memory.read_bytes_per_s.value_or(0.0)
    if before and after and not 1 / MEMORY_SPEED_OFF < after / before < MEMORY_SPEED_OFF:
        yield f"memory bandwidth is now {after / GB:.0f} GB/s (was {before / GB:.0f})"
    # The days on one scale, right to a day or two
    dates = (_DATE.match(time) for time in (calibration.taken_at, now))
    taken, today = (_YEAR * int(d[1]) + _YEAR / 12 * int(d[2]) + int(d[3]) if d else None for d in dates)
    if taken is None:  # a file that was edited by hand
        yield f"its time {calibration.taken_at[:40]!r} is not a valid time"
    elif today is not None and today - taken > OLD_DAYS:
        yield f"it is {today - taken:.0f} days old"
