"""Reads memory for a moment on many threads at once and notes how long each piece took.

The reading is done by the C library's `memchr`, looking for a byte that is not there. It is on every machine, it only
reads (copying would count each byte twice and fill caches with writes), it is written with the widest vectors the
processor has, so that memory and not the loop is the limit, and ctypes lets go of Python's lock while it runs. On an
idle machine with two cores it read 21 to 22 GB/s, and a plain loop in C (gcc -O3, AVX-512) 20 to 23.
"""

import ctypes
import mmap
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

from unslow.facts.units import MIB
from unslow.facts.values import Absence
from unslow.look.system import LookError

PIECE_BYTES = 2 * MIB  # 0.1 to 1 ms: shorter than a time slice, so that most pieces are read without a break
ALONE_S = 0.05
TOGETHER_S = 0.12
LONGEST_WAIT_S = 5.0
_COARSE = time.get_clock_info("thread_time").resolution > PIECE_BYTES / 1e12  # Windows counts in steps of 16 ms

Search = Callable[[int, int, int], int | None]


class Piece(NamedTuple):
    """One piece read: when, and for how long the thread really held a processor meanwhile."""

    start_s: float
    end_s: float
    cpu_s: float


class Scan(NamedTuple):
    """What one thread read while the others waited, and what each read while all did."""

    alone: list[Piece]
    together: list[list[Piece]]


def scan_memory(threads: int, bytes_each: int) -> Scan:
    """Fill a buffer for each thread (whole pieces), read one alone, then all at once; all is freed at the end."""
    search = _memchr()
    gate = threading.Barrier(threads)
    alone: list[Piece] = []
    together: list[list[Piece]] = [[] for _ in range(threads)]

    def work(number: int) -> None:
        _stay_on(number, threads)
        try:
            with _filled(bytes_each) as address:
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
        raise LookError("memory for the measurement could not be had, or its threads did not get to run")
    return Scan(alone, together)


def _stay_on(number: int, threads: int) -> None:
    """Give each thread a processor of its own where there is one for each; else a busy machine puts two on one."""
    if sys.platform == "linux":
        allowed = sorted(os.sched_getaffinity(0))
        if len(allowed) == threads:
            with suppress(OSError):
                os.sched_setaffinity(threading.get_native_id(), {allowed[number]})


def _memchr() -> Search:
    try:
        search = ctypes.CDLL("msvcrt" if sys.platform == "win32" else None).memchr
    except (OSError, AttributeError) as error:
        raise LookError("the C library has no memchr to read memory with", Absence.NOT_SUPPORTED) from error
    search.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]
    search.restype = ctypes.c_void_p
    return search


@contextmanager
def _filled(size: int) -> Iterator[int]:
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
    """Read round and round until the time is up."""
    begin = end = time.perf_counter()
    offset = 0
    while end - begin < seconds:
        start, cpu = time.perf_counter(), time.thread_time()
        search(address + offset, 0, PIECE_BYTES)
        held, end = time.thread_time() - cpu, time.perf_counter()
        offset = (offset + PIECE_BYTES) % size
        yield Piece(start, end, end - start if _COARSE else held)
