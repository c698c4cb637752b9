"""Looks at a reader of files while it reads one input after the other, and keeps those that it does not answer well.

Well is: an answer, or a LookError of one line; in bounded time; in bounded memory.
"""

import hashlib
import random
import resource
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from unslow.look.system import LookError

MOST_SECONDS = 2.0
"""Of processor time for one input."""
MOST_TRACED_BYTES = 64 * 1024**2
TRACED_EVERY = 50
MOST_EXTRA_BYTES = 256 * 1024**2
"""Of address space for the whole run: an allocation beyond it fails, and counts as a crash."""
LONGEST_REASON = 1000
KEPT = Path(__file__).parent / "kept"


class Target(NamedTuple):
    """A reader to be fuzzed."""

    name: str
    package: str
    """Whose branches guide the fuzzer."""
    read: Callable[[bytes], object]
    """Reads the bytes as a file; AssertionError where the answer contradicts itself."""
    made: Callable[[random.Random], bytes]
    """An input from dice, sound or not."""
    seeds: dict[str, bytes]


class Watch:
    """What was seen so far."""

    def __init__(self, target: Target) -> None:
        self._target, self._start = target, time.monotonic()
        self.inputs, self._answered, self._slowest_s, self._largest_bytes = 0, 0, 0.0, 0
        self._bad: set[str] = set()

    def look(self, data: bytes) -> None:
        """One input more."""
        traced = self.inputs % TRACED_EVERY == 0
        self.inputs += 1
        if traced:
            tracemalloc.start()
        start = time.process_time()
        if why := self._failure(data):
            self._keep(data, why)
        took = time.process_time() - start
        if traced:
            return self._measure(data)  # which takes many times as long
        self._slowest_s = max(self._slowest_s, took)
        return self._keep(data, "slow") if took > MOST_SECONDS else None

    def _failure(self, data: bytes) -> str:
        try:
            self._target.read(data)
        except LookError as error:
            return "" if 0 < len(error.why) < LONGEST_REASON and error.why.isprintable() else "unclear reason"
        except Exception as error:  # noqa: BLE001 (whatever it is, it is what is looked for)
            return type(error).__name__
        self._answered += 1
        return ""

    def _measure(self, data: bytes) -> None:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        self._largest_bytes = max(self._largest_bytes, peak)
        if peak > MOST_TRACED_BYTES:
            self._keep(data, "large")

    def _keep(self, data: bytes, why: str) -> None:
        path = KEPT / f"{self._target.name}-{why.replace(' ', '_')}-{hashlib.sha256(data).hexdigest()[:12]}"
        if path.name not in self._bad:
            self._bad.add(path.name)
            KEPT.mkdir(exist_ok=True)
            path.write_bytes(data)
            print(f"BAD: {path}", flush=True)

    def report(self) -> int:
        """Print the sums; the status tells whether all was well."""
        seconds, peak_kib = time.monotonic() - self._start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print(f"{self.inputs} inputs in {seconds:.0f} s, {self.inputs / seconds:.0f} a second")
        print(f"{self._answered} answered, {self.inputs - self._answered} not, {len(self._bad)} bad")
        print(
            f"slowest {self._slowest_s * 1e3:.0f} ms, largest {self._largest_bytes / 2**20:.1f} MiB, traced one in 50"
        )
        print(f"peak of the process {peak_kib / 1024:.0f} MiB", flush=True)
        return int(bool(self._bad))


def bound_memory() -> None:
    """From here on the process can't grow beyond a fixed bound."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + MOST_EXTRA_BYTES
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
