"""The `command` of one service of a compose file, edited in place; every other byte stays as it was.

No YAML is written anew: the few forms in which people write a command are read, and anything else is not understood.
"""

import json
import re
from collections.abc import Sequence
from typing import NamedTuple

from unslow.act import command_words
from unslow.act.command_words import NotUnderstoodError, Shape, Word, all_fit
from unslow.facts.commands import compose_quoted

VARIABLE = re.compile(r"\$(?:[A-Za-z_]\w*|\{[A-Za-z_]\w*(?::?[-?+][^}$]*)?\})")
_QUOTED = re.compile(r"'(?:[^'\n]|'')*'|\"(?:[^\"\\\n]|\\.)*\"")
_OPENING = re.compile(r"(?:^|[-?:,\[{]|[&!][^ ]{0,64})[ ]{0,64}(?=[\"'])")
"""What may stand before a quote that begins a value; in the middle of a plain one it is a sign like any other."""
_PLAIN_END = re.compile(r"(?<![ \t])[ \t]+#|$", re.MULTILINE)
_KEY = re.compile(r"( *)([\w.-]+|\"[^\"\\]+\"|'[^']+')[ ]*:(?=[ \n]|$)")
_BLOCK_START = re.compile(r"(?:^|[ ])[|>][-+0-9]*[ ]*(?s:#.*)?$")
_BLOCK = re.compile(r"[|>][-+]?[ ]*(?:#.*)?")
_TAME = re.compile(r"[\w@%+=:,./-]+")  # What needs no quotes in a command that is one string
_STRANGE = re.compile(r"[\\'\"`;|&<>()#{}\[\]*?!~]")


class Line(NamedTuple):
    """A line of a file, where it starts, and how far in its text stands; -1 of one without any."""

    start: int
    text: str
    indent: int


class Command(NamedTuple):
    """The command of a service: its words, and how they are set apart."""

    words: tuple[Word, ...]
    shape: Shape


def edited_compose(text: str, service: str, old: Sequence[str], new: Sequence[str]) -> str:
    """The file with another command for a service; NotUnderstoodError where that is not certain.

    The words of the file are the whole command line that runs, or all but its first: an image names the program.
    """
    command = command_of(text, service)
    skipped = len(old) - len(command.words)
    if skipped not in (0, 1) or not all_fit(command.words, old[skipped:]):
        raise NotUnderstoodError("its command is not the running one")
    if skipped and command.words[0].splits:
        raise NotUnderstoodError("its command begins with a variable, which may expand to the program or several words")
    if list(old[:skipped]) != list(new[:skipped]):
        raise NotUnderstoodError("it would start another program")
    command_words.check_sure(command.words, old[skipped:], new[skipped:])
    after = command_words.rewritten(text, old[skipped:], new[skipped:], command.shape)
    if not all_fit(command_of(after, service).words, new[skipped:]):
        raise NotUnderstoodError("the edited command would not parse as intended")
    return after


def services(text: str) -> list[str]:
    """The names of all services."""
    _, lines = _section(_lines(text), "services", 0)
    return [_key(line) for line in lines if line.indent == _inner(lines) and _key(line)]


def command_of(text: str, service: str) -> Command:
    """The words of the command of a service."""
    if "\t" in text or "\r" in text or re.search(r"^(---|\.\.\.|%)", text.lstrip("-\n"), re.MULTILINE):
        raise NotUnderstoodError("tabs, several documents or other line endings")
    block = -1  # the indent of a key with a text under its `|` or `>`, which is no YAML and may have anything in it
    for line in _lines(text):
        if line.indent >= 0 and not 0 <= block < line.indent:
            check_quotes(line.text)
            block = line.indent if _BLOCK_START.search(line.text) else -1
    _, lines = _section(_lines(text), "services", 0)
    _, lines = _section(lines, service, _inner(lines))
    key, lines = _section(lines, "command", _inner(lines))
    value = key.text.partition(":")[2]
    at = key.start + len(key.text) - len(value.lstrip(" "))
    value = value.strip(" ")
    rows = [line for line in lines if line.indent >= 0]
    if not value or value.startswith("#"):
        return _list_command(text, rows)
    if value.startswith("["):
        return _flow(text, at)
    if _BLOCK.fullmatch(value):
        return _string(text, [(row.start + row.indent, row.start + len(row.text)) for row in rows])
    if rows:
        raise NotUnderstoodError("a command over several lines")
    return _string(text, [scalar_at(text, at)])


def _lines(text: str) -> list[Line]:
    found, at = [], 0
    for raw in text.splitlines(keepends=True):
        line = raw.rstrip("\n")
        bare = line.lstrip(" ")
        found.append(Line(at, line, -1 if not bare or bare.startswith("#") else len(line) - len(bare)))
        at += len(raw)
    return found


def _inner(lines: Sequence[Line]) -> int:
    return next((line.indent for line in lines if line.indent >= 0), -1)


def _section(lines: list[Line], name: str, indent: int) -> tuple[Line, list[Line]]:
    """A key and the lines under it: from the one after it to the next that stands no further in."""
    keys = [i for i, line in enumerate(lines) if line.indent == indent and _key(line) == name]
    if len(keys) != 1:
        raise NotUnderstoodError(f"{'no' if not keys else 'more than one'} {name!r} of its own")
    first = last = keys[0] + 1
    # the dashes of a list may stand right below its key
    while last < len(lines) and (
        not 0 <= lines[last].indent <= indent
        or (lines[last].indent == indent and lines[last].text.startswith("- ", indent))
    ):
        last += 1
    return lines[first - 1], lines[first:last]


