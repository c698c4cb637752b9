"""Settings as values: what was written, read as the number, word or switch that it means."""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from unslow.facts.units import MIB
from unslow.facts.values import Fact, Known, estimated, failed, not_found, reported
from unslow.look.command_line import Setting
from unslow.look.llama_server.flags import FLAGS, OFF, ON

_MOST_DIGITS = 12
_MOST_PARTS = 256


def number(text: str) -> int | None:
    """A whole number of a sane length; None for anything else."""
    digits = text.strip().removeprefix("-")
    return int(text) if digits.isdecimal() and digits.isascii() and len(digits) <= _MOST_DIGITS else None


class Told(NamedTuple):
    """The settings that were given, and whether everything that could have given one was seen."""

    settings: Mapping[str, Setting]
    complete: bool

    def missing(self, name: str, default: Any = None) -> Fact[Any]:
        """What it means that nobody gave a setting."""
        flag = FLAGS[name].spellings[0]
        if not self.complete:
            return failed(f"{flag} is not on the command line, and the environment could not be read")
        if default is not None:
            return estimated(default, f"default of llama.cpp: no {flag}")
        return not_found(f"{flag} was not given")

    def whole(self, name: str, default: int | None = None) -> Fact[int]:
        """Any whole number."""
        setting = self.settings.get(name)
        if setting is None:
            return self.missing(name, default)
        value = number(setting.value)
        return _no_number(setting) if value is None else reported(value, setting.source)

    def natural(self, name: str, default: int | None = None) -> Fact[int]:
        """A whole number; less than nought leaves the choice to llama.cpp."""
        fact = self.whole(name, default)
        chosen = isinstance(fact, Known) and fact.value < 0
        return not_found(f"{self.settings[name].source} lets llama.cpp choose") if chosen else fact

    def positive(self, name: str, default: int | None = None) -> Fact[int]:
        """A whole number; nought and less leave the choice to llama.cpp."""
        fact = self.whole(name, default)
        chosen = isinstance(fact, Known) and fact.value <= 0
        return not_found(f"{self.settings[name].source} lets llama.cpp choose") if chosen else fact

    def truth(self, name: str, *, default: bool | None = None) -> Fact[bool]:
        """On or off; any other word leaves the choice to llama.cpp."""
        setting = self.settings.get(name)
        if setting is None:
            return self.missing(name, default)
        if setting.value in (*ON, *OFF):
            return reported(setting.value in ON, setting.source)
        return not_found(f"{setting.source} lets llama.cpp choose")

    def text(self, name: str, default: str | None = None) -> Fact[str]:
        """As it was written."""
        setting = self.settings.get(name)
        return reported(setting.value, setting.source) if setting else self.missing(name, default)

    def mebibytes(self, name: str) -> Fact[int]:
        """A size given in MiB, in bytes: the largest where each device has its own; less than nought has no end."""
        setting = self.settings.get(name)
        if setting is None:
            return self.missing(name)
        known = [n for part in setting.value.split(",", _MOST_PARTS) if (n := number(part)) is not None]
        if not known:
            return failed(f"{setting.source}: not a size in MiB")
        limit = max(known)
        return reported(limit * MIB, setting.source) if limit >= 0 else not_found(f"{setting.source}: no limit")

    def numbers(self, name: str) -> Fact[list[float]]:
        """Proportions such as 3,1."""
        setting = self.settings.get(name)
        if setting is None:
            return self.missing(name)
        try:
            found = [float(part) for part in setting.value.replace("/", ",").split(",", _MOST_PARTS)]
        except ValueError:
            found = [math.nan]
        sane = all(0 <= part < 1e9 for part in found)  # noqa: PLR2004 (a share, however it is written)
        return reported(found, setting.source) if sane else failed(f"{setting.source}: not a list of numbers")


def _no_number(setting: Setting) -> Fact[int]:
    return failed(f"{setting.source}: {setting.value!r} is not a number")
