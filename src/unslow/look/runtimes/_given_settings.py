"""The settings of a program as facts: those that were given, and what a missing one means."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

import msgspec

from unslow.facts.values import (
    GIB,
    LARGEST_COUNT,
    MIB,
    Absence,
    Fact,
    Known,
    estimated_fact,
    failed_fact,
    not_found,
    reported_fact,
)
from unslow.look.command_line import UNSET, Flag, Flags, Setting
from unslow.look.gguf_server_flags import OFF, ON
from unslow.look.processes import Process
from unslow.look.running_server import read_in_roots
from unslow.look.system import read_text
from unslow.look.system.http import is_port, reachable_host

T = TypeVar("T")
_MOST_DIGITS = 12
_MOST_PARTS = 256
_HUMAN = re.compile(r"(\d{1,15})(?:\.(\d{1,6}))?([kmgKMG]?)")
_SCALES = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "K": 2**10, "M": 2**20, "G": 2**30}
_SHARE, _SIZE = re.compile(r"0?\.\d{1,9}|1(?:\.0{0,9})?"), re.compile(r"\d{1,7}(?:\.\d{1,9})?")
_MOST_BYTES = 2**60
_FREE = ("", "auto", "none", "null")
_CONFIG = Flags({"config": Flag(("--config",))})
_LARGEST_CONFIG_BYTES = 64 * 1024
_MOST_CONFIG_LINES = 500
_CONFIG_LINE = re.compile(r"([A-Za-z][\w-]{0,60}) ?: {0,8}(\S.{0,500}?)?(?: {1,40}#.{0,200})?")


class GivenSettings(NamedTuple):
    """The settings that were given, and whether everything that could have given one was seen."""

    program: str
    flags: Mapping[str, Flag]
    settings: Mapping[str, Setting]
    complete: bool

    def missing(self, name: str, default: Any = None) -> Fact[Any]:
        """What a missing setting means."""
        flag = self.flags[name].spellings[0]
        if not self.complete:
            return failed_fact(f"{flag} is not on the command line, and the environment could not be read")
        if default is not None:
            return estimated_fact(default, f"default of {self.program}: no {flag}")
        return not_found(f"{flag} was not given")

    def integer(self, name: str, default: int | None = None) -> Fact[int]:
        """Any whole number."""
        return self._parse_setting(name, whole_number, "a number", default)

    def natural(self, name: str, default: int | None = None, *, least: int = 0) -> Fact[int]:
        """A whole number; less than `least` leaves the choice to the program."""
        fact = self.integer(name, default)
        return self._free(self.settings[name]) if isinstance(fact, Known) and fact.value < least else fact

    def positive(self, name: str, default: int | None = None) -> Fact[int]:
        """A whole number; zero and less leave the choice to the program."""
        return self.natural(name, default, least=1)

    def number(self, name: str, default: int | None = None) -> Fact[int]:
        """A count, such as 8192, 8k or 8K; zero, less, and `auto` leave the choice to the program."""
        setting = self.settings.get(name)
        if setting and (setting.value.lower() in _FREE or setting.value.startswith("-")):
            return self._free(setting)
        fact = self._parse_setting(name, human_count, "a number", default)
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
        return reported_fact(found, setting.source) if sane else failed_fact(f"{setting.source}: not a list of numbers")

    def truth(self, name: str, *, default: bool | None = None) -> Fact[bool]:
        """On or off; any other word leaves the choice to the program."""
        if not (setting := self.settings.get(name)):
            return self.missing(name, default)
        known = setting.value in (*ON, *OFF)
        return reported_fact(setting.value in ON, setting.source) if known else self._free(setting)

    def untruth(self, name: str, *, default: bool) -> Fact[bool]:
        """Off where the flag is given, as of `--disable-something`."""
        fact = self.truth(name)
        return reported_fact(not fact.value, fact.source) if isinstance(fact, Known) else self.missing(name, default)

    def text(self, name: str, default: str | None = None) -> Fact[str]:
        """As it was written."""
        setting = self.settings.get(name)
        return reported_fact(setting.value, setting.source) if setting else self.missing(name, default)

    def word(self, name: str) -> Fact[str]:
        """As it was written; `auto` leaves the choice to the program."""
        setting = self.settings.get(name)
        return self._free(setting) if setting and setting.value.lower() in _FREE else self.text(name)

    def share(self, name: str, default: float | None = None) -> Fact[float]:
        """A share of one."""
        return self._parse_setting(name, lambda t: float(t) if _SHARE.fullmatch(t) else None, "a share of one", default)

    def gibibytes(self, name: str, default: int | None = None) -> Fact[int]:
        """A size given in GiB, in bytes."""
        return self._parse_setting(
            name, lambda t: min(round(float(t) * GIB), _MOST_BYTES) if _SIZE.fullmatch(t) else None, "a size", default
        )

    def mebibytes(self, name: str) -> Fact[int]:
        """A size given in MiB, in bytes: the largest where each device has its own; a negative one means no limit."""
        if not (setting := self.settings.get(name)):
            return self.missing(name)
        known = [n for part in setting.value.split(",", _MOST_PARTS) if (n := whole_number(part)) is not None]
        if not known:
            return failed_fact(f"{setting.source}: not a size in MiB")
        limit = max(known)
        return reported_fact(limit * MIB, setting.source) if limit >= 0 else not_found(f"{setting.source}: no limit")

    def within(self, name: str, *keys: str) -> Fact[Any]:
        """The first of these keys in a setting that is a JSON object."""
        if not (setting := self.settings.get(name)):
            return self.missing(name)
        try:
            data = msgspec.json.decode(setting.value, type=dict[str, Any])
        except (msgspec.MsgspecError, RecursionError, UnicodeError):
            return failed_fact(f"{setting.source}: not a JSON object")
        found = next((data[key] for key in keys if isinstance(data.get(key), str | int)), None)
        missing = not_found(f"{setting.source} has no {keys[0]}")
        return missing if found is None else reported_fact(found, setting.source)

    def _parse_setting(self, name: str, parse: Callable[[str], T | None], kind: str, default: T | None) -> Fact[T]:
        setting = self.settings.get(name)
        if setting is None:
            return self.missing(name, default)
        value = parse(setting.value)
        wrong = failed_fact(f"{setting.source}: {setting.value[:40]!r} is not {kind}")
        return wrong if value is None else reported_fact(value, setting.source)

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


_SHARED: dict[str, tuple[str, Callable[[GivenSettings, str], Fact[Any]]]] = {
    "context_set": ("context", GivenSettings.number),
    "kv_type_k": ("kv_type", GivenSettings.word),
    "kv_type_v": ("kv_type", GivenSettings.word),
    "gpu_memory_fraction": ("memory_fraction", GivenSettings.share),
    "cpu_offload_bytes": ("cpu_offload", partial(GivenSettings.gibibytes, default=0)),
    "max_sequences": ("sequences", GivenSettings.number),
    "max_batched_tokens": ("batched_tokens", GivenSettings.number),
    "tensor_parallel": ("tensor_parallel", partial(GivenSettings.number, default=1)),
    "pipeline_parallel": ("pipeline_parallel", partial(GivenSettings.number, default=1)),
    "device_set": ("device", GivenSettings.word),
    "quantization": ("quantization", GivenSettings.word),
    "weights_type": ("dtype", GivenSettings.word),
    "draft_tokens": ("draft_tokens", GivenSettings.number),
}
"""The settings that serving engines have alike: the fact, the name of the setting, and how its value is read."""


def shared_settings(given: GivenSettings) -> dict[str, Any]:
    """The facts of those that the program has."""
    return {fact: read(given, name) for fact, (name, read) in _SHARED.items() if name in given.flags}


def address_of(given: Mapping[str, Setting], usual_port: str) -> str:
    """Where a server listens, seen from this machine."""
    host, port = (given.get(name, UNSET).value for name in ("host", "port"))
    scheme = "https" if "ssl" in given else "http"
    return f"{scheme}://{reachable_host(host)}:{port if is_port(port) else usual_port}"


def config_path(command: Sequence[str]) -> str:
    """The file of settings that `--config` names; empty where a command line names none."""
    return next((flag.value for flag in _CONFIG.find_flags(["", *command])), "")


def read_config(process: Process, flags: Flags, path: str) -> dict[str, Setting] | None:
    """The settings in the file, by name; None where it cannot be read."""
    system, most = process.system, _LARGEST_CONFIG_BYTES
    text = read_in_roots(process.roots(), lambda root: read_text(system, f"{root}{path}", most))
    return None if text is None else parse_config(text, flags, path)


def parse_config(text: str, flags: Flags, path: str) -> dict[str, Setting]:
    """The settings in the text of such a file, flags as YAML, one `name: value` a line; other lines are left out.

    A flag on the command line beats the file; a switch that is false there is not given at all.
    """
    given: dict[str, Setting] = {}
    name = path.rpartition("/")[2]
    for line in text.split("\n", _MOST_CONFIG_LINES)[:_MOST_CONFIG_LINES]:
        found = _CONFIG_LINE.fullmatch(line.rstrip())
        if not found:
            continue
        written = (found[2] or "").strip("\"'")
        flag = [] if written.lower() in ("", "false") else [f"--{found[1].replace('_', '-')}"]
        words = [*flag, *([written] if flag and written.lower() != "true" else [])]
        for setting, (value, *_) in flags.settings(["", *words], {}).items():
            given[setting] = Setting(value, name if flags[setting].secret else f"{name}: {line.strip()[:300]}")
    return given
