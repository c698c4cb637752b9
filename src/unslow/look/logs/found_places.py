"""Matches of a pattern over a whole text, each with the lines that it stands on."""

import re
from bisect import bisect_right
from collections.abc import Iterator
from itertools import accumulate

from unslow.look.logs.dialect import Text

_MOST_BEFORE = 2000


class Places:
    """The text as one string, and which of its lines a character belongs to."""

    def __init__(self, text: Text) -> None:
        self.text = text
        self.joined = text.joined()
        self._starts = list(accumulate((len(line) + 1 for line in text.lines), initial=0))

    def find(self, pattern: re.Pattern[str]) -> Iterator[tuple[re.Match[str], str]]:
        """Every match with the place where it starts."""
        for found in pattern.finditer(self.joined):
            yield found, self.where(found)

    def where(self, found: re.Match[str]) -> str:
        """`NAME:LINE` of a match's start."""
        return self.text.where(self._line(found.start()))

    def span(self, found: re.Match[str]) -> tuple[int, int]:
        """The lines that a match covers, the end left out."""
        return self._line(found.start()), self._line(max(found.start(), found.end() - 1)) + 1

    def near(self, found: re.Match[str], characters: int) -> str:
        """What stands around a match, so far before and after it."""
        return self.joined[max(0, found.start() - characters) : found.end() + characters]

    def before(self, found: re.Match[str]) -> str:
        """The part of its line that stands before a match, as much of it as matters."""
        return self.joined[max(0, found.start() - _MOST_BEFORE) : found.start()].rpartition("\n")[2]

    def _line(self, at: int) -> int:
        return max(0, bisect_right(self._starts, at) - 1)
