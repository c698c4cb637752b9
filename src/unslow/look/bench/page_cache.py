"""The pages of a file that lie in memory: how many do, and letting go of them, for this file and no other.

Reading a file that the system keeps in memory says nothing of the disk. Linux lets anybody ask that clean pages of a
file be dropped; whether they are gone is looked up afterwards, since mapped pages stay.
"""

import ctypes
import mmap
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from io import FileIO

from unslow.facts.values import Absence
from unslow.look.processes import read_processes
from unslow.look.system import LookError, System, read_text

MOST_READ_BYTES = 2 * 1024**3
_PIECE_BYTES = 4 * 1024**2
_WINDOW_BYTES = 1024**3  # looked up at a time: a byte of memory for each page
_MAPS_LIMIT_BYTES = 16 * 1024**2
_PROT_READ, _MAP_SHARED = 1, 1  # bits of mmap(2), the same on every Linux


def read_cached_share(system: System, paths: Sequence[str]) -> float:
    """The share of these files that lies in memory."""
    share = system.ask(f"mincore {' '.join(paths)}", lambda: _cached_share(paths))
    if not isinstance(share, float) or not 0 <= share <= 1:
        raise LookError("mincore reported nothing")
    return share


def drop_pages(system: System, paths: Sequence[str]) -> None:
    """Have the system let go of these files' pages, as far as they are not in use."""
    system.ask(f"fadvise {' '.join(paths)}", lambda: _drop(paths))


def read_users(system: System, paths: Sequence[str]) -> list[int]:
    """The processes, of those whose maps this user may read, that have one of the files mapped."""
    names, pids = tuple(paths), []
    for process in read_processes(system):
        with suppress(LookError):
            if process.pid != os.getpid():
                text = read_text(system, f"/proc/{process.pid}/maps", _MAPS_LIMIT_BYTES)
                pids += [process.pid] if any(line.endswith(names) for line in text.splitlines()) else []
    return pids


def read_disk_speed(system: System, paths: Sequence[str], most_s: float) -> float:
    """Bytes a second that the disk gives when these files are read from their start, one after the other."""

    def measure() -> float:
        start, done = system.clock(), 0
        for path in paths:
            with _open_file(path) as file:
                while done < MOST_READ_BYTES and system.clock() - start < most_s:
                    if not (piece := file.read(_PIECE_BYTES)):
                        break
                    done += len(piece)
        return done / max(1e-9, system.clock() - start)

    speed = system.ask(f"sequential read of {' '.join(paths)}", measure)
    if not isinstance(speed, float) or speed <= 0:
        raise LookError("the files are empty")
    return speed


@contextmanager
def _open_file(path: str) -> Iterator[FileIO]:
    """The file; whatever the system refuses meanwhile is a LookError with its name."""
    try:
        with open(path, "rb", buffering=0) as file:
            yield file
    except OSError as error:
        raise LookError(f"{path}: {error.strerror or error}") from error


def _drop(paths: Sequence[str]) -> None:
    if sys.platform != "linux":
        raise LookError("this system does not let a program drop the pages of a file", Absence.NOT_SUPPORTED)
    for path in paths:
        with _open_file(path) as file:
            os.fsync(file.fileno())  # pages that are not on the disk yet would stay
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def _cached_share(paths: Sequence[str]) -> float:
    if sys.platform != "linux":
        raise LookError("only Linux reports which pages of a file are in memory", Absence.NOT_SUPPORTED)
    cached, pages = 0, 0
    for path in paths:
        with _open_file(path) as file:
            size = os.fstat(file.fileno()).st_size
            for start in range(0, size, _WINDOW_BYTES):
                part = _window(file.fileno(), start, min(_WINDOW_BYTES, size - start))
                cached, pages = cached + sum(part), pages + len(part)
    return cached / pages if pages else 0.0


def _window(descriptor: int, start: int, length: int) -> bytes:
    """A byte for each page of a part of the file: one where it lies in memory."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    size = ctypes.c_size_t(length)
    address = libc.mmap(None, size, _PROT_READ, _MAP_SHARED, descriptor, ctypes.c_long(start))
    if address in (None, ctypes.c_void_p(-1).value):
        raise OSError(ctypes.get_errno(), "can't be mapped")
    try:
        seen = (ctypes.c_ubyte * -(-length // mmap.PAGESIZE))()
        if libc.mincore(ctypes.c_void_p(address), size, seen):
            raise OSError(ctypes.get_errno(), "its pages can't be looked up")
        return bytes(seen)
    finally:
        libc.munmap(ctypes.c_void_p(address), size)
