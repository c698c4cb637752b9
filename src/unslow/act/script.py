"""A shell script that starts the server: only its command line is edited, and only where it is the one that runs."""

import re
import shlex
from collections.abc import Mapping, Sequence

from unslow.act.command_words import Meaning, NotUnderstoodError, Word, all_fit, check_sure, rewritten, spaced_words

_BEFORE = ("exec", "nohup", "setsid", "env", "command", "time", "do", "then", "else")
"""What may stand before a program without changing its words."""
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_LONGEST = 64 * 1024  # Letters of a script that starts a server; a longer one is something else
_VARIABLE = re.compile(r"\$(?:[A-Za-z_]\w*|\{[A-Za-z_]\w*(?::?[-=+?][^}\"'`$\\]*)?\})")
_REDIRECTION = re.compile(r"[12&]?(?:>>?|<)(?:&[12-])?")
_ENDS = ";&|()<>"
_WILD = "*?[]{}~`!"  # What a shell makes something else of where it stands without quotes


def edited_script(
    text: str, old: Sequence[str], new: Sequence[str], environment: Mapping[str, str | None] | None = None
) -> str:
    """The script with the new command line; NotUnderstoodError where the old one is not in it exactly once."""
    words = _command(text, old)
    if any(text[word.end : word.end + 1] in ("<", ">") for word in words):
        raise NotUnderstoodError("a redirection directly after a word, where a number would be read as part of it")
    check_sure(words, old, new)
    after = rewritten(text, old, new, spaced_words(text, words, shlex.quote))
    if environment:
        away = [word for name, value in environment.items() if value is None for word in ("-u", name)]
        given = [f"{name}={value}" for name, value in environment.items() if value is not None]
        after = after[: words[0].start] + (shlex.join(["env", *away, *given]) + " ") + after[words[0].start :]
    if sum(bool(_fitting_words(after, start, new)) for start in _line_starts(after)) != 1:
        raise NotUnderstoodError("the edited line would not parse as intended")
    return after


def _command(text: str, command: Sequence[str]) -> tuple[Word, ...]:
    if len(text) > _LONGEST:
        raise NotUnderstoodError("it is too long for a start script")
    if "<<" in text:
        raise NotUnderstoodError("it contains a here-document (<<), whose lines may look like commands")
    found = [words for start in _line_starts(text) if (words := _fitting_words(text, start, command))]
    if len(found) == 1:
        return found[0]
    every_line = [0, *(match.end() for match in re.finditer(r"\n", text))]
    if not found and any(_fitting_words(text, start, command) for start in every_line):
        raise NotUnderstoodError("the server's command line appears only inside a quoted string")
    if "\r\n" in text:
        raise NotUnderstoodError("it has Windows line endings, which a shell treats as part of the last word")
    many = "several lines have" if found else "no line has"
    raise NotUnderstoodError(f"{many} exactly the server's command line")


def _fitting_words(text: str, start: int, command: Sequence[str]) -> tuple[Word, ...]:
    """The words of the program on a line, where they are the command line that is looked for."""
    try:
        commands = simple_commands(text, start)
    except NotUnderstoodError:
        return ()
    for words in commands:
        at = 0  # where the program stands
        while at < len(words) and (words[at].value in _BEFORE or _ASSIGNMENT.match(words[at].value)):
            at += 1
            while at + 1 < len(words) and words[at].value == "-u" and words[at - 1].value != "exec":
                at += 2  # of env: a variable that it takes away
        if at < len(words) and all_fit(words[at:], command):
            return words[at:]
    return ()


# Where the lines of a shell script start that are commands: not inside quotes, nor the rest of another line.
# A text in quotes may go over many lines, and one of them may look like the very command that is searched for.

_BEFORE_COMMENT = " \t\n;&|("  # A `#` starts a comment only where a word could start
_CLOSED_BY = {'"': '"', "'": "'", "$'": "'", "`": "`", "(": ")", "${": "}"}
_QUOTES = ('"', "'", "$'")


