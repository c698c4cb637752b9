"""The memory of a process and of all its children, sampled from /proc while it works."""

import contextlib
import os
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

_EVERY_S = 0.25
"""Rarely: the kernel walks all pages of a process to tell, and that process waits for it."""


class Watched:
    """From the start of the block to its end; `most_bytes` is the largest sum at one moment."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.most_bytes = 0.0
        self.used_s = dict[int, float]()
        """Seconds of processors of each process, as they were last seen."""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def __enter__(self) -> Self:
        """Begin to look."""
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Look no more."""
        self._stop.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._stop.is_set():
            self.most_bytes = max(self.most_bytes, held_bytes(self.pid))
            for each in family(self.pid):
                with contextlib.suppress(OSError, IndexError):
                    self.used_s[each] = cpu_s(each)
            self._stop.wait(_EVERY_S)


def held_bytes(pid: int) -> float:
    """By it and its children; a page that several share is counted once in all (the kernel's Pss)."""
    return sum(_one(each) for each in family(pid))


def family(pid: int) -> list[int]:
    """It, its children and theirs."""
    found = [pid]
    for each in found:
        with contextlib.suppress(OSError):
            for listed in Path(f"/proc/{each}/task").glob("*/children"):
                found += [int(child) for child in listed.read_text().split()]
    return found


def peak_bytes(pid: int) -> float:
    """The most that a process ever held, by the kernel's own account: nothing is sampled for it."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(1024.0 * int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))


def cpu_s(pid: int) -> float:
    """Seconds of processors that a process used so far, without its children."""
    after = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(after[11]) + int(after[12])) / os.sysconf("SC_CLK_TCK")


def _one(pid: int) -> float:
    with contextlib.suppress(OSError, ValueError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return 1024.0 * int(line.split()[1])
    return 0.0
