"""Single values of a compose file: where they end, and what they mean."""

import json
import re

from unslow.act.edits.words import Meaning, NotUnderstoodError, Word

VARIABLE = re.compile(r"\$(?:[A-Za-z_]\w*|\{[A-Za-z_]\w*(?::?[-?+][^}$]*)?\})")
_QUOTED = re.compile(r"'(?:[^'\n]|'')*'|\"(?:[^\"\\\n]|\\.)*\"")
_OPENING = re.compile(r"(?:^|[-?:,\[{]|[&!][^ ]{0,64})[ ]{0,64}(?=[\"'])")
"""What may stand before a quote that begins a value; in the middle of a plain one it is a sign like any other."""
_PLAIN_END = re.compile(r"(?<![ \t])[ \t]+#|$", re.MULTILINE)


def check_quotes(line: str) -> None:
    """NotUnderstoodError where a quoted value of a line is not closed in it: what follows may look like anything."""
    line, at = line.lstrip(" "), 0
    while found := _OPENING.search(line, at):
        if _commented(line[at : found.start()]):
            return
        closed = _QUOTED.match(line, found.end())
        if not closed:
            raise NotUnderstoodError("a quote that is not closed in its line")
        at = closed.end()


def _commented(text: str) -> bool:
    return text.startswith("#") or " #" in text


def scalar_at(text: str, at: int, ends: str = "") -> tuple[int, int]:
    """Where a value starts and ends, its quotes too."""
    sign = text[at : at + 1]
    if sign in ("'", '"'):
        found = _QUOTED.match(text, at)
        if not found:
            raise NotUnderstoodError("a quote that is not closed")
        return at, found.end()
    if not sign or sign in "&*!|>%@`[]{},?#":
        raise NotUnderstoodError(f"a value that starts with {sign!r}")
    line = text[at : text.find("\n", at) % (len(text) + 1)]
    stop = min([len(line), *(line.find(end) for end in ends if end in line)])
    value = _PLAIN_END.split(line[:stop], maxsplit=1)[0].rstrip(" ")
    if ": " in value or value.endswith(":"):
        raise NotUnderstoodError("a list that is more than words")
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
            raise NotUnderstoodError(f"the quotes of {raw[:40]}") from error
    else:
        value = raw
    return with_variables(value, start, end)


def with_variables(value: str, start: int, end: int, *, splits: bool = False) -> Word:
    """A word in which compose fills in variables; two dollars are one. In a command of one text they are split then."""
    meaning, at = Meaning(), 0
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
