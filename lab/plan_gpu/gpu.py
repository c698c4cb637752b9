"""The GPU's memory as nvidia-smi tells it, and a stranger that leaves exactly so much of it free."""

import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

from lab.faults.fault import SkippedError
from lab.faults.strangers import stranger

MIB_PER_GIB = 1024
CLOSE_MIB = 24
"""Free memory that differs by less is the same: drivers give it out in pieces of 2 MiB, and keep a few."""
SETTLE_S = 4.0
"""An ended process gives its memory back within that; the row tells what was free."""
_ASK_S = 20


def asked(*words: str) -> str:
    """What nvidia-smi answers; nothing where there is none."""
    try:
        return subprocess.run(
            ["nvidia-smi", *words], capture_output=True, text=True, timeout=_ASK_S, check=False
        ).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""


def free_mib() -> int | None:
    """What is free on the first GPU."""
    words = asked("--query-gpu=memory.free", "--format=csv,noheader,nounits").split()
    return int(words[0]) if words and words[0].isdigit() else None


def used_mib(pid: int) -> int | None:
    """What a process holds there."""
    for line in asked("--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits").splitlines():
        process, _, amount = line.partition(",")
        if process.strip() == str(pid) and amount.strip().isdigit():
            return int(amount)
    return None


def settled(wanted_mib: int) -> int | None:
    """Free memory once what an ended process had is back, or patience ends."""
    end = time.monotonic() + SETTLE_S
    while (free := free_mib()) is not None and abs(free - wanted_mib) > CLOSE_MIB and time.monotonic() < end:
        time.sleep(0.1)
    return free


def steady() -> int | None:
    """Free memory once it no longer changes."""
    before, now = -1, free_mib()
    end = time.monotonic() + SETTLE_S
    while now is not None and now != before and time.monotonic() < end:
        time.sleep(0.2)
        before, now = now, free_mib()
    return now


class Holder:
    """Leaves so much free; what nvidia-smi counts differently from the driver is learned the first time."""

    def __init__(self, *, gpu: bool) -> None:
        self._gpu, self._off_mib = gpu, 0

    @contextmanager
    def leaving(self, gib: float) -> Iterator[int | None]:
        """The MiB that are free while the stranger is there; None without a GPU. SkippedError where it can't be had."""
        if not self._gpu:
            yield None
            return
        wanted, free = int(gib * MIB_PER_GIB), 0
        for _ in range(3):
            with stranger("leave", (wanted + self._off_mib) / MIB_PER_GIB, works=False):
                free = steady() or 0
                if abs(free - wanted) <= CLOSE_MIB:
                    yield free
                    return
            self._off_mib += wanted - free
            print(f"  {free} MiB were free, not {wanted}: once more", flush=True)
        raise SkippedError(f"the stranger leaves {free} MiB instead of {wanted}")

    def settle(self, gib: float) -> int | None:
        """Wait for the memory of the server before."""
        return settled(int(gib * MIB_PER_GIB)) if self._gpu else None
