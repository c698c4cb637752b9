"""What llama-server says of itself: the flags that this very build has, whatever its number."""

import re
from collections.abc import Mapping, Sequence

from unslow.facts.runtime import Runtime
from unslow.facts.values import Known
from unslow.look.paths import name_of
from unslow.look.system import LookError, System

_FLAG = re.compile(r"(-{1,2}[A-Za-z][\w.-]{0,60})(,\s*)?")
_REMOVED = "argument has been removed"
_TIMEOUT_S = 15.0  # a build for CUDA looks for its devices first
_LONGEST = 2**20  # of the text: it is about 60 kB
_SERVERS = re.compile(r"llama-server[\w.-]{0,40}|llama(?:\.exe)?|server(?:\.exe)?")
_FEWEST = 50  # flags: a text with fewer is not the help


def read_own_options(system: System, runtime: Runtime) -> Mapping[str, str]:
    """The flags of the very program that a server of this machine runs; none where that is not there to ask."""
    pid, boxed = runtime.pid.value_or(0), runtime.container.value_or("")
    if not pid or boxed:
        return {}
    try:
        program = system.read_link(f"/proc/{pid}/exe")
    except LookError:
        return {}
    if not _SERVERS.fullmatch(name_of(program)):
        return {}
    return read_options(system, program, _subcommand(runtime))


def _subcommand(runtime: Runtime) -> str:
    """The word by which a program that is many in one serves."""
    words = runtime.command.value[1:2] if isinstance(runtime.command, Known) else []
    return next((word for word in words if word in ("serve", "server")), "")


def read_options(system: System, program: str, subcommand: str = "") -> Mapping[str, str]:
    """The flags of a program that a user runs or names, by its own help; none where it can't be asked."""
    for asked, words, options in _ASKED:
        if asked is system and words == (program, subcommand):
            return options
    found = _read(system, [program, *([subcommand] if subcommand else []), "--help"])
    _ASKED.append((system, (program, subcommand), found))
    del _ASKED[:-_MOST_KEPT]
    return found


_ASKED: list[tuple[System, tuple[str, str], Mapping[str, str]]] = []
"""Every program is asked once in a run."""
_MOST_KEPT = 8


def _read(system: System, words: Sequence[str]) -> Mapping[str, str]:
    try:
        said = system.run(words, _TIMEOUT_S)
    except LookError:
        return {}
    options = parse_help((said.stdout or said.stderr)[:_LONGEST])
    return options if len(options) >= _FEWEST else {}


def parse_help(text: str) -> dict[str, str]:
    """Every flag with its part of the text; those that are only there to say that they are gone are left out."""
    entries: list[list[str]] = []
    for line in text.splitlines():
        if line.startswith("-") and _FLAG.match(line) and not line.startswith("---"):
            entries.append([line])
        elif entries and line.startswith(" "):
            entries[-1].append(line)
    return {flag: "\n".join(lines) for lines in entries if not _is_removed(lines) for flag in _spellings(lines[0])}


def _is_removed(lines: Sequence[str]) -> bool:
    return _REMOVED in " ".join(" ".join(lines).split())


def _spellings(line: str) -> list[str]:
    """The flags at the start of a line, up to the first that no comma follows."""
    found, at = [], 0
    while match := _FLAG.match(line, at):
        found.append(match[1])
        at = match.end()
        if not match[2]:
            break
    return found
