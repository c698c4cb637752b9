"""How fast this machine's processors can read its memory, in less than half a second, on many threads.

Three figures: what one core reads, what all read together when nothing is in their way (the capability, which limits
tokens per second on the CPU), and what they get now. A neighbour that takes time slices lowers only the last one: the
capability is taken from the moments in which the threads really ran at the same time. Adding up each thread's bytes
per second of its own processor time would be simpler and too high on a busy machine: threads that take turns each
find the memory to themselves.
"""

import ctypes
import math
import mmap
import os
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple

import msgspec

from unslow.facts.machine import Memory
from unslow.facts.values import GIB, MIB, Absence, Amount, Bytes, Count, Known, estimated_fact, measured_fact
from unslow.look.kernel.processors import read_last_level_cache_bytes
from unslow.look.probes import cgroup
from unslow.look.probes.memory import read_sizes
from unslow.look.system import LookError, System, convert_answer, try_look, unknown

PIECE_BYTES = 2 * MIB  # 0.1 to 1 ms: shorter than a time slice, so that most pieces are read without a break
ALONE_S = 0.05
TOGETHER_S = 0.12
LONGEST_WAIT_S = 5.0
_COARSE = time.get_clock_info("thread_time").resolution > PIECE_BYTES / 1e12  # Windows counts in steps of 16 ms

Search = Callable[[int, int, int], int | None]

MOST_THREADS = 64
MOST_BYTES = 2 * GIB
MOST_BYTES_EACH = 192 * MIB  # filled in about 0.1 s
CACHES_OVER = 4  # the buffers are this many times larger than the caches, where time and memory allow
LEAST_BYTES_EACH = 8 * MIB
SHARE_OF_FREE = 0.25
LONG_ENOUGH_S = 0.005
BREAK = 1.3  # a piece that took this much longer than its processor time was interrupted


class Piece(NamedTuple):
    """One piece read: when, and for how long the thread really held a processor meanwhile."""

    start_s: float
    end_s: float
    cpu_s: float


class Scan(NamedTuple):
    """What one thread read while the others waited, and what each read while all did."""

    alone: list[Piece]
    together: list[list[Piece]]


class Reading(msgspec.Struct, frozen=True):
    """What was measured, in bytes per second, and with what."""

    threads: Count
    buffer_bytes: Bytes
    one_core: Amount
    together: Amount
    at_once: Count
    now: Amount


class Level(NamedTuple):
    """The time in which a number of threads ran at once, and what they read in it."""

    threads: int
    seconds: float
    bytes: float

    @property
    def bytes_per_s(self) -> float:
        return self.bytes / self.seconds if self.seconds else 0.0


