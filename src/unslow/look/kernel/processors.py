"""Processors as the kernel shows them: lists, instruction sets, kinds of cores, caches, and who used them."""

import re
from collections.abc import Collection
from contextlib import suppress
from math import inf
from typing import NamedTuple

from unslow.facts.machine import BusyProcess
from unslow.facts.values import GIB, KIB, MIB
from unslow.look.kernel import parse_whole, read_number
from unslow.look.system import LookError, System, read_text, try_look

HIGHEST_NUMBER = 65535  # far above any kernel's NR_CPUS; a hostile range cannot grow the set beyond it
LONGEST_LIST = 65536
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")

_X86 = """
    ssse3 sse4_1 sse4_2 avx avx2 fma f16c bmi2 avx_vnni avx_vnni_int8 avx512f avx512bw avx512dq avx512vl avx512vbmi
    avx512_vnni avx512_bf16 avx512_fp16 amx_tile amx_int8 amx_bf16 amx_fp16
"""
_ARM = "sve sve2 i8mm bf16 sme sme2"
_NAMES = {name: name for name in (_X86 + _ARM).split()} | {
    # Arm's flags that everyone else knows by another name.
    "asimd": "neon",
    "neon": "neon",
    "asimdhp": "fp16",
    "asimddp": "dotprod",
}

CPUS = "/sys/devices/system/cpu"
_SIZE = re.compile(r"(\d{1,9})([KMG]?)")
_UNITS = {"": 1, "K": KIB, "M": MIB, "G": GIB}

FAST_CORES = "/sys/devices/cpu_core/cpus"  # there only on Intel's hybrid processors
EFFICIENCY_BELOW = 0.75  # of the fastest core's rating; cores of one kind differ by less
MOST_CPUS = 1024

TICKS_PER_S = 100  # USER_HZ, the same on every architecture that can run a model
MOST_PROCESSES = 32768
MOST_THREADS = 4096
BUSIEST = 5
LEAST_CPUS = 0.01
STEAL_NAME = "steal: other virtual machines on this host"
_BUSY_COLUMNS = (1, 2, 3, 6, 7)  # user, nice, system, irq, softirq; guests are counted in user
_STEAL_COLUMN = 8
# Places after the command name in /proc/PID/stat, proc_pid_stat(5): ppid, utime, stime, nice, starttime.
_PARENT, _UTIME, _STIME, _NICE, _STARTTIME = 1, 11, 12, 16, 19
_STATE, _LAST_CPU = 0, 36


class ProcessTime(NamedTuple):
    """What one process has used since it started."""

    name: str
    ticks: int
    started_ticks: int
    parent: int = 0
    nice: int = 0


class CpuSample(NamedTuple):
    """Processor time used so far, at one moment."""

    seconds: float
    busy_ticks: int
    steal_ticks: int
    processes: dict[int, ProcessTime]


class CpuUse(NamedTuple):
    """Processors in use on average between two samples, without the processes left out."""

    busy_cpus: float
    excluded_cpus: float
    busiest: list[BusyProcess]


def parse_cpu_list(text: str) -> frozenset[int]:
    """The numbers in the list; what is not a number or a range is passed over."""
    numbers: set[int] = set()
    for match in filter(None, (_RANGE.fullmatch(word.strip()) for word in text[:LONGEST_LIST].split(","))):
        numbers.update(range(int(match[1]), min(int(match[2] or match[1]), HIGHEST_NUMBER) + 1))
    return frozenset(numbers)


def parse_instruction_sets(flags: str) -> list[str]:
    """The sets named in a line of CPU flags, sorted."""
    return sorted({_NAMES[flag] for flag in flags.lower().split() if flag in _NAMES})


def read_last_level_cache_bytes(system: System) -> int:
    """The sum of the distinct last-level caches; LookError where the kernel does not show them."""
    levels = [name for name in system.list_dir(f"{CPUS}/cpu0/cache") if re.fullmatch(r"index\d", name)]
    if not levels:
        raise LookError(f"{CPUS}/cpu0/cache: shows no cache")
    left, total = set(parse_cpu_list(read_text(system, f"{CPUS}/online"))), 0
    while left:
        cpu = min(left)
        folder = f"{CPUS}/cpu{cpu}/cache/{max(levels)}"
        size = _SIZE.match(read_text(system, f"{folder}/size").strip())  # such as "49152K"
        total += int(size[1]) * _UNITS[size[2]] if size else 0
        left -= parse_cpu_list(read_text(system, f"{folder}/shared_cpu_list")) | {cpu}
    return total


def read_slow_cpus(system: System) -> frozenset[int]:
    """Their numbers; none where all cores are of one kind, or the kernel does not tell them apart."""
    online = parse_cpu_list(try_look("", read_text, system, f"{CPUS}/online"))
    if not online:
        return frozenset()
    with suppress(LookError):
        return online - parse_cpu_list(read_text(system, FAST_CORES))
    with suppress(LookError):  # those that the scheduler rates far below the fastest, as on ARM
        rated = {cpu: read_number(system, f"{CPUS}/cpu{cpu}/cpu_capacity") for cpu in sorted(online)[:MOST_CPUS]}
        most = max(rated.values(), default=0)
        return frozenset(cpu for cpu, capacity in rated.items() if capacity < EFFICIENCY_BELOW * most)
    return frozenset()


