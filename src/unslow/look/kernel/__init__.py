"""The small text formats in which the Linux kernel answers: one value in a file of its own, and a device's sensors."""

import re
from contextlib import suppress
from typing import Any

from unslow.facts.values import Absence, Fact, reported_fact
from unslow.look.system import LookError, System, read_text, try_look, unknown

CPUINFO = "/proc/cpuinfo"
CPUINFO_LIMIT_BYTES = 16 * 1024**2  # 2 KB for each CPU
_WHOLE = re.compile(r"-?[0-9]{1,19}")
_KEY_AND_NUMBER = re.compile(r"([\w()./-]+):?[ \t]+(\d{1,18})\b")

MILLI = 1e-3
MICRO = 1e-6
_LABEL = re.compile(r"([a-z]+\d{1,2})_label")
_MOST_FILES = 512


def read_word(system: System, path: str) -> str:
    """The file's text without the blanks around it; LookError where it is empty."""
    word = read_text(system, path).strip().strip("\0")
    if not word:
        raise LookError(f"{path}: empty")
    return word


def read_number(system: System, path: str) -> int:
    """The file's whole number; LookError where it holds something else."""
    word = read_word(system, path)
    number = parse_whole(word)
    if number is None:
        raise LookError(f"{path}: {word[:40]!r} is not a whole number")
    return number


def parse_whole(word: str) -> int | None:
    """A whole number of as many digits as 64 bits can hold; None for anything else."""
    return int(word) if _WHOLE.fullmatch(word) else None


def is_there(system: System, path: str) -> bool:
    """Whether a small file is there and can be read."""
    return try_look(None, system.read_bytes, path) is not None


def parse_numbers(text: str) -> dict[str, int]:
    """Lines of a key and a whole number, with or without a colon, such as /proc/meminfo and cpu.stat."""
    matches = map(_KEY_AND_NUMBER.match, text.splitlines())
    return {match[1]: int(match[2]) for match in matches if match}


class Sensors:
    """One hwmon folder; without one, every question has the same answer: why."""

    def __init__(self, system: System, path: str, missing: LookError | None = None) -> None:
        self._system = system
        self._missing = missing
        self._files: list[str] = []
        self.path = path
        try:
            self._files = system.list_dir(path)[:_MOST_FILES] if path else []
        except LookError as error:
            self._missing = error
        self.labels: dict[str, str] = {}
        """The sensors that have a name: temp2 of junction."""
        for stem in (match[1] for name in self._files if (match := _LABEL.fullmatch(name))):
            with suppress(LookError):
                self.labels[read_word(system, f"{path}/{stem}_label")] = stem

    def has(self, name: str) -> bool:
        return name in self._files

    def number(self, names: tuple[str, ...], scale: float) -> Fact[Any]:
        """The first of these files that holds a number, in the unit that `scale` turns it into."""
        error = self._missing or LookError(f"{self.path or 'hwmon'} has no {' or '.join(names)}", Absence.NOT_FOUND)
        for path in (f"{self.path}/{name}" for name in names if self.has(name)):
            try:
                return reported_fact(round(read_number(self._system, path) * scale, 6), path)
            except LookError as failure:
                error = failure
        return unknown(error)

    def labelled_number(self, label: str, suffix: str, scale: float) -> Fact[Any]:
        stem = self.labels.get(label)
        return self.number((f"{stem}_{suffix}" if stem else f"{label} {suffix}",), scale)


def read_sensors(system: System, device: str) -> Sensors:
    """The sensors of a device: the first folder below its own."""
    try:
        names = system.list_dir(f"{device}/hwmon")
    except LookError as error:
        return Sensors(system, "", error)
    return Sensors(system, f"{device}/hwmon/{names[0]}" if names else "")
