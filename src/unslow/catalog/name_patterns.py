"""Which of several patterns a device's name fits best: words in a row, in which `*` and `?` stand for letters.

`*` and `?` are any letters and one letter of a word, `[4-9]` one of several; a `*` that stands alone is any words.
"""

import re
from collections.abc import Iterable
from functools import lru_cache
from itertools import zip_longest
from typing import NamedTuple, TypeVar

T = TypeVar("T")

_MARKS = re.compile(r"\((?:r|tm|c)\)|[®™]", re.IGNORECASE)
_GLUED = re.compile(r"\b(gtx?|rtx|rx)(?=\d)|(?<=\d)(?=ti\b)")
_NO_WORD = re.compile(r"(?:[^a-z0-9.]|\bcpu\b)+")
_CLASS = re.compile(r"\[[\w-]+\]")
_LONGEST = 400  # letters; what comes after them is no name


class _Fit(NamedTuple):
    """How well a pattern fits, the most important first: more words, then fewer that are left open."""

    words: int
    plain: int
    length: int


def best_fit(name: str, patterns: Iterable[tuple[str, T]]) -> T | None:
    """What belongs to the pattern that says most of the name; None where none fits."""
    plain = _plain(name)
    fits = [(_fit(pattern), thing) for pattern, thing in patterns if _compiled(pattern).search(plain)]
    return max(fits, key=lambda fit: fit[0])[1] if fits else None


def _fit(pattern: str) -> _Fit:
    words = [word for word in pattern.split() if word != "*"]
    left_open = len(_CLASS.findall(pattern)) + sum(word.count("?") + word.count("*") for word in words)
    return _Fit(len(words), -left_open - 10 * pattern.split().count("*"), len(pattern))


def _plain(name: str) -> str:
    """A name as words, with a blank on either side."""
    text = _GLUED.sub(r"\g<0> ", _MARKS.sub(" ", name[:_LONGEST]).lower())
    return f" {_NO_WORD.sub(' ', text).strip()} "


@lru_cache(maxsize=1024)
def _compiled(pattern: str) -> re.Pattern[str]:
    words = [".*" if word == "*" else _word(word) for word in pattern.lower().split()]
    return re.compile(f" {' '.join(words)} ".replace(" .* ", " (?:.* )?"))


def _word(word: str) -> str:
    parts = re.split(r"(\[[\w-]+\])", word)
    opened = (re.escape(part).replace(r"\*", "[^ ]*").replace(r"\?", "[^ ]") for part in parts[::2])
    return "".join(text + known for text, known in zip_longest(opened, parts[1::2], fillvalue=""))
