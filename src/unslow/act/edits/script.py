"""A shell script that starts the server: only its command line is edited, and only where it is the one that runs."""

import re
import shlex
from collections.abc import Mapping, Sequence

from unslow.act.edits.shell import simple_commands
from unslow.act.edits.shell_lines import line_starts
from unslow.act.edits.sure import check_sure
from unslow.act.edits.words import NotUnderstoodError, Word, all_fit, rewritten, spaced

_BEFORE = ("exec", "nohup", "setsid", "env", "command", "time", "do", "then", "else")
"""What may stand before a program without changing its words."""
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_LONGEST = 64 * 1024
"""Letters of a script that starts a server; a longer one is something else."""


def edited_script(
    text: str, old: Sequence[str], new: Sequence[str], environment: Mapping[str, str | None] | None = None
) -> str:
    """The script with the new command line; NotUnderstoodError where the old one is not in it exactly once."""
    words = _command(text, old)
    if any(text[word.end : word.end + 1] in ("<", ">") for word in words):
        raise NotUnderstoodError("a redirection without a blank before it, which would take a number for its own")
    check_sure(words, old, new)
    after = rewritten(text, old, new, spaced(text, words, shlex.quote))
    if environment:
        after = after[: words[0].start] + _with(environment) + after[words[0].start :]
    _check(after, new)
    return after


def _command(text: str, command: Sequence[str]) -> tuple[Word, ...]:
    if len(text) > _LONGEST:
        raise NotUnderstoodError("it is too long for a script that starts a server")
    if "<<" in text:
        raise NotUnderstoodError("it holds a text of its own (<<), in which a command may be no command")
    found = [words for start in line_starts(text) if (words := _fitting(text, start, command))]
    if len(found) == 1:
        return found[0]
    if not found and any(_fitting(text, start, command) for start in _all_starts(text)):
        raise NotUnderstoodError("the words that the server was started with stand only in a quoted text of it")
    if "\r\n" in text:
        raise NotUnderstoodError("its lines end as on Windows, and a shell takes that for a part of their last words")
    many = "several lines of it have" if found else "no line of it has"
    raise NotUnderstoodError(f"{many} the very words that the server was started with")


def _all_starts(text: str) -> list[int]:
    return [0, *(match.end() for match in re.finditer(r"\n", text))]


def _fitting(text: str, start: int, command: Sequence[str]) -> tuple[Word, ...]:
    """The words of the program on a line, where they are the command line that is looked for."""
    try:
        simples = simple_commands(text, start)
    except NotUnderstoodError:
        return ()
    for simple in simples:
        words = _own_words(simple.words)
        if words and all_fit(words, command):
            return words
    return ()


def _own_words(words: tuple[Word, ...]) -> tuple[Word, ...]:
    """The words from the program on."""
    at = 0
    while at < len(words) and (words[at].value in _BEFORE or _ASSIGNMENT.match(words[at].value)):
        at += 1
        while at + 1 < len(words) and words[at].value == "-u" and words[at - 1].value != "exec":
            at += 2  # of env: a variable that it takes away
    return words[at:]


def _with(environment: Mapping[str, str | None]) -> str:
    away = [word for name, value in environment.items() if value is None for word in ("-u", name)]
    given = [f"{name}={value}" for name, value in environment.items() if value is not None]
    return shlex.join(["env", *away, *given]) + " "


def _check(after: str, new: Sequence[str]) -> None:
    """Read again: what was written must be what was meant."""
    found = [words for start in line_starts(after) if (words := _fitting(after, start, new))]
    if len(found) != 1:
        raise NotUnderstoodError("the edited line does not read as it was meant")
