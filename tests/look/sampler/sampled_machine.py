"""A live machine made of dictionaries, whose time passes only when somebody sleeps."""

from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from doubles import FakeSystem

from unslow.facts.values import Absence
from unslow.look.system import LookError

STAT = "cpu  {0} 0 0 {1} 0 0 0 0 0 0\ncpu0 {0} 0 0 {1} 0 0 0 0 0 0\nintr 1 2 3\n"
PROCESS = "7 (a (strange) name) S 1 7 7 0 -1 0 0 0 {faults} 0 {ticks} 0 0 0 20 0 4 0 100 1000000 {pages} 0\n"


@dataclass
class LiveFake(FakeSystem):
    """Files that can be followed, and a clock that is moved by hand or by sleeping."""

    libraries: dict[str, Any] = field(default_factory=dict)
    time_s: float = 100.0
    _lock: Lock = field(default_factory=Lock)

    def live(self) -> "LiveFake":
        return self

    def clock(self) -> float:
        return self.time_s

    def sleep(self, seconds: float) -> None:
        with self._lock:
            self.time_s += seconds

    def cpu_s(self) -> float:
        return 0.0

    def follow(self, path: str, limit: int = 4096) -> "FollowedFake":
        self.read_bytes(path)
        return FollowedFake(lambda: self.read_bytes(path)[:limit])

    def library(self, name: str) -> Any:
        if name not in self.libraries:
            raise LookError(f"{name} is not installed", Absence.NOT_FOUND)
        return self.libraries[name]


@dataclass
class FollowedFake:
    read: Callable[[], bytes]
    closed: bool = False

    def __call__(self) -> bytes:
        return self.read()

    def close(self) -> None:
        self.closed = True
