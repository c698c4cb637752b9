"""The file that `--config` names: flags of the command line as YAML, one `name: value` a line.

A flag on the command line beats the file; a switch that is false there is not given at all.
"""

import re
from collections.abc import Sequence

from unslow.look.command_line import Setting
from unslow.look.processes import Process
from unslow.look.serving.arguments import Flags
from unslow.look.system import LookError
from unslow.look.system.door import read_text

_LARGEST_BYTES = 64 * 1024
_MOST_LINES = 500
_LINE = re.compile(r"([A-Za-z][\w-]{0,60}) ?: {0,8}(\S.{0,500}?)?(?: {1,40}#.{0,200})?")
_QUOTES = "\"'"


def config_path(command: Sequence[str]) -> str:
    """The file that a command line names; empty where it names none."""
    for at, word in enumerate(command):
        if word == "--config":
            return command[at + 1] if at + 1 < len(command) else ""
        if word.startswith("--config="):
            return word.partition("=")[2]
    return ""


def read_config(process: Process, flags: Flags, path: str) -> dict[str, Setting] | None:
    """The settings in the file, by name; None where it can't be read."""
    for root in process.roots():
        try:
            return parse_config(read_text(process.system, f"{root}{path}", _LARGEST_BYTES), flags, path)
        except LookError:
            continue
    return None


def parse_config(text: str, flags: Flags, path: str) -> dict[str, Setting]:
    """The settings in the text of a file; what is no plain line of a flag is left out."""
    given: dict[str, Setting] = {}
    name = path.rpartition("/")[2]
    for line in text.split("\n", _MOST_LINES)[:_MOST_LINES]:
        found = _LINE.fullmatch(line.rstrip())
        words = _words(found[1], (found[2] or "").strip(_QUOTES)) if found else []
        for setting, (value, _) in flags.settings(["", *words], {}).items():
            secret = flags.flags[setting].secret
            given[setting] = Setting(value, name if secret else f"{name}: {line.strip()[:300]}")
    return given


def _words(name: str, value: str) -> list[str]:
    """A line as it would stand on the command line."""
    flag = f"--{name.replace('_', '-')}"
    if value.lower() in ("true", "false"):
        return [flag] if value.lower() == "true" else []
    return [flag, value] if value else []