def read_cpu_sample(system: System) -> CpuSample:
    """The counters now; LookError where /proc cannot be read, while processes that vanish are passed over."""
    busy, steal = parse_busy_ticks(read_text(system, "/proc/stat"))
    processes = {}
    for name in [name for name in system.list_dir("/proc") if name.isdecimal()][:MOST_PROCESSES]:
        if process := parse_process_time(try_look("", read_text, system, f"/proc/{name}/stat")):
            processes[int(name)] = process
    return CpuSample(system.clock(), busy, steal, processes)


def read_own_pid(system: System) -> int:
    """The number of this process as /proc has it."""
    pid = parse_whole(read_text(system, "/proc/self/stat").partition(" ")[0])
    if pid is None:
        raise LookError("/proc/self/stat: does not start with a process id")
    return pid


def read_thread_names(system: System, pid: int | str) -> list[str]:
    """What the threads of a process are called."""
    threads = system.list_dir(f"/proc/{pid}/task")[:MOST_THREADS]
    return [try_look("", read_text, system, f"/proc/{pid}/task/{thread}/comm").strip() for thread in threads]


def read_run_delay(system: System, pid: int | str) -> float:
    """Seconds that a process's threads have waited for a processor, all together, since they started."""
    threads = system.list_dir(f"/proc/{pid}/task")[:MOST_THREADS]
    texts = [try_look("", read_text, system, f"/proc/{pid}/task/{thread}/schedstat") for thread in threads]
    # The second number: nanoseconds spent runnable and not running
    words = [word for text in texts for word in text.split(maxsplit=2)[1:2]]
    waits = [wait for word in words if (wait := parse_whole(word)) is not None]
    if not waits:
        raise LookError(f"/proc/{pid}/task/*/schedstat: none could be read")
    return sum(waits) / 1e9


def parse_busy_ticks(text: str) -> tuple[int, int]:
    """Ticks of work on all processors, and ticks that the hypervisor gave to others; LookError on another text."""
    for line in text.splitlines():
        words = line.split()
        if words[:1] == ["cpu"] and len(words) > _STEAL_COLUMN:
            return sum(parse_whole(words[i]) or 0 for i in _BUSY_COLUMNS), parse_whole(words[_STEAL_COLUMN]) or 0
    raise LookError("/proc/stat: no line for all processors")


def parse_process_time(text: str) -> ProcessTime | None:
    """A line of /proc/PID/stat; the name stands in brackets and may hold brackets and blanks itself."""
    head, _, tail = text.rpartition(")")
    fields = tail.split()
    try:
        used, started = int(fields[_UTIME]) + int(fields[_STIME]), int(fields[_STARTTIME])
        parent, nice = int(fields[_PARENT]), int(fields[_NICE])
    except (IndexError, ValueError):
        return None
    return ProcessTime(head.partition("(")[2][:64], used, started, parent, nice)


def parse_running_on(text: str) -> int | None:
    """The processor that a thread runs on, by its line of stat; None where it does not run."""
    fields = text.rpartition(")")[2].split()
    is_running = len(fields) > _LAST_CPU and fields[_STATE] == "R"
    return parse_whole(fields[_LAST_CPU]) if is_running else None


def process_family(sample: CpuSample, pids: Collection[int]) -> frozenset[int]:
    """The processes and all that they started: the engine of a server may be a process of its own."""
    started: dict[int, list[int]] = {}
    for pid, process in sample.processes.items():
        started.setdefault(process.parent, []).append(pid)
    found, left = set(pids), list(pids)
    while left:
        children = [pid for pid in started.get(left.pop(), []) if pid not in found]
        found.update(children)
        left += children
    return frozenset(found)


def cpus_between(before: CpuSample, after: CpuSample, exclude_pids: Collection[int] = ()) -> CpuUse:
    """What others used, by name, the processes left out and all that they started apart; stolen time is others'."""
    exclude_pids = process_family(after, exclude_pids)
    ticks = max(after.seconds - before.seconds, 1e-6) * TICKS_PER_S
    newest = max((p.started_ticks for p in before.processes.values()), default=inf)
    used = {}
    for pid, process in after.processes.items():
        earlier = before.processes.get(pid)
        if earlier and earlier.started_ticks == process.started_ticks:
            used[pid] = max(0, process.ticks - earlier.ticks) / ticks
        else:  # a number can be given to a new process, whose time then all falls in between
            used[pid] = process.ticks / ticks if process.started_ticks > newest else 0.0
    excluded = sum(cpus for pid, cpus in used.items() if pid in exclude_pids)
    steal = max(0, after.steal_ticks - before.steal_ticks) / ticks
    busy = max(0.0, (after.busy_ticks - before.busy_ticks) / ticks - excluded) + steal
    others = [BusyProcess(pid=0, name=STEAL_NAME, cpus=round(steal, 3))]
    for pid in used.keys() - exclude_pids:
        process, parents = after.processes[pid], list[int]()
        parent = process.parent
        while parent in after.processes and parent not in parents:
            parents.append(parent)
            parent = after.processes[parent].parent
        cpus = round(used[pid], 3)
        others.append(BusyProcess(pid=pid, name=process.name, cpus=cpus, parents=tuple(parents), nice=process.nice))
    busiest = sorted((p for p in others if p.cpus >= LEAST_CPUS), key=lambda p: (-p.cpus, p.pid))[:BUSIEST]
    return CpuUse(round(busy, 3), round(excluded, 3), busiest)