def _line_starts(text: str) -> list[int]:
    """Where lines of commands start; NotUnderstoodError where a quote is not closed."""
    at, starts = 0, [0]
    inside: list[str] = []
    while at < len(text):
        sign, inner = text[at], inside[-1] if inside else ""
        commands = not any(kind in (*_QUOTES, "${") for kind in inside)
        if inner and sign == _CLOSED_BY[inner]:
            inside.pop()
            at += 1
        elif inner != "'" and sign == "\\":
            at += 2  # a line that is continued is no start either
        elif inner in ("'", "$'"):
            at += 1
        elif opened := _opening_quote(text, at, inner):
            inside.append("(" if opened == "$(" else opened)
            at += len(opened)
        elif sign == "#" and commands and text[at - 1 : at or 1] in _BEFORE_COMMENT:
            end = text.find("\n", at)
            at = len(text) if end < 0 else end
        else:
            at += 1
            if sign == "\n" and commands:
                starts.append(at)
    if any(kind in _QUOTES for kind in inside):
        raise NotUnderstoodError("an unclosed quote")
    return [start for start in starts if start < len(text)]


def _opening_quote(text: str, at: int, inner: str) -> str:
    """What begins here, as far as it can there: in double quotes a single one is a sign like any other."""
    pair, sign = text[at : at + 2], text[at]
    if pair in ("$(", "${"):
        return pair
    if sign == "`":
        return sign
    if inner in ('"', "${"):
        return sign if sign == '"' else ""
    if pair == "$'":
        return pair
    return sign if sign in "\"'" or (sign == "(" and inner == "(") else ""


def simple_commands(text: str, at: int) -> list[tuple[Word, ...]]:
    """The words of each command of the line that starts there, continued lines too; without redirections."""
    reader = _Reader(text, at)
    found: list[tuple[Word, ...]] = []
    words: list[Word] = []
    while True:
        reader.skip_blanks()
        sign = reader.ahead()
        if not sign or sign in "\n#":
            break
        if sign in "<>" or (sign in "12&" and re.match(r"[12&]>", reader.ahead(2))):
            # where the output goes is none of the program's words
            redirection = _REDIRECTION.match(text, reader.at)
            if not redirection or reader.ahead(2) == "<<":
                raise NotUnderstoodError("an unknown kind of redirection")
            reader.at = redirection.end()
            if not redirection[0].endswith(("&1", "&2", "&-")):
                reader.skip_blanks()
                reader.word()
        elif sign in _ENDS:
            found.append(tuple(words))
            words, reader.at = [], reader.at + 1
        else:
            words.append(reader.word())
    return [command for command in [*found, tuple(words)] if command]


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
        while (sign := self.ahead()) and sign not in f" \t\n{_ENDS}" and self.ahead(2) != "\\\n":
            if sign == "'":
                end = self.text.find("'", self.at + 1)
                if end < 0:
                    raise NotUnderstoodError("an unclosed quote")
                meaning.add(self.text[self.at + 1 : end])
                self.at = end + 1
            elif sign == '"':
                self._read_quoted(meaning)
            elif sign == "\\":
                meaning.add(self.text[self.at + 1 : self.at + 2])
                self.at += 2
            elif sign == "$":
                self._read_variable(meaning, splits=True)
            elif sign in _WILD and not (sign == "!" or (sign == "~" and self.at != start)):
                raise NotUnderstoodError(f"{sign!r} without quotes")
            else:
                meaning.add(sign)
                self.at += 1
        return meaning.word(start, self.at)

    def _read_quoted(self, meaning: Meaning) -> None:
        self.at += 1
        while (sign := self.ahead()) != '"':
            if not sign or sign == "`":
                raise NotUnderstoodError("an unclosed quote, or a command inside it")
            if sign == "$":
                self._read_variable(meaning)
            elif sign == "\\" and self.ahead(2)[1:] in '$`"\\\n':
                meaning.add("" if self.ahead(2) == "\\\n" else self.ahead(2)[1:])
                self.at += 2
            else:
                meaning.add(sign)
                self.at += 1
        self.at += 1

    def _read_variable(self, meaning: Meaning, *, splits: bool = False) -> None:
        found = _VARIABLE.match(self.text, self.at)
        if not found:
            raise NotUnderstoodError(f"{self.text[self.at : self.at + 12]!r}")
        meaning.add_unknown(splits=splits)
        self.at = found.end()
