"""Where the lines of a shell script start that are commands: not inside quotes, nor the rest of another line.

A text in quotes may go over many lines, and one of them may look like the very command that is searched for.
"""

from unslow.act.edits.words import NotUnderstoodError

_BEFORE_COMMENT = " \t\n;&|("
"""A `#` starts a comment only where a word could start."""
_CLOSED_BY = {'"': '"', "'": "'", "$'": "'", "`": "`", "(": ")", "${": "}"}
_QUOTES = ('"', "'", "$'")


class _Scanner:
    """Reads from the start, and knows at every place what it is in."""

    def __init__(self, text: str) -> None:
        self._text, self._at = text, 0
        self._inside: list[str] = []
        self.starts = [0]

    def run(self) -> list[int]:
        while self._at < len(self._text):
            self._step()
        if any(kind in _QUOTES for kind in self._inside):
            raise NotUnderstoodError("a quote that is not closed")
        return [start for start in self.starts if start < len(self._text)]

    def _step(self) -> None:
        sign, inner = self._text[self._at], self._inside[-1] if self._inside else ""
        if inner and sign == _CLOSED_BY[inner]:
            self._inside.pop()
            self._at += 1
        elif inner == "'":
            self._at += 1
        elif sign == "\\":
            self._at += 2  # a line that is continued is no start either
        elif inner == "$'":
            self._at += 1
        elif opened := self._opened(inner):
            self._inside.append("(" if opened == "$(" else opened)
            self._at += len(opened)
        else:
            self._pass(sign)

    def _opened(self, inner: str) -> str:
        """What begins here, as far as it can there: in double quotes a single one is a sign like any other."""
        pair, sign = self._text[self._at : self._at + 2], self._text[self._at]
        if pair in ("$(", "${"):
            return pair
        if sign == "`":
            return sign
        if inner in ('"', "${"):
            return sign if sign == '"' else ""
        if pair == "$'":
            return pair
        return sign if sign in "\"'" or (sign == "(" and inner == "(") else ""

    def _pass(self, sign: str) -> None:
        commands = not any(kind in (*_QUOTES, "${") for kind in self._inside)
        if sign == "#" and commands and self._text[self._at - 1 : self._at or 1] in _BEFORE_COMMENT:
            end = self._text.find("\n", self._at)
            self._at = len(self._text) if end < 0 else end
            return
        self._at += 1
        if sign == "\n" and commands:
            self.starts.append(self._at)


def line_starts(text: str) -> list[int]:
    """Where lines of commands start; NotUnderstoodError where a quote is not closed."""
    return _Scanner(text).run()