def _key(line: Line) -> str:
    found = _KEY.match(line.text)
    return found[2].strip("\"'") if found else ""


def _list_command(text: str, rows: Sequence[Line]) -> Command:
    """A word on each line, after a dash."""
    words = []
    for row in rows:
        if row.indent != rows[0].indent or not row.text[row.indent :].startswith("- "):
            raise NotUnderstoodError("a list that contains more than plain words")
        value = row.text[row.indent + 2 :].lstrip(" ")
        words.append(element(text, *scalar_at(text, row.start + len(row.text) - len(value))))
    if not words:
        raise NotUnderstoodError("an empty command")
    dash, ends = f"{' ' * rows[0].indent}- ", [row.start + len(row.text) for row in rows]
    list_shape = Shape(
        lambda word, number: f"\n{dash}{compose_quoted(word)}" if number >= 0 else f"{dash}{compose_quoted(word)}\n",
        cut=lambda first, last: [(rows[number].start, ends[number] + 1) for number in range(first, last)],
        place=lambda number: ends[number] if number >= 0 else rows[0].start,
    )
    return Command(tuple(words), list_shape)


def _flow(text: str, at: int) -> Command:
    """Words in brackets, on one line or several."""
    words, position = [], at + 1
    while True:
        position = _past_blanks(text, position)
        if position >= len(text):
            raise NotUnderstoodError("an unclosed bracket")
        if text[position] == "]":
            break
        if text[position] in "#,[{":
            raise NotUnderstoodError("a list that contains more than plain words")
        start, end = scalar_at(text, position, ",]")
        words.append(element(text, start, end))
        position = _past_blanks(text, end)
        if text[position : position + 1] == ",":
            position += 1
    if not words or text[position + 1 :].partition("\n")[0].strip(" ").partition("#")[0]:
        raise NotUnderstoodError("an empty command, or text after it")
    flow_shape = command_words.in_a_row(
        words, lambda word, number: f", {compose_quoted(word)}" if number >= 0 else f"{compose_quoted(word)}, "
    )
    return Command(tuple(words), flow_shape)


def _past_blanks(text: str, at: int) -> int:
    while text[at : at + 1] in (" ", "\n") and at < len(text):
        at += 1
    return at


def _string(text: str, parts: Sequence[tuple[int, int]]) -> Command:
    """A command that is one text, split at its blanks; nothing in it may be quoted."""
    words = []
    for start, end in parts:
        if text[start : start + 1] in ("'", '"'):
            start, end = start + 1, end - 1  # noqa: PLW2901 (without its quotes)
        if _STRANGE.search(VARIABLE.sub("", text[start:end])):
            raise NotUnderstoodError("quotes or special characters in its command")
        words += [
            with_variables(m[0], start + m.start(), start + m.end(), splits=True)
            for m in re.finditer(r"[^ \n]+", text[start:end])
        ]
    if not words:
        raise NotUnderstoodError("an empty command")
    return Command(tuple(words), command_words.spaced_words(text, words, _tame))


def _tame(word: str) -> str:
    if not _TAME.fullmatch(word):
        raise NotUnderstoodError(f"{word!r} would need quotes in its command")
    return word


def scalar_at(text: str, at: int, ends: str = "") -> tuple[int, int]:
    """Where a value starts and ends, its quotes too."""
    sign = text[at : at + 1]
    if sign in ("'", '"'):
        found = _QUOTED.match(text, at)
        if not found:
            raise NotUnderstoodError("an unclosed quote")
        return at, found.end()
    if not sign or sign in "&*!|>%@`[]{},?#":
        raise NotUnderstoodError(f"a value that starts with {sign!r}")
    line = text[at : text.find("\n", at) % (len(text) + 1)]
    stop = min([len(line), *(line.find(end) for end in ends if end in line)])
    value = _PLAIN_END.split(line[:stop], maxsplit=1)[0].rstrip(" ")
    if ": " in value or value.endswith(":"):
        raise NotUnderstoodError("a list that contains more than plain words")
    return at, at + len(value)


def element(text: str, start: int, end: int) -> Word:
    """One word of a list, with variables as compose reads them."""
    raw = text[start:end]
    if raw.startswith("'"):
        value = raw[1:-1].replace("''", "'")
    elif raw.startswith('"'):
        try:
            value = json.loads(raw)
        except ValueError as error:
            raise NotUnderstoodError(f"the quoting of {raw[:40]}") from error
    else:
        value = raw
    return with_variables(value, start, end)


def with_variables(value: str, start: int, end: int, *, splits: bool = False) -> Word:
    """A word in which compose fills in variables; two dollars are one. In a command of one text they are split then."""
    meaning, at = command_words.Meaning(), 0
    while at < len(value):
        if value[at : at + 2] == "$$":
            meaning.add("$")
            at += 2
        elif value[at] == "$":
            found = VARIABLE.match(value, at)
            if not found:
                raise NotUnderstoodError(f"the variable in {value[:40]!r}")
            meaning.add_unknown(splits=splits)
            at = found.end()
        else:
            meaning.add(value[at])
            at += 1
    return meaning.word(start, end)


def check_quotes(line: str) -> None:
    """NotUnderstoodError where a quoted value of a line is not closed in it: what follows may look like anything."""
    line, at = line.lstrip(" "), 0
    while found := _OPENING.search(line, at):
        before = line[at : found.start()]
        if before.startswith("#") or " #" in before:  # the rest is a comment
            return
        closed = _QUOTED.match(line, found.end())
        if not closed:
            raise NotUnderstoodError("a quote not closed on its line")
        at = closed.end()
