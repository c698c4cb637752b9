"""Flags in the manner of Python's argparse, as serving engines have them: as settings, and settings as facts."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple

from unslow.facts.values import Fact
from unslow.look.command_line import COMMAND, ENVIRONMENT, Setting, Spelled, with_secrets_hidden
from unslow.look.processes import Process
from unslow.look.runtimes._given_settings import GivenSettings
from unslow.look.runtimes._process import read_in_roots
from unslow.look.system import read_text

_LONGEST_VALUE = 4096
_LARGEST_CONFIG_BYTES = 64 * 1024
_MOST_CONFIG_LINES = 500
_CONFIG_LINE = re.compile(r"([A-Za-z][\w-]{0,60}) ?: {0,8}(\S.{0,500}?)?(?: {1,40}#.{0,200})?")
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


class Flag(NamedTuple):
    """How a setting is spelled; a switch takes no value, and `--no-` before its name turns it off."""

    spellings: tuple[str, ...]
    variables: tuple[str, ...] = ()
    switch: bool = False
    secret: bool = False
    several: bool = False  # Whether it takes all words up to the next flag; the first of them is its value


def switch(*spellings: str) -> Flag:
    """A flag without a value."""
    return Flag(spellings, switch=True)


class Flags:
    """Every flag of one program.

    A flag on the command line beats its environment variable; the last of several counts; `--a_b` is `--a-b`.
    """

    def __init__(self, flags: Mapping[str, Flag]) -> None:
        self.flags = flags

    @cached_property
    def _by_spelling(self) -> dict[str, tuple[str, bool]]:
        found = {word: (name, True) for name, flag in self.flags.items() for word in flag.spellings}
        switches = ((n, w) for n, flag in self.flags.items() if flag.switch for w in flag.spellings)
        return found | {f"--no-{word[2:]}": (name, False) for name, word in switches if word.startswith("--")}

    def spellings(self) -> frozenset[str]:
        """Every word that is a flag."""
        return frozenset(self._by_spelling)

    def spelled(self, command: Sequence[str]) -> list[Spelled]:
        """The known flags of a command line, in order."""
        found, at = [], 1
        while at < len(command):
            word, equals, attached = command[at].partition("=")
            name, on = self._by_spelling.get(word.replace("_", "-") if word[:2] == "--" else word, ("", True))
            if not name:
                at += 1
                continue
            flag, end = self.flags[name], at + 1
            if flag.switch:
                value = "true" if (attached.lower() not in ("false", "0")) is on else "false"
            elif equals:
                value = attached
            else:
                value = command[end] if end < len(command) else ""
                end = min(at + 2, len(command))
                while flag.several and end < len(command) and not command[end].startswith("-"):
                    end += 1
            found.append(Spelled(name, at, end, value[:_LONGEST_VALUE]))
            at = end
        return found

    def settings(self, command: Sequence[str], environment: Mapping[str, str]) -> dict[str, Setting]:
        """Every setting that was given, by name."""
        variables = ((name, v) for name, flag in self.flags.items() for v in flag.variables if v in environment)
        given = {name: Setting(environment[v][:_LONGEST_VALUE], f"{ENVIRONMENT}: {v}") for name, v in variables}
        for name, start, end, value in self.spelled(command):
            secret = self.flags[name].secret
            given[name] = Setting(value, COMMAND if secret else f"{COMMAND}: {' '.join(command[start:end])[:300]}")
        return given

    def without_secrets(self, command: Sequence[str]) -> list[str]:
        """The command line as anybody may see it."""
        secrets = ((flag.start, flag.end) for flag in self.spelled(command) if self.flags[flag.name].secret)
        return with_secrets_hidden(command, secrets)

    def positional(self, command: Sequence[str]) -> Iterator[str]:
        """The words after the program that are neither a flag nor the value of a known one."""
        taken = {at for _, start, end, _ in self.spelled(command) for at in range(start, end)}
        for at, word in enumerate(command):
            unknown_flag = at > 0 and command[at - 1].startswith("-") and at - 1 not in taken
            if at > 0 and at not in taken and not word.startswith("-") and not unknown_flag:
                yield word


def shared_settings(given: GivenSettings) -> dict[str, Any]:
    """The facts of those that the program has."""
    return {fact: read(given, name) for fact, (name, read) in _SHARED.items() if name in given.flags}


def config_path(command: Sequence[str]) -> str:
    """The file of settings that `--config` names; empty where a command line names none."""
    for at, word in enumerate(command):
        if word == "--config":
            return command[at + 1] if at + 1 < len(command) else ""
        if word.startswith("--config="):
            return word.partition("=")[2]
    return ""


def read_config(process: Process, flags: Flags, path: str) -> dict[str, Setting] | None:
    """The settings in the file, by name; None where it can't be read."""
    text = read_in_roots(
        process.roots(), lambda root: read_text(process.system, f"{root}{path}", _LARGEST_CONFIG_BYTES)
    )
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
        for setting, (value, _) in flags.settings(["", *words], {}).items():
            secret = flags.flags[setting].secret
            given[setting] = Setting(value, name if secret else f"{name}: {line.strip()[:300]}")
    return given
