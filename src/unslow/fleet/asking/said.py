"""What is said of the answers, each thing once with the queries that it concerns."""

import re

from unslow.think.fleet.report import Kind, Statement

_LONGEST_TEXT = 300
_MOST_NAMED, _MOST_STATEMENTS = 3, 100
"""More would hide the rest; a server can make up as many as it likes."""
_NOT_SHOWN = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]+")


def plain_text(text: str) -> str:
    """A text of the server in one line, of bounded length, without anything that a terminal would obey."""
    line = _NOT_SHOWN.sub(" ", text[: 4 * _LONGEST_TEXT]).strip()
    return line if len(line) <= _LONGEST_TEXT else line[: _LONGEST_TEXT - 1] + "…"


class Said:
    """Statements in the order in which they were first made."""

    def __init__(self) -> None:
        self._about: dict[tuple[Kind, str, str], list[str]] = {}

    def say(self, kind: Kind, text: str, hint: str = "", about: str = "") -> None:
        """Once more, of the query called `about`, or of the whole server."""
        key = (kind, text, hint)
        if key not in self._about and len(self._about) >= _MOST_STATEMENTS:
            key = ("note", f"more than {_MOST_STATEMENTS} statements were left out", "")
        queries = self._about.setdefault(key, [])
        if about and about not in queries:
            queries.append(about)

    def statements(self) -> tuple[Statement, ...]:
        """All of them."""
        return tuple(
            Statement(kind=kind, text=text + _named(queries), hint=hint)
            for (kind, text, hint), queries in self._about.items()
        )


def _named(queries: list[str]) -> str:
    if not queries:
        return ""
    more = len(queries) - _MOST_NAMED
    named = ", ".join(queries[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
    return f" ({'query' if len(queries) == 1 else f'{len(queries)} queries'}: {named})"
