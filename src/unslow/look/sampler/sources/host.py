"""The machine around the GPUs, from files of the kernel: processors, memory, disks, pressure, quota, threads."""

import mmap
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from math import nan
from typing import TypeVar

from unslow.facts.values import MHZ
from unslow.look.kernel.processes import NUMA_NODES, read_nodes
from unslow.look.kernel.processors import TICKS_PER_S, parse_cpu_list, parse_running_on, read_own_pid, read_slow_cpus
from unslow.look.probes.cgroup import parse_allowed_cpus, read_group, read_quotas
from unslow.look.processes import families
from unslow.look.sampler.readings import CORE, SELDOM_S, Rate, Reading
from unslow.look.system import Live, LookError, read_text, try_look

T = TypeVar("T")
DISKSTATS, BLOCKS = "/proc/diskstats", "/sys/block"
SECTOR_BYTES = 512  # of this file, whatever the disk has: iostats.rst
_LIMIT_BYTES = 65536
_NOT_DISKS = ("loop", "ram", "zram", "dm-", "md", "sr", "fd")
"""No disks, or made of others whose reads are counted already."""
_NAME, _SECTORS_READ = 2, 5

CURRENT_FREQUENCY = "/sys/devices/system/cpu/cpu{}/cpufreq/scaling_cur_freq"
_FREQUENCY_LIMIT_BYTES = 32
_KHZ = MHZ / 1000
ANY_CORE, OWN_CORE = "cpu_clock_hz", "own_clock_hz"

MEMINFO = "/proc/meminfo"
_HEAD_BYTES = 512

VMSTAT = "/proc/vmstat"
_PAGING_LIMIT_BYTES = 32768
_COUNTERS = {"pswpin": mmap.PAGESIZE, "pswpout": mmap.PAGESIZE, "pgmajfault": 1}
_COLUMNS = ("swap_in_bytes_per_s", "swap_out_bytes_per_s", "major_faults_per_s")

PRESSURE_FOLDER = "/proc/pressure"
PRESSURE_KINDS = ("cpu", "memory", "io")
_PRESSURE_LIMIT_BYTES = 256

STAT = "/proc/stat"
MOST_CORES = 1024
MOST_PROCESSES = 64
_LINE_BYTES = 160  # of a processor: a name and ten counters
_IDLE, _WAITS_FOR_DISK = 4, 5
# Places after the command name in /proc/PID/stat, proc_pid_stat(5).
_MAJOR_FAULTS, _UTIME, _STIME, _RESIDENT_PAGES = 9, 11, 12, 21

_QUOTA_LIMIT_BYTES = 2048
MOST_THREADS = 512
MOST_NODES = 64
SLOW_SHARE = "own_slow_core_share"


def open_disks(live: Live, _pids: Collection[int], closing: ExitStack) -> list[Reading]:
    """One reading of all disks that are there now; LookError where there is none."""
    names = frozenset(name.encode() for name in live.list_dir(BLOCKS) if not name.startswith(_NOT_DISKS))
    if not names:
        raise LookError(f"{BLOCKS} lists no disk")
    sectors = _follow_parsed(live, DISKSTATS, _LIMIT_BYTES, closing, partial(parse_sectors_read, names=names))
    rate = Rate()
    read = lambda now: (rate(sectors() * SECTOR_BYTES, now),)  # noqa: E731 (short)
    return [Reading("disks", ("disk_read_bytes_per_s",), read, every_s=SELDOM_S)]


def parse_sectors_read(text: bytes, names: frozenset[bytes]) -> int:
    """Sectors read from these disks since the start; LookError where none of them is listed."""
    rows = [row for line in text.split(b"\n") if len(row := line.split(None, _SECTORS_READ + 1)) > _SECTORS_READ]
    try:
        read = [int(row[_SECTORS_READ]) for row in rows if row[_NAME] in names]
    except ValueError as error:
        raise LookError(f"{DISKSTATS} is not as expected") from error
    if not read:
        raise LookError(f"{DISKSTATS} lists no disk")
    return sum(read)


def open_frequency(live: Live, pids: Collection[int], closing: ExitStack) -> list[Reading]:
    """The clock of the core that is likeliest to work; LookError where no driver tells one, as in virtual machines.

    Of several kinds of cores, or of those that the runtime is bound to, it is a fast one on which the runtime may run.
    """
    texts = (try_look("", read_text, live, f"/proc/{pid}/status") for pid in pids)
    allowed = next(filter(None, map(parse_allowed_cpus, texts)), None)
    own = min(allowed - read_slow_cpus(live) or allowed) if allowed else None
    hertz = _follow_parsed(live, CURRENT_FREQUENCY.format(own or 0), _FREQUENCY_LIMIT_BYTES, closing, parse_hz)
    column = ANY_CORE if own is None else OWN_CORE
    return [Reading("frequency", (column,), lambda _now: (hertz(),), every_s=SELDOM_S)]


