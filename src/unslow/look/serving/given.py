"""Settings as facts: the number, word or switch that was written, or what it means that nobody wrote one."""

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import msgspec

from unslow.facts.units import GIB
from unslow.facts.values import LARGEST_COUNT, Fact, Known, estimated, failed, not_found, reported
from unslow.look.command_line import Setting
from unslow.look.serving.arguments import Flags

_HUMAN = re.compile(r"(\d{1,15})(?:\.(\d{1,6}))?([kmgKMG]?)")
_SCALES = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "K": 2**10, "M": 2**20, "G": 2**30}
_MOST_BYTES = 2**60
_FREE = ("", "auto", "none", "null")


class Given(NamedTuple):
    """The settings that were given, and whether everything that could have given one was seen."""

    program: str
    flags: Flags
    settings: Mapping[str, Setting]
    complete: bool

    def missing(self, name: str, default: Any = None) -> Fact[Any]:
        """What it means that nobody gave a setting."""
        flag = self.flags.flags[name].spellings[0]
        if not self.complete:
            return failed(f"{flag} is not on the command line, and the environment could not be read")
        if default is not None:
            return estimated(default, f"default of {self.program}: no {flag}")
        return not_found(f"{flag} was not given")

    def number(self, name: str, default: int | None = None) -> Fact[int]:
        """A count, such as 8192, 8k or 8K; nought, less, and `auto` leave the choice to the program."""
        setting = self.settings.get(name)
        if setting is None:
            return self.missing(name, default)
        if setting.value.lower() in _FREE or setting.value.startswith("-"):
            return self._free(setting)
        value = human_count(setting.value)
        if value is None:
            return failed(f"{setting.source}: {setting.value[:40]!r} is not a number")
        return reported(value, setting.source) if value else self._free(setting)

    def truth(self, name: str, *, default: bool | None = None) -> Fact[bool]:
        """On or off."""
        setting = self.settings.get(name)
        if setting is None:
            return self.missing(name, default)
        return reported(setting.value.lower() in ("true", "1", "on", "yes"), setting.source)

    def untruth(self, name: str, *, default: bool | None = None) -> Fact[bool]:
        """Off where the flag is given, as of `--disable-something`."""
        fact = self.truth(name)
        if isinstance(fact, Known):
            return reported(not fact.value, fact.source)
        return self.missing(name, default)

    def text(self, name: str, default: str | None = None) -> Fact[str]:
        """As it was written; `auto` leaves the choice to the program."""
        setting = self.settings.get(name)
        if setting is None:
            return self.missing(name, default)
        return self._free(setting) if setting.value.lower() in _FREE else reported(setting.value, setting.source)

    def share(self, name: str, default: float | None = None) -> Fact[float]:
        """A share of one."""
        setting = self.settings.get(name)
        if setting is None:
            return self.missing(name, default)
        if re.fullmatch(r"0?\.\d{1,9}|1(?:\.0{0,9})?", setting.value):
            return reported(float(setting.value), setting.source)
        return failed(f"{setting.source}: {setting.value[:40]!r} is not a share of one")

    def gibibytes(self, name: str, default: int | None = None) -> Fact[int]:
        """A size given in GiB, in bytes."""
        setting = self.settings.get(name)
        if setting is None:
            return self.missing(name, default)
        if re.fullmatch(r"\d{1,7}(?:\.\d{1,9})?", setting.value):
            return reported(min(round(float(setting.value) * GIB), _MOST_BYTES), setting.source)
        return failed(f"{setting.source}: {setting.value[:40]!r} is not a size")

    def within(self, name: str, *keys: str) -> Fact[Any]:
        """The first of these keys in a setting that is a JSON object."""
        setting = self.settings.get(name)
        if setting is None:
            return self.missing(name)
        try:
            data = msgspec.json.decode(setting.value, type=dict[str, Any])
        except (msgspec.MsgspecError, RecursionError, UnicodeError):
            return failed(f"{setting.source}: not a JSON object")
        found = next((data[key] for key in keys if isinstance(data.get(key), str | int)), None)
        return not_found(f"{setting.source} has no {keys[0]}") if found is None else reported(found, setting.source)

    def _free(self, setting: Setting) -> Fact[Any]:
        return not_found(f"{setting.source} lets {self.program} choose")


def human_count(text: str) -> int | None:
    """A whole number as people write it; None for anything else."""
    found = _HUMAN.fullmatch(text.strip())
    if not found:
        return None
    value = float(f"{found[1]}.{found[2] or 0}") * _SCALES[found[3]] if found[2] else int(found[1]) * _SCALES[found[3]]
    return int(value) if value < LARGEST_COUNT else None
