"""A drop-in of systemd with another command line: the unit itself is never touched.

As in systemd.service(5), "Command lines", and systemd.syntax(7): quotes and a few escapes, `%` for specifiers, `$` for
variables, prefixes before the program. Words that stay are written as the unit writes them, so that a variable with a
key in it stays a variable.
"""

import re
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

from unslow.act.command_words import Meaning, NotUnderstoodError, Variables, Word, all_fit, check_sure
from unslow.look.command_writer.starters import in_unit

NAME, LAST_NAME = "90-unslow.conf", "zz-unslow.conf"
HEAD = "# Written by `unslow apply`; `unslow undo` reverts it."
_SETTING = re.compile(r"[ \t]*([A-Za-z]+)[ \t]*=[ \t]*(.*)", re.DOTALL)
_PREFIX = re.compile(r"[-:+!|]*")
_VARIABLE = re.compile(r"\$\{[A-Za-z_]\w*\}|\$[A-Za-z_]\w*")
_ALONE = re.compile(r"[\"']?\$[A-Za-z_]\w*[\"']?")
"""A variable that is a word of its own and stands without braces is split at its blanks, also in quotes."""
_ESCAPES = {"\\": "\\", '"': '"', "'": "'", "s": " ", "t": "\t", "n": "\n"}
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


class UnitFile(NamedTuple):
    """A file of a unit: the unit itself, or a drop-in."""

    path: str
    text: str


class ExecStart(NamedTuple):
    """The one command of a service: what stands before the program, the line, and its words."""

    prefix: str
    line: str
    words: tuple[Word, ...]


def drop_in(
    files: Sequence[UnitFile], old: Sequence[str], new: Sequence[str], environment: Variables, ours: str = ""
) -> str:
    """The text of the drop-in; `ours` is the one that is there already. NotUnderstoodError unless the unit is clear."""
    command = _command(files, old, new) if list(old) != list(new) or "ExecStart" in dict(service_settings(ours)) else ()
    if any(_CONTROL.search(f"{name}{value}") for name, value in environment.items()):
        raise NotUnderstoodError("a variable with a control character")
    given = [f"Environment={in_unit(f'{n}={v}', always=True)}" for n, v in environment.items() if v is not None]
    variables = [*given, *(f"UnsetEnvironment={name}" for name, value in environment.items() if value is None)]
    kept = []  # variables of an earlier change that this one does not speak of
    for name, value in service_settings(ours):
        if name in ("Environment", "UnsetEnvironment") and value.strip('"').partition("=")[0] not in environment:
            kept.append(f"{name}={value}")
    return "\n".join([HEAD, "[Service]", *kept, *variables, *command]) + "\n"


def _command(files: Sequence[UnitFile], old: Sequence[str], new: Sequence[str]) -> tuple[str, str]:
    start = exec_start(files)
    if not all_fit(start.words, old):
        raise NotUnderstoodError("its ExecStart is not the running command line")
    check_sure(start.words, old, new)
    raw = [start.line[word.start : word.end] for word in start.words]
    dollars = "$" if ":" in start.prefix else "$$"
    words: list[str] = []
    for kind, first, last, begin, end in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind != "equal" and any(_CONTROL.search(word) for word in new[begin:end]):
            raise NotUnderstoodError("a word with a control character")
        words += raw[first:last] if kind == "equal" else [in_unit(word, dollars=dollars) for word in new[begin:end]]
    line = " ".join(words)
    if not all_fit(words_of(line, variables=":" not in start.prefix), new):
        raise NotUnderstoodError("the new ExecStart would not parse as intended")
    return "ExecStart=", f"ExecStart={start.prefix}{line}"


def drop_in_name(files: Sequence[UnitFile], environment: Variables, *, command: bool) -> str:
    """A name that comes after every drop-in that would override it; NotUnderstoodError where there is none."""
    rivals = []
    for file in files[1:]:
        settings = service_settings(file.text)
        values = [value for name, value in settings if name.endswith("Environment")]
        named = {value.strip("\"'").partition("=")[0] for value in values}
        name = file.path.rpartition("/")[2]
        runs = command and "ExecStart" in dict(settings)
        if name not in (NAME, LAST_NAME) and (runs or named & environment.keys()):
            rivals.append(name)
    for name in (NAME, LAST_NAME):
        if all(rival < name for rival in rivals):
            return name
    raise NotUnderstoodError(f"{max(rivals)} would override it")


def exec_start(files: Sequence[UnitFile]) -> ExecStart:
    """The command line that holds after all files in their order; NotUnderstoodError unless it is one."""
    lines: list[str] = []
    for file in files:
        for name, value in service_settings(file.text):
            if name == "ExecStart":
                lines = [*lines, value] if value else []
    if len(lines) != 1:
        raise NotUnderstoodError(f"the unit has {len(lines)} ExecStart lines")
    prefix = (_PREFIX.match(lines[0]) or [""])[0]
    line = lines[0][len(prefix) :]
    if line.startswith("@"):
        raise NotUnderstoodError("its ExecStart renames the program (@)")
    return ExecStart(prefix, line, words_of(line, variables=":" not in prefix))


def service_settings(text: str) -> list[tuple[str, str]]:
    """The settings of [Service] in their order; lines that end in a backslash go on."""
    found, section, whole = [], "", ""
    for line in text.splitlines():
        if line.lstrip().startswith(("#", ";")):
            continue
        whole += line
        if (len(whole) - len(whole.rstrip("\\"))) % 2:  # two of them stand for one
            whole = f"{whole[:-1]} "
            continue
        if whole.strip().startswith("["):
            section = whole.strip()
        elif section == "[Service]" and (match := _SETTING.fullmatch(whole)):
            found.append((match[1], match[2].strip()))
        whole = ""
    return found


def words_of(line: str, *, variables: bool = True) -> tuple[Word, ...]:
    """The words of a command line as systemd splits it."""
    words, at = [], 0
    while at < len(line):
        if line[at] in " \t":
            at += 1
            continue
        word = _word(line, at, variables=variables)
        if word.value == ";" and not word.pattern and line[word.start] == ";":
            raise NotUnderstoodError("its ExecStart has several commands")
        words.append(word)
        at = word.end
    return tuple(words)


def _word(line: str, at: int, *, variables: bool) -> Word:
    start, quote, meaning = at, "", Meaning()
    while at < len(line) and (quote or line[at] not in " \t"):
        sign = line[at]
        if sign == quote:
            quote, at = "", at + 1
        elif sign in "'\"" and not quote:
            quote, at = sign, at + 1
        elif sign == "\\":
            letter = line[at + 1 : at + 2]
            if letter not in _ESCAPES:
                raise NotUnderstoodError(f"the escape {line[at : at + 2]!r}")
            meaning.add(_ESCAPES[letter])
            at = at + 2
        elif (sign == "%" or (sign == "$" and variables)) and line[at + 1 : at + 2] == sign:
            meaning.add(sign)  # doubled, it stands for itself
            at += 2
        elif sign == "%":  # a specifier
            meaning.add_unknown()
            at += 2
        elif sign == "$" and variables and (variable := _VARIABLE.match(line, at)):
            meaning.add_unknown()
            at = variable.end()
        else:
            meaning.add(sign)
            at += 1
    if quote:
        raise NotUnderstoodError("an unclosed quote")
    word = meaning.word(start, at)
    return word._replace(splits=word.pattern is not None and _ALONE.fullmatch(line[start:at]) is not None)
