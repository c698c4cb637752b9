"""The words of a shell script: quotes, continuations, comments and plain variables; anything else is not understood."""

import re
from typing import NamedTuple

from unslow.act.edits.words import Meaning, NotUnderstoodError, Word

_VARIABLE = re.compile(r"\$(?:[A-Za-z_]\w*|\{[A-Za-z_]\w*(?::?[-=+?][^}\"'`$\\]*)?\})")
_ENDS = ";&|()<>"
_WILD = "*?[]{}~`!"
"""What a shell makes something else of where it stands without quotes."""


class Simple(NamedTuple):
    """One command of a line, without what redirects its output."""

    words: tuple[Word, ...]


class _Reader:
    def __init__(self, text: str, at: int) -> None:
        self.text, self.at = text, at

    def ahead(self, count: int = 1) -> str:
        return self.text[self.at : self.at + count]

    def skip_blanks(self) -> None:
        while self.ahead() in (" ", "\t") or self.ahead(2) == "\\\n":
            self.at += 2 if self.ahead() == "\\" else 1

    def word(self) -> Word:
        start, meaning = self.at, Meaning()
        while self.ahead() and self.ahead() not in f" \t\n{_ENDS}" and self.ahead(2) != "\\\n":
            self._part(meaning, start)
        return meaning.word(start, self.at)

    def _part(self, meaning: Meaning, start: int) -> None:
        sign = self.ahead()
        if sign == "'":
            end = self.text.find("'", self.at + 1)
            if end < 0:
                raise NotUnderstoodError("a quote that is not closed")
            meaning.add(self.text[self.at + 1 : end])
            self.at = end + 1
        elif sign == '"':
            self._quoted(meaning)
        elif sign == "\\":
            meaning.add(self.text[self.at + 1 : self.at + 2])
            self.at += 2
        elif sign == "$":
            self._variable(meaning, splits=True)
        elif sign in _WILD and not (sign == "!" or (sign == "~" and self.at != start)):
            raise NotUnderstoodError(f"{sign!r} without quotes")
        else:
            meaning.add(sign)
            self.at += 1

    def _quoted(self, meaning: Meaning) -> None:
        self.at += 1
        while (sign := self.ahead()) != '"':
            if not sign or sign == "`":
                raise NotUnderstoodError("a quote that is not closed, or a command in it")
            if sign == "$":
                self._variable(meaning)
            elif sign == "\\" and self.ahead(2)[1:] in '$`"\\\n':
                meaning.add("" if self.ahead(2) == "\\\n" else self.ahead(2)[1:])
                self.at += 2
            else:
                meaning.add(sign)
                self.at += 1
        self.at += 1

    def _variable(self, meaning: Meaning, *, splits: bool = False) -> None:
        found = _VARIABLE.match(self.text, self.at)
        if not found:
            raise NotUnderstoodError(f"{self.text[self.at : self.at + 12]!r}")
        meaning.add_unknown(splits=splits)
        self.at = found.end()


def simple_commands(text: str, at: int) -> list[Simple]:
    """The commands of the line that starts there, continued lines too, up to its end or its comment."""
    reader = _Reader(text, at)
    found: list[Simple] = []
    words: list[Word] = []
    while True:
        reader.skip_blanks()
        sign = reader.ahead()
        if not sign or sign in "\n#":
            break
        if sign in "<>" or (sign in "12&" and re.match(r"[12&]>", reader.ahead(2))):
            _skip_redirection(reader)
        elif sign in _ENDS:
            found.append(Simple(tuple(words)))
            words, reader.at = [], reader.at + 1
        else:
            words.append(reader.word())
    return [simple for simple in [*found, Simple(tuple(words))] if simple.words]


def _skip_redirection(reader: _Reader) -> None:
    """Where the output goes is none of the program's words."""
    found = re.compile(r"[12&]?(?:>>?|<)(?:&[12-])?").match(reader.text, reader.at)
    if not found or reader.ahead(2) == "<<":
        raise NotUnderstoodError("a redirection of a kind that is not known")
    reader.at = found.end()
    if not found[0].endswith(("&1", "&2", "&-")):
        reader.skip_blanks()
        reader.word()
