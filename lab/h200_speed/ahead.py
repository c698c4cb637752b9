"""Models made up ahead of the runs that load them, by a few processes, in bounded room."""

import argparse
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from lab.h200_speed.models import file_bytes, named


class Ahead:
    """Makes each model once, in the order of first use, and deletes it after its last."""

    def __init__(self, uses: list[str], folder: Path, limits: argparse.Namespace) -> None:
        self._left = Counter(uses)
        self._waiting = list(dict.fromkeys(uses))
        self._bytes = {name: file_bytes(named(name)) for name in self._waiting}
        self._folder, self._most_bytes, self._makers = folder, limits.most_gb * 1e9, limits.makers
        self._making: dict[str, subprocess.Popen[bytes]] = {}
        self._held: set[str] = set()
        self._paused = False
        for name in [name for name in self._waiting if self.path(name).exists()]:
            self._waiting.remove(name)
            self._held.add(name)
        self._start()

    def path(self, name: str) -> Path:
        """Where the model lies, or will."""
        return self._folder / f"{name}.gguf"

    def wait(self, name: str, most_s: float) -> bool:
        """Until the model is there; False where it isn't in time, or can't be made."""
        until = time.monotonic() + most_s
        while not self.path(name).exists():
            self._start(name)
            failed = name in self._making and self._making[name].poll() not in (None, 0)
            if failed or time.monotonic() > until:
                return False
            time.sleep(0.05)
        self._start()
        return True

    def used(self, name: str) -> None:
        """One run of it is over."""
        self._left[name] -= 1
        if not self._left[name]:
            self.path(name).unlink(missing_ok=True)
            self._held.discard(name)
        self._start()

    def pause(self) -> None:
        """Stop the makers for a moment."""
        self._signal(signal.SIGSTOP)
        self._paused = True

    def go_on(self) -> None:
        """Let them work again."""
        if self._paused:
            self._signal(signal.SIGCONT)
        self._paused = False

    def stop(self) -> None:
        """End them."""
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        for process in self._making.values():
            if process.poll() is None:
                os.kill(process.pid, number)

    def _start(self, urgent: str = "") -> None:
        """As many makers as may work at once; an urgent model is made whatever room it takes."""
        self._making = {name: one for name, one in self._making.items() if one.poll() != 0}
        order = ([urgent] if urgent in self._waiting else []) + [n for n in self._waiting if n != urgent]
        for name in order:
            room = sum(self._bytes[n] for n in self._held) + self._bytes[name] <= self._most_bytes
            if len(self._making) >= self._makers or not (room or name == urgent):
                return
            words = [sys.executable, "-m", "lab.h200_speed.models", name, str(self.path(name))]
            self._making[name] = subprocess.Popen(words)
            self._waiting.remove(name)
            self._held.add(name)
