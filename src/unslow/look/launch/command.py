"""The command line that a user gives, as words: no shell reads it, so nothing of it is ever expanded or run but it."""

import os
import re
import shlex
import shutil
from collections.abc import Mapping
from typing import NamedTuple

from unslow.facts.errors import UserError
from unslow.look.launch.settings import program_of

LONGEST = 32_768
_VARIABLE = re.compile(r"[A-Za-z_]\w*=")
_BOXES = ("docker", "podman", "nerdctl", "kubectl", "ssh", "wsl", "wsl.exe", "systemctl", "snap", "flatpak")
_SHELL_WORDS = frozenset({"|", "||", "&", "&&", ";", ">", ">>", "2>", "2>&1", "<", "&>"})
_HOME = "~/"


class Command(NamedTuple):
    """A program with its arguments, and the variables that stand before it."""

    words: tuple[str, ...]
    variables: Mapping[str, str]


def parse_command(text: str) -> Command:
    """The words of a command line and the variables before them; UserError where it can't be started as it is."""
    words = _split(text)
    variables: dict[str, str] = {}
    while words and _VARIABLE.match(words[0]):
        name, _, value = words.pop(0).partition("=")
        variables[name] = value
    if not words:
        raise UserError("the command is empty", 'give it in quotes: --command "llama-server -m model.gguf"')
    if shell := next((word for word in words if word in _SHELL_WORDS), ""):
        hint = "leave it out; the output goes to a log that unslow reads"
        raise UserError(f"the command has {shell!r}, which only a shell understands; none is used here", hint)
    if words[0].rpartition("/")[2] in _BOXES:
        hint = "give the program itself, where it can be had outside"
        raise UserError(f"{words[0]} starts a server elsewhere, where unslow could not end it again", hint)
    program_of(words)
    return Command(tuple(words), variables)


def _split(text: str) -> list[str]:
    if len(text) > LONGEST or "\0" in text:
        raise UserError("that is no command line", f"it is longer than {LONGEST} characters, or has zero bytes")
    try:
        words = shlex.split(text.replace("\\\n", " "))
    except ValueError as error:
        raise UserError(f"the command can't be read: {str(error).lower()}", "is a quote missing?") from error
    return [_at_home(word) for word in words]


def _at_home(word: str) -> str:
    """A path that begins at home as a shell would read it, also behind a flag with an equals sign."""
    flag, equals, value = word.partition("=")
    if equals and value.startswith(_HOME):
        return f"{flag}={os.path.expanduser(value)}"  # noqa: PTH111 (a word, and no path in itself)
    return os.path.expanduser(word) if word.startswith(_HOME) else word  # noqa: PTH111 (the same)


def found_file(command: Command) -> str:
    """The file of the program that is to be started; UserError where there is none, or one that can't be run."""
    program = command.words[0]
    found = shutil.which(program, path=command.variables.get("PATH"))
    if found:
        return found
    if os.sep in program:
        why = "can't be run" if os.path.exists(program) else "is not there"  # noqa: PTH110 (given as a word)
        raise UserError(f"{program} {why}", "give the path of the server's program")
    raise UserError(f"{program} is not on the PATH", "give its whole path, or install it")
