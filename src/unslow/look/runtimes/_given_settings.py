"""The settings of a program as facts: those that were given, and what it means that nobody gave one."""

import math
import re
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol, TypeVar

import msgspec

from unslow.facts.values import GIB, LARGEST_COUNT, MIB, Absence, Fact, Known, estimated, failed, not_found, reported
from unslow.look.command_line import Setting
from unslow.look.gguf_server_flags import OFF, ON

T = TypeVar("T")
_MOST_DIGITS = 12
_MOST_PARTS = 256
_HUMAN = re.compile(r"(\d{1,15})(?:\.(\d{1,6}))?([kmgKMG]?)")
_SCALES = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "K": 2**10, "M": 2**20, "G": 2**30}
_SHARE, _SIZE = re.compile(r"0?\.\d{1,9}|1(?:\.0{0,9})?"), re.compile(r"\d{1,7}(?:\.\d{1,9})?")
_MOST_BYTES = 2**60
_FREE = ("", "auto", "none", "null")


class Spellings(Protocol):
    """How a setting is spelled, the first way being the usual one."""

    @property
    def spellings(self) -> tuple[str, ...]: ...


class GivenSettings(NamedTuple):
    """The settings that were given, and whether everything that could have given one was seen."""

    program: str
    flags: Mapping[str, Spellings]
    settings: Mapping[str, Setting]
    complete: bool

    def missing(self, name: str, default: Any = None) -> Fact[Any]:
        """What it means that nobody gave a setting."""
        flag = self.flags[name].spellings[0]
        if not self.complete:
            return failed(f"{flag} is not on the command line, and the environment could not be read")
        if default is not None:
            return estimated(default, f"default of {self.program}: no {flag}")
        return not_found(f"{flag} was not given")

    def whole(self, name: str, default: int | None = None) -> Fact[int]:
        """Any whole number."""
        return self._parsed(name, whole_number, "a number", default)

    def natural(self, name: str, default: int | None = None, *, least: int = 0) -> Fact[int]:
        """A whole number; less than `least` leaves the choice to the program."""
        fact = self.whole(name, default)
        return self._free(self.settings[name]) if isinstance(fact, Known) and fact.value < least else fact

    def positive(self, name: str, default: int | None = None) -> Fact[int]:
        """A whole number; nought and less leave the choice to the program."""
        return self.natural(name, default, least=1)

    def number(self, name: str, default: int | None = None) -> Fact[int]:
        """A count, such as 8192, 8k or 8K; nought, less, and `auto` leave the choice to the program."""
        setting = self.settings.get(name)
        if setting and (setting.value.lower() in _FREE or setting.value.startswith("-")):
            return self._free(setting)
        fact = self._parsed(name, human_count, "a number", default)
        return self._free(setting) if setting and fact.value_or(None) == 0 else fact

    def numbers(self, name: str) -> Fact[list[float]]:
        """Proportions such as 3,1."""
        if not (setting := self.settings.get(name)):
            return self.missing(name)
        try:
            found = [float(part) for part in setting.value.replace("/", ",").split(",", _MOST_PARTS)]
        except ValueError:
            found = [math.nan]
        sane = all(0 <= part < 1e9 for part in found)  # noqa: PLR2004 (a share, however it is written)
        return reported(found, setting.source) if sane else failed(f"{setting.source}: not a list of numbers")

    def truth(self, name: str, *, default: bool | None = None) -> Fact[bool]:
        """On or off; any other word leaves the choice to the program."""
        if not (setting := self.settings.get(name)):
            return self.missing(name, default)
        return reported(setting.value in ON, setting.source) if setting.value in (*ON, *OFF) else self._free(setting)

    def untruth(self, name: str, *, default: bool) -> Fact[bool]:
        """Off where the flag is given, as of `--disable-something`."""
        fact = self.truth(name)
        return reported(not fact.value, fact.source) if isinstance(fact, Known) else self.missing(name, default)

    def text(self, name: str, default: str | None = None) -> Fact[str]:
        """As it was written."""
        setting = self.settings.get(name)
        return reported(setting.value, setting.source) if setting else self.missing(name, default)

    def word(self, name: str) -> Fact[str]:
        """As it was written; `auto` leaves the choice to the program."""
        setting = self.settings.get(name)
        return self._free(setting) if setting and setting.value.lower() in _FREE else self.text(name)

    def share(self, name: str, default: float | None = None) -> Fact[float]:
        """A share of one."""
        return self._parsed(name, lambda t: float(t) if _SHARE.fullmatch(t) else None, "a share of one", default)

    def gibibytes(self, name: str, default: int | None = None) -> Fact[int]:
        """A size given in GiB, in bytes."""

        def parse(text: str) -> int | None:
            return min(round(float(text) * GIB), _MOST_BYTES) if _SIZE.fullmatch(text) else None

        return self._parsed(name, parse, "a size", default)

    def mebibytes(self, name: str) -> Fact[int]:
        """A size given in MiB, in bytes: the largest where each device has its own; less than nought has no end."""
        if not (setting := self.settings.get(name)):
            return self.missing(name)
        known = [n for part in setting.value.split(",", _MOST_PARTS) if (n := whole_number(part)) is not None]
        if not known:
            return failed(f"{setting.source}: not a size in MiB")
        limit = max(known)
        return reported(limit * MIB, setting.source) if limit >= 0 else not_found(f"{setting.source}: no limit")

    def within(self, name: str, *keys: str) -> Fact[Any]:
        """The first of these keys in a setting that is a JSON object."""
        if not (setting := self.settings.get(name)):
            return self.missing(name)
        try:
            data = msgspec.json.decode(setting.value, type=dict[str, Any])
        except (msgspec.MsgspecError, RecursionError, UnicodeError):
            return failed(f"{setting.source}: not a JSON object")
        found = next((data[key] for key in keys if isinstance(data.get(key), str | int)), None)
        return not_found(f"{setting.source} has no {keys[0]}") if found is None else reported(found, setting.source)

    def _parsed(self, name: str, parse: Callable[[str], T | None], kind: str, default: T | None) -> Fact[T]:
        setting = self.settings.get(name)
        if setting is None:
            return self.missing(name, default)
        value = parse(setting.value)
        wrong = failed(f"{setting.source}: {setting.value[:40]!r} is not {kind}")
        return wrong if value is None else reported(value, setting.source)

    def _free(self, setting: Setting) -> Fact[Any]:
        return not_found(f"{setting.source} lets {self.program} choose")


def is_not_given(fact: Fact[Any]) -> bool:
    """Whether everything that could have given a setting was seen, and nothing did."""
    return not isinstance(fact, Known) and fact.absence is Absence.NOT_FOUND


def whole_number(text: str) -> int | None:
    """A whole number of a sane length; None for anything else."""
    digits = text.strip().removeprefix("-")
    return int(text) if digits.isdecimal() and digits.isascii() and len(digits) <= _MOST_DIGITS else None


def human_count(text: str) -> int | None:
    """A whole number as people write it; None for anything else."""
    found = _HUMAN.fullmatch(text.strip())
    if not found:
        return None
    value = float(f"{found[1]}.{found[2] or 0}") * _SCALES[found[3]] if found[2] else int(found[1]) * _SCALES[found[3]]
    return int(value) if value < LARGEST_COUNT else None