def parse_hz(text: bytes) -> float:
    """A number of kHz; NaN for zero, which a core that sleeps shows."""
    try:
        return int(text) * _KHZ or nan
    except ValueError as error:
        raise LookError("cpufreq holds no number") from error


def open_memory(live: Live, _pids: Collection[int], closing: ExitStack) -> list[Reading]:
    """The memory that programs can still have, without swapping, by the line `MemAvailable:  1234 kB`."""
    missing = f"{MEMINFO} has no available memory"
    available = _follow_parsed(
        live, MEMINFO, _HEAD_BYTES, closing, lambda text: number_after(b"MemAvailable:", text, missing, b"kB") * 1024
    )
    return [Reading("memory", ("memory_available_bytes",), lambda _now: (available(),), every_s=SELDOM_S)]


def open_paging(live: Live, _pids: Collection[int], closing: ExitStack) -> list[Reading]:
    """One reading of all three, from lines `name 123`, pages as bytes; LookError where one is missing."""
    counts = _follow_parsed(
        live,
        VMSTAT,
        _PAGING_LIMIT_BYTES,
        closing,
        lambda text: [
            number_after(f"\n{name} ".encode(), text, f"{VMSTAT} has no {name}") * size
            for name, size in _COUNTERS.items()
        ],
    )
    rates = Rate(), Rate(), Rate()
    read = lambda now: [rate(count, now) for rate, count in zip(rates, counts(), strict=True)]  # noqa: E731 (short)
    return [Reading("paging", _COLUMNS, read, every_s=SELDOM_S)]


def open_pressure(live: Live, _pids: Collection[int], closing: ExitStack) -> list[Reading]:
    """One reading for each kind; LookError where the kernel keeps none."""
    readings = []
    for kind in PRESSURE_KINDS:
        waited = _follow_parsed(
            live,
            f"{PRESSURE_FOLDER}/{kind}",
            _PRESSURE_LIMIT_BYTES,
            closing,
            lambda text: number_after(b" total=", text, f"{PRESSURE_FOLDER}: no total is counted") / 1e6,
        )
        read = partial(_read_pressure, waited, Rate())
        readings.append(Reading(f"{kind} pressure", (f"{kind}_pressure",), read, every_s=SELDOM_S))
    return readings


def _read_pressure(waited_s: Callable[[], float], rate: Rate, now: float) -> Sequence[float]:
    """The share since the last look: the kernel counts microseconds of waiting, finer than its own averages."""
    return (min(rate(waited_s(), now), 1.0),)  # in this order NaN stays NaN


class ProcessCounts:
    """What some processes have used so far; one that ended counts no more."""

    def __init__(self, live: Live, pids: Collection[int | str], closing: ExitStack) -> None:
        self._files = []
        for pid in list(pids)[:MOST_PROCESSES]:
            with suppress(LookError):
                self._files.append(_follow(live, f"/proc/{pid}/stat", 1024, closing))
        self.ticks, self.faults, self.pages = 0, 0, 0

    def __len__(self) -> int:
        """How many of them are left."""
        return len(self._files)

    def read(self) -> None:
        ticks = faults = pages = 0
        for file in tuple(self._files):
            try:
                text = file()
                words = text[text.rfind(b")") + 2 :].split(b" ", _RESIDENT_PAGES + 1)
                places = (_UTIME, _STIME, _MAJOR_FAULTS, _RESIDENT_PAGES)
                user, kernel, majors, resident = (int(words[place]) for place in places)
            except (LookError, ValueError, IndexError):  # it ended, or the text is another one
                self._files.remove(file)
                continue
            ticks, faults, pages = ticks + user + kernel, faults + majors, pages + resident
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
        before, ticks = self._before, (now - self._when) * TICKS_PER_S
        self._before, self._when = idle, now
        busy: list[float] = []  # time that the hypervisor took counts as busy, as it was not available here
        if len(before) == len(idle) and ticks > 0:
            busy = [min(1.0, max(0.0, 1 - (b - a) / ticks)) for a, b in zip(before, idle, strict=True)]
        total = sum(busy) if busy else nan
        own = self._own_rate(self._own.ticks / TICKS_PER_S, now) if self._own else nan
        this = self._this_rate(self._this.ticks / TICKS_PER_S, now)
        others = max(0.0, total - (own if own >= 0 else 0.0) - (this if this >= 0 else 0.0)) if busy else nan
        faults = self._fault_rate(self._own.faults, now) if self._own else nan
        memory = self._own.pages * self._page_bytes if self._own else nan
        cores = busy or [nan] * self._cores
        return [total, max(cores), own, others, memory, faults, *cores]


