"""A server that this program started: waited for until it answers, ended, and its last words."""

import re
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from http import HTTPStatus
from pathlib import Path
from typing import Any, Self

from unslow.look.system import LookError, System, try_look

LONGEST_LAST_WORDS = 300
_LLAMA_ERROR = re.compile(r"(?m)^\S{1,20} E (.+)$")
_TELLING = ("error", "exception", "failed", "fatal")
_NOISE = ("resource_tracker", "warnings.warn")

LOG_TAIL_BYTES = 65536
_LOOK_EVERY_S = 0.05

Waiting = Callable[[float], None]  # Hears how long it has taken so far


class Started(ABC):
    """It runs until `stop`; use it in a `with` block. Its log lies in a folder of its own, and lasts as long."""

    def __init__(self, process: "subprocess.Popen[str]", log: Path) -> None:
        self._process, self._folder, self.log_path = process, log.parent, str(log)

    @property
    def ended(self) -> bool:
        return self._process.poll() is not None

    @abstractmethod
    def stop(self) -> None:
        """End it, by force if it must be, and remove its log. May be called twice."""

    def __enter__(self) -> Self:
        """Nothing more: it runs already."""
        return self

    def __exit__(self, *_failure: object) -> None:
        """Stop."""
        self.stop()


def ended_within(process: "subprocess.Popen[Any]", seconds: float) -> None:
    """Wait for the end of a process, and make it end where that takes longer."""
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def silent_for(system: System, address: Callable[[], str]) -> Iterator[float]:
    """How long nothing has answered there, again and again until something does; "" is no address yet."""
    start = system.clock()
    while (
        not (url := address())
        or not (answer := try_look(None, system.request, "GET", url))
        or answer.status != HTTPStatus.OK
    ):
        yield system.clock() - start
        system.sleep(_LOOK_EVERY_S)


def read_last_words(system: System, log_path: str) -> str:
    """The line of its log that tells best why it ended."""
    try:
        return parse_last_words(system.read_tail(log_path, LOG_TAIL_BYTES).decode("utf-8", "replace"))
    except LookError as error:
        return error.why


def parse_last_words(text: str) -> str:
    """llama.cpp's first error line, which names the reason; else the last line that speaks of an error, or the last."""
    if first := _LLAMA_ERROR.search(text):
        return first[1].strip()[:LONGEST_LAST_WORDS]
    lines = [line.strip()[:LONGEST_LAST_WORDS] for line in text.splitlines() if line.strip()]
    small = [(line, line.casefold()) for line in lines]
    telling = [(line, words) for line, words in small if any(word in words for word in _TELLING)]
    errors = [line for line, words in telling if not any(word in words for word in _NOISE)]
    return (errors or lines or ["its log is empty"])[-1]