def scan_memory(threads: int, bytes_each: int) -> Scan:
    """Fill a buffer for each thread (whole pieces), read one alone, then all at once; all is freed at the end.

    The reading is done by the C library's `memchr`, looking for a byte that is not there. It is on every machine, it
    only reads (copying would count each byte twice and fill caches with writes), it is written with the widest vectors
    the processor has, so that memory and not the loop is the limit, and ctypes lets go of Python's lock while it runs.
    On an idle machine with two cores it read 21 to 22 GB/s, and a plain loop in C (gcc -O3, AVX-512) 20 to 23.
    """
    search = _memchr()
    gate = threading.Barrier(threads)
    alone: list[Piece] = []
    together: list[list[Piece]] = [[] for _ in range(threads)]

    def work(number: int) -> None:
        if sys.platform == "linux":
            allowed = sorted(os.sched_getaffinity(0))
            if len(allowed) == threads:  # a processor for each: else a busy machine puts two threads on one
                with suppress(OSError):
                    os.sched_setaffinity(threading.get_native_id(), {allowed[number]})
        try:
            with _fill_memory(bytes_each) as address:
                gate.wait(LONGEST_WAIT_S)
                if number == 0:
                    alone.extend(_pieces(search, address, bytes_each, ALONE_S))
                gate.wait(LONGEST_WAIT_S)
                together[number].extend(_pieces(search, address, bytes_each, TOGETHER_S))
        except (OSError, MemoryError, ValueError, threading.BrokenBarrierError):
            gate.abort()  # the others must not wait for this one

    workers = [threading.Thread(target=work, args=(number,), daemon=True) for number in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(2 * LONGEST_WAIT_S)
    if gate.broken or not all(together):
        raise LookError("memory for the measurement could not be allocated, or its threads did not run")
    return Scan(alone, together)


def _memchr() -> Search:
    try:
        search = ctypes.CDLL("msvcrt" if sys.platform == "win32" else None).memchr
    except (OSError, AttributeError) as error:
        raise LookError("the C library has no memchr to read memory with", Absence.NOT_SUPPORTED) from error
    search.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
    search.restype = ctypes.c_void_p
    return search


@contextmanager
def _fill_memory(size: int) -> Iterator[int]:
    """The address of private memory that was written to: pages never written are all one page of zeros."""
    if sys.platform == "win32":
        memory = mmap.mmap(-1, size)
    else:
        memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    first = ctypes.c_char.from_buffer(memory)
    try:
        ctypes.memset(ctypes.addressof(first), 1, size)
        yield ctypes.addressof(first)
    finally:
        del first  # memory with a view on it can't be closed
        memory.close()


def _pieces(search: Search, address: int, size: int, seconds: float) -> Iterator[Piece]:
    begin = end = time.perf_counter()
    offset = 0
    while end - begin < seconds:
        start, cpu = time.perf_counter(), time.thread_time()
        search(address + offset, 0, PIECE_BYTES)
        held, end = time.thread_time() - cpu, time.perf_counter()
        offset = (offset + PIECE_BYTES) % size
        yield Piece(start, end, end - start if _COARSE else held)


def read_ram_bandwidth(system: System) -> Memory:
    """Measure it; only memory of this process is touched, and it is given back at once."""
    cache_bytes = try_look(0, read_last_level_cache_bytes, system)
    try:
        limits = cgroup.read_limits(system)
        # One for each processor that this process may keep busy
        cpu = limits.cpu
        allowed = cpu.allowed_cpus.value_or(os.cpu_count() or 1)
        threads = max(1, min(allowed, math.ceil(cpu.quota_cpus.value_or(allowed)), MOST_THREADS))
        free_facts = (read_sizes(system).available_bytes, limits.memory.limit_bytes)
        # Where nothing says what may be used, a GiB is thought to be there
        free_bytes = min((fact.value for fact in free_facts if isinstance(fact, Known)), default=GIB)
        each = _bytes_each(threads, cache_bytes, free_bytes)
        answer = system.ask("ram_bandwidth", lambda: msgspec.to_builtins(reading_of(scan_memory(threads, each), each)))
        return parse_ram_bandwidth(answer, cache_bytes)
    except LookError as error:
        why = unknown(error)
        return Memory(read_bytes_per_s=why, read_one_core_bytes_per_s=why, read_now_bytes_per_s=why)


def _bytes_each(threads: int, cache_bytes: int, free_bytes: int) -> int:
    wanted = min(CACHES_OVER * cache_bytes or MOST_BYTES, MOST_BYTES, int(free_bytes * SHARE_OF_FREE))
    each = min(max(wanted // threads, LEAST_BYTES_EACH), MOST_BYTES_EACH)
    if each * threads > free_bytes * SHARE_OF_FREE:
        raise LookError(f"too little free memory to measure: {free_bytes // MIB} MiB")
    return each // PIECE_BYTES * PIECE_BYTES


def parse_ram_bandwidth(answer: Any, cache_bytes: int) -> Memory:
    """The measurement as facts; the source says where they are to be taken with care. LookError where it is none."""
    reading = convert_answer(answer, Reading, "the memory measurement is not valid")
    source = f"memchr over {reading.buffer_bytes // MIB} MiB, {reading.threads} threads"
    if reading.at_once < reading.threads:
        source += f" of which {reading.at_once} ran at once (other processes held the rest)"
    if not cache_bytes:
        source += ", caches of unknown size"
    elif reading.buffer_bytes < 2 * cache_bytes:
        source += f", caches of {cache_bytes // MIB} MiB may have served some reads"
    origin = measured_fact if reading.at_once == reading.threads else estimated_fact
    return Memory(
        read_bytes_per_s=origin(reading.together, source),
        read_one_core_bytes_per_s=measured_fact(reading.one_core, source),
        read_now_bytes_per_s=measured_fact(reading.now, source),
    )


def reading_of(scan: Scan, bytes_each: int) -> Reading:
    """The three figures that a scan holds."""
    threads = len(scan.together)
    one_core = len(scan.alone) * PIECE_BYTES / max(sum(piece.cpu_s for piece in scan.alone), 1e-9)
    pieces = [piece for thread in scan.together for piece in thread]
    wall_s = max(piece.end_s for piece in pieces) - min(piece.start_s for piece in pieces)
    # The level with most threads that lasted long enough to count; if none did, the one that lasted longest
    found = levels(pieces)
    long = [level for level in found if level.seconds >= LONG_ENOUGH_S]
    level = long[-1] if long else max(found, key=lambda level: level.seconds, default=Level(0, 0.0, 0.0))
    together = level.bytes_per_s
    if level.threads not in (0, threads) and one_core > 0:  # carried on by the same power of the number of threads
        gain = level.bytes_per_s / one_core
        power = math.log(gain) / math.log(level.threads) if level.threads > 1 and gain > 0 else 1.0
        together *= math.pow(threads / level.threads, min(max(power, 0.0), 1.0))
    return Reading(
        threads=threads,
        buffer_bytes=threads * bytes_each,
        one_core=one_core,
        together=together,
        at_once=level.threads,
        now=len(pieces) * PIECE_BYTES / max(wall_s, 1e-9),
    )


def levels(pieces: Iterable[Piece]) -> list[Level]:
    """For each number of threads: how long that many ran at once, and the bytes they read."""
    steps = []
    for start, end, cpu in pieces:
        if 0 < end - start <= BREAK * cpu:
            rate = PIECE_BYTES / (end - start)
            steps += [(start, 1, rate), (end, -1, -rate)]
    seconds, read = defaultdict[int, float](float), defaultdict[int, float](float)
    running, rate_now, since = 0, 0.0, 0.0
    for moment, change, rate in sorted(steps):
        seconds[running] += moment - since
        read[running] += rate_now * (moment - since)
        running, rate_now, since = running + change, rate_now + rate, moment
    return [Level(count, seconds[count], read[count]) for count in sorted(seconds) if count]