def open_processors(live: Live, pids: Collection[int], closing: ExitStack) -> list[Reading]:
    """One reading; the runtime's processes are those given and what they have started by now."""
    lines = live.read_bytes(STAT).splitlines()
    cores = min(MOST_CORES, sum(line.startswith(b"cpu") and line[3:4].isdigit() for line in lines))
    if not cores:
        raise LookError(f"{STAT} lists no processor")
    file = _follow(live, STAT, (cores + 1) * _LINE_BYTES, closing)
    family = families(live, pids)
    pid = try_look(None, read_own_pid, live)
    this_program = () if pid is None or pid in family else ("self",)  # unless it is the runtime itself
    own, this = (ProcessCounts(live, group, closing) for group in (family, this_program))
    processors = Processors(file, own, this, cores)
    names = ("busy_cpus", "busiest_core", "own_cpus", "others_cpus", "own_rss_bytes", "own_major_faults_per_s")
    columns = (*names, *(f"{CORE}{number}_busy" for number in range(cores)))
    return [Reading("processors", columns, processors.read)]


def parse_idle_ticks(text: bytes, cores: int) -> list[int]:
    """Ticks that each processor had nothing to do, or only waited for a disk; LookError on another text."""
    lines = text.split(b"\n", cores + 1)[1 : cores + 1]
    try:
        found = [line.split(b" ", 6) for line in lines]
        return [int(words[_IDLE]) + int(words[_WAITS_FOR_DISK]) for words in found]
    except (ValueError, IndexError) as error:
        raise LookError(f"{STAT} is not as expected") from error


def open_quota(live: Live, pids: Collection[int], closing: ExitStack) -> list[Reading]:
    """One reading, of the tightest quota above the runtime; LookError where there is none."""
    group = read_group(live, next(iter(pids), "self"), "cpu")
    quotas = read_quotas(live, group)
    if not quotas:
        raise LookError("no CPU quota is set")
    file = _follow(live, f"{min(quotas)[1]}/cpu.stat", _QUOTA_LIMIT_BYTES, closing)
    before = parse_periods(file())

    def read(_now: float) -> Sequence[float]:
        """The share of periods in which it ran out; NaN while none has ended: a process that sleeps has none."""
        nonlocal before
        periods, throttled = parse_periods(file())
        passed, held = periods - before[0], throttled - before[1]
        if passed <= 0:
            return (nan,)
        before = periods, throttled
        return (min(1.0, max(0.0, held / passed)),)

    return [Reading("quota", ("cpu_throttled_share",), read, every_s=SELDOM_S)]


def parse_periods(text: bytes) -> tuple[int, int]:
    """Periods so far, and those in which the quota ran out; LookError where they are not counted."""
    none = "cpu.stat counts no periods of a quota"
    return number_after(b"nr_periods ", text, none), number_after(b"nr_throttled ", text, none)


def open_threads(live: Live, pids: Collection[int], _closing: ExitStack) -> list[Reading]:
    """The share of the running threads that each group of processors has; LookError where there are no such groups."""
    groups = _groups(live) if pids else {}
    if not groups:
        raise LookError("all cores are of one kind, on one memory node" if pids else "no process of a runtime is known")
    folders = [f"/proc/{pid}/task" for pid in families(live, pids)]

    def read(_now: float) -> Sequence[float]:
        paths = [f"{folder}/{name}/stat" for folder in folders for name in try_look([], live.list_dir, folder)]
        texts = (try_look("", read_text, live, path) for path in paths[:MOST_THREADS])
        cpus = [cpu for text in texts if (cpu := parse_running_on(text)) is not None]
        return [sum(cpu in group for cpu in cpus) / len(cpus) if cpus else nan for group in groups.values()]

    return [Reading("threads", tuple(groups), read, every_s=SELDOM_S)]


def _groups(live: Live) -> dict[str, frozenset[int]]:
    slow = read_slow_cpus(live)
    groups = {SLOW_SHARE: slow} if slow else {}
    with suppress(LookError):
        nodes = read_nodes(live)[:MOST_NODES]
        if len(nodes) > 1:
            lists = {n: parse_cpu_list(read_text(live, f"{NUMA_NODES}/node{n}/cpulist")) for n in nodes}
            groups |= {f"own_node{number}_share": cpus for number, cpus in lists.items()}
    return groups


def _follow_parsed(
    live: Live, path: str, limit: int, closing: ExitStack, parse: Callable[[bytes], T]
) -> Callable[[], T]:
    """What a file holds at each call; LookError at once where that cannot be parsed."""
    file = _follow(live, path, limit, closing)
    parse(file())
    return lambda: parse(file())


def _follow(live: Live, path: str, limit: int, closing: ExitStack) -> Callable[[], bytes]:
    file = live.follow(path, limit)
    closing.callback(file.close)
    return file


def number_after(label: bytes, text: bytes, otherwise: str, end: bytes = b"\n") -> int:
    """The whole number between a label and the end of the line, or of what counts; LookError where there is none."""
    try:
        return int(text.partition(label)[2].partition(end)[0])
    except ValueError as error:
        raise LookError(otherwise) from error
