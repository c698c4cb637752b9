"""Sensors of a device: its hwmon folder, whose files hold thousandths and millionths of the usual units."""

import re
from typing import Any

from unslow.facts.values import Absence, Fact, reported
from unslow.look.kernel.files import read_number, read_word
from unslow.look.system import LookError, System, unknown

MILLI = 1e-3
MICRO = 1e-6
_LABEL = re.compile(r"([a-z]+\d{1,2})_label")
_MOST_FILES = 512


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
        self.labels = {label: stem for stem, label in self._read_labels()}

    def _read_labels(self) -> list[tuple[str, str]]:
        """The sensors that have a name: ("temp2", "junction")."""
        found = []
        for stem in (match[1] for name in self._files if (match := _LABEL.fullmatch(name))):
            try:
                found.append((stem, read_word(self._system, f"{self.path}/{stem}_label")))
            except LookError:
                continue
        return found

    def has(self, name: str) -> bool:
        """Whether there is such a file."""
        return name in self._files

    def number(self, names: tuple[str, ...], scale: float) -> Fact[Any]:
        """The first of these files that holds a number, in the unit that `scale` turns it into."""
        error = self._missing or LookError(f"{self.path or 'hwmon'} has no {' or '.join(names)}", Absence.NOT_FOUND)
        for path in (f"{self.path}/{name}" for name in names if self.has(name)):
            try:
                return reported(round(read_number(self._system, path) * scale, 6), path)
            except LookError as failure:
                error = failure
        return unknown(error)

    def labelled(self, label: str, suffix: str, scale: float) -> Fact[Any]:
        """The same of the sensor with this label."""
        stem = self.labels.get(label)
        return self.number((f"{stem}_{suffix}",), scale) if stem else self.number((f"{label} {suffix}",), scale)


def read_sensors(system: System, device: str) -> Sensors:
    """The sensors of a device: the first folder below its own."""
    try:
        names = system.list_dir(f"{device}/hwmon")
    except LookError as error:
        return Sensors(system, "", error)
    return Sensors(system, f"{device}/hwmon/{names[0]}" if names else "")
