"""Strangers on the GPU: processes that are not the server's, hold its memory, and may compute.

    python -m lab.faults.strangers leave 4            take all VRAM but 4 GiB, and do nothing
    python -m lab.faults.strangers hold 50            take 50 GiB
    python -m lab.faults.strangers leave 4 --work     and multiply matrices all the while (needs torch)

They say "ready" when they have what they want, and stay until they are killed.
"""

import argparse
import ctypes
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Literal

from lab.faults.fault import Playing, SkippedError

GIB = 1024**3
SIDE = 8192
"""Of the matrices that a working stranger multiplies: far larger than what fills a GPU."""

Kind = Literal["leave", "hold"]
Surrounding = Callable[[Playing], AbstractContextManager[object]]


def leaves(gib: float, *, works: bool = False) -> Surrounding:
    """A stranger that takes all VRAM but so much."""
    return lambda _: stranger("leave", gib, works=works)


def holds(gib: float, *, works: bool = False) -> Surrounding:
    """A stranger that takes so much VRAM."""
    return lambda _: stranger("hold", gib, works=works)


@contextmanager
def stranger(kind: Kind, gib: float, *, works: bool) -> Iterator[int]:
    """Its process id, once it has what it wants; SkippedError where it can't have it."""
    command = [sys.executable, "-m", "lab.faults.strangers", kind, str(gib), *(["--work"] if works else [])]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout
    assert process.stderr
    try:
        if not process.stdout.readline().startswith("ready"):
            process.kill()
            raise SkippedError(f"no stranger on the GPU: {(process.stderr.read().splitlines() or ['it ended'])[-1]}")
        yield process.pid
    finally:
        process.kill()
        process.communicate()


class Driver:
    """The CUDA driver's own calls: a process that only holds memory needs no framework and starts at once."""

    def __init__(self) -> None:
        self._cuda = ctypes.CDLL("libcuda.so.1")
        device, context = ctypes.c_int(), ctypes.c_void_p()
        self._call("cuInit", 0)
        self._call("cuDeviceGet", ctypes.byref(device), 0)
        self._call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self._call("cuCtxSetCurrent", context)

    def free_bytes(self) -> int:
        """What is left on the GPU."""
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        self._call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
        return free.value

    def take(self, count: int) -> None:
        """Allocate; OSError where the GPU has not that much."""
        self._call("cuMemAlloc_v2", ctypes.byref(ctypes.c_uint64()), ctypes.c_size_t(count))

    def _call(self, name: str, *arguments: Any) -> None:
        if code := getattr(self._cuda, name)(*arguments):
            raise OSError(f"{name} answers {code}")


def main() -> None:
    """Take, say so, and stay."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=("leave", "hold"))
    parser.add_argument("gib", type=float)
    parser.add_argument("--work", action="store_true")
    asked = parser.parse_args()
    work = _worker() if asked.work else None  # it comes first: what it takes is a part of what is held
    driver = Driver()
    held = int(asked.gib * GIB) if asked.kind == "hold" else driver.free_bytes() - int(asked.gib * GIB)
    if held > 0:
        driver.take(held)
    print("ready", held, flush=True)
    while True:
        work() if work else time.sleep(60)


def _worker() -> Callable[[], None]:
    """Some milliseconds of matrix products, done once already."""
    import torch  # noqa: PLC0415 (seconds to import, and only a stranger that works needs it)

    left = torch.randn(SIDE, SIDE, device="cuda", dtype=torch.bfloat16)

    def work() -> None:
        for _ in range(20):
            torch.mm(left, left)
        torch.cuda.synchronize()

    work()
    return work


if __name__ == "__main__":
    main()
