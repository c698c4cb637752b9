"""Who uses the processors: /proc/stat for all and each, /proc/PID/stat for the runtime and for this program."""

import mmap
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack, suppress
from math import nan

from unslow.look.kernel.cpu_time import TICKS_PER_S, read_own_pid
from unslow.look.processes import families
from unslow.look.sampler.reading import CORE, Rate, Reading
from unslow.look.system import Live, LookError

STAT = "/proc/stat"
MOST_CORES = 1024
MOST_PROCESSES = 64
_LINE_BYTES = 160  # of a processor: a name and ten counters
_IDLE, _WAITS_FOR_DISK = 4, 5
# Places after the command name in /proc/PID/stat, proc_pid_stat(5).
_MAJOR_FAULTS, _UTIME, _STIME, _RESIDENT_PAGES = 9, 11, 12, 21


class ProcessCounts:
    """What some processes have used so far; one that ended counts no more."""

    def __init__(self, live: Live, pids: Collection[int | str], closing: ExitStack) -> None:
        self._files = []
        for pid in list(pids)[:MOST_PROCESSES]:
            with suppress(LookError):
                self._files.append(live.follow(f"/proc/{pid}/stat", 1024))
                closing.callback(self._files[-1].close)
        self.ticks, self.faults, self.pages = 0, 0, 0

    def __len__(self) -> int:
        """How many of them are left."""
        return len(self._files)

    def read(self) -> None:
        """Sum up; a process that is gone is not asked again."""
        ticks = faults = pages = 0
        for file in tuple(self._files):
            try:
                used, majors, resident = parse_process(file())
            except LookError:
                self._files.remove(file)
                continue
            ticks, faults, pages = ticks + used, faults + majors, pages + resident
        self.ticks, self.faults, self.pages = ticks, faults, pages


class Processors:
    """The counters of all cores, and their growth between two looks."""

    def __init__(self, file: Callable[[], bytes], own: ProcessCounts, this: ProcessCounts, cores: int) -> None:
        self._file, self._own, self._this, self._cores = file, own, this, cores
        self._before: list[int] = []
        self._when = nan
        self._own_rate, self._this_rate, self._fault_rate = Rate(), Rate(), Rate()
        self._page_bytes = mmap.PAGESIZE

    def read(self, now: float) -> Sequence[float]:
        """Busy processors in all, the busiest, own, others, then own memory and faults, then each core."""
        idle = parse_idle_ticks(self._file(), self._cores)
        self._own.read()
        self._this.read()
        busy = self._busy(idle, now)
        total = sum(busy) if busy else nan
        own = self._own_rate(self._own.ticks / TICKS_PER_S, now) if self._own else nan
        this = self._this_rate(self._this.ticks / TICKS_PER_S, now)
        others = max(0.0, total - (own if own >= 0 else 0.0) - (this if this >= 0 else 0.0)) if busy else nan
        faults = self._fault_rate(self._own.faults, now) if self._own else nan
        memory = self._own.pages * self._page_bytes if self._own else nan
        cores = busy or [nan] * self._cores
        return [total, max(cores), own, others, memory, faults, *cores]

    def _busy(self, idle: list[int], now: float) -> list[float]:
        """The busy share of each core; time that the hypervisor took counts as busy, as nobody here could use it."""
        before, ticks = self._before, (now - self._when) * TICKS_PER_S
        self._before, self._when = idle, now
        if len(before) != len(idle) or not ticks > 0:
            return []
        return [min(1.0, max(0.0, 1 - (b - a) / ticks)) for a, b in zip(before, idle, strict=True)]


def open_readings(live: Live, pids: Collection[int], closing: ExitStack) -> list[Reading]:
    """One reading; the runtime's processes are those given and what they have started by now."""
    cores = len(parse_cores(live.read_bytes(STAT)))
    file = live.follow(STAT, (cores + 1) * _LINE_BYTES)
    closing.callback(file.close)
    family = families(live, pids)
    own, this = (ProcessCounts(live, group, closing) for group in (family, _this_program(live, family)))
    processors = Processors(file, own, this, cores)
    names = ("busy_cpus", "busiest_core", "own_cpus", "others_cpus", "own_rss_bytes", "own_major_faults_per_s")
    columns = (*names, *(f"{CORE}{number}_busy" for number in range(cores)))
    return [Reading("processors", columns, processors.read)]


def _this_program(live: Live, family: Collection[int]) -> Collection[str]:
    """This program, whose work is neither the runtime's nor that of others; nobody where it is the runtime itself."""
    with suppress(LookError):
        return () if read_own_pid(live) in family else ("self",)
    return ()


def parse_cores(text: bytes) -> list[bytes]:
    """The lines of single processors; LookError where there is none."""
    lines = [line for line in text.splitlines() if line.startswith(b"cpu") and line[3:4].isdigit()]
    if not lines:
        raise LookError(f"{STAT} lists no processor")
    return lines[:MOST_CORES]


def parse_idle_ticks(text: bytes, cores: int) -> list[int]:
    """Ticks that each processor had nothing to do, or only waited for a disk; LookError on another text."""
    lines = text.split(b"\n", cores + 1)[1 : cores + 1]
    try:
        found = [line.split(b" ", 6) for line in lines]
        return [int(words[_IDLE]) + int(words[_WAITS_FOR_DISK]) for words in found]
    except (ValueError, IndexError) as error:
        raise LookError(f"{STAT} is not as expected") from error


def parse_process(text: bytes) -> tuple[int, int, int]:
    """Ticks of work, major faults and resident pages; LookError on another text."""
    words = text[text.rfind(b")") + 2 :].split(b" ", _RESIDENT_PAGES + 1)
    try:
        return int(words[_UTIME]) + int(words[_STIME]), int(words[_MAJOR_FAULTS]), int(words[_RESIDENT_PAGES])
    except (ValueError, IndexError) as error:
        raise LookError("/proc/PID/stat is not as expected") from error
