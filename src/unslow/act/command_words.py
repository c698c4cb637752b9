"""The words of a command line where they stand in a text, and the text with other words in their place."""

import re
from collections.abc import Callable, Mapping, Sequence
from difflib import SequenceMatcher
from itertools import pairwise
from typing import NamedTuple

Variables = Mapping[str, str | None]  # By name, the value; None for one that is taken away
_BLANKS = re.compile(r"(?<!\s)(?:\s|\\\n)*\Z")  # Blanks up to the end of a text, continued lines among them


class NotUnderstoodError(Exception):
    """A text that cannot be edited with certainty; the message says what is not understood."""


class Word(NamedTuple):
    """A word, where it stands, and what it means: itself, or anything that fits where a variable is in it."""

    start: int
    end: int
    value: str
    pattern: re.Pattern[str] | None = None
    splits: bool = False  # Whether a variable in it may make no word of it, or several

    def fits(self, word: str) -> bool:
        """Whether the program may have been given this for it."""
        return bool(self.pattern.fullmatch(word)) if self.pattern else self.value == word


class Meaning:
    """Collects what a word means, part by part."""

    def __init__(self) -> None:
        self._value, self._pattern, self._open, self._splits = "", "", False, False

    def add(self, text: str) -> None:
        """Letters that stand for themselves."""
        self._value += text
        self._pattern += re.escape(text)

    def add_unknown(self, *, splits: bool = False) -> None:
        """Something that is filled in when it runs; one that splits is cut at its blanks then."""
        self._open, self._splits = True, self._splits or splits
        self._pattern += ".*"

    def word(self, start: int, end: int) -> Word:
        pattern = re.compile(self._pattern, re.DOTALL) if self._open else None
        return Word(start, end, self._value, pattern, self._splits)


class Shape(NamedTuple):
    """How words are set apart in a text."""

    inserted: Callable[[str, int], str]
    """A new word with what sets it apart from the one before, whose number is given; -1 at the start."""
    cut: Callable[[int, int], list[tuple[int, int]]]
    """The places that go where the words from one number up to another go."""
    place: Callable[[int], int]  # Where a new word is put after the one of this number; -1 for the start


def all_fit(words: Sequence[Word], command: Sequence[str]) -> bool:
    """Whether these words may have become this command line, one for one."""
    return len(words) == len(command) and all(word.fits(given) for word, given in zip(words, command, strict=True))


def rewritten(text: str, old: Sequence[str], new: Sequence[str], shape: Shape) -> str:
    """The text with the words of `new` where those of `old` stood; every other byte as it was."""
    edits: list[tuple[int, int, str]] = []
    for kind, first, last, start, end in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind in ("delete", "replace"):
            edits += [(*span, "") for span in shape.cut(first, last)]
        if kind in ("insert", "replace"):
            at = shape.place(first - 1)
            edits.append((at, at, "".join(shape.inserted(word, first - 1) for word in new[start:end])))
    for start, end, put in sorted(edits, key=lambda edit: (edit[0], edit[1]), reverse=True):
        text = text[:start] + put + text[end:]
    return text


def spaced_words(text: str, words: Sequence[Word], quote: Callable[[str], str]) -> Shape:
    """Words with blanks between them: a new flag comes after the same blanks as the others, a value after one."""
    gaps = [text[a.end : b.start] for a, b in pairwise(words)]
    broken = [gap for gap in gaps if "\n" in gap and _BLANKS.match(gap)]
    gap = broken[-1] if broken else " "

    def insert_word(word: str, number: int) -> str:
        apart = gap if word.startswith("-") else " "
        return f"{apart}{quote(word)}" if number >= 0 else f"{quote(word)} "

    def cut(first: int, last: int) -> list[tuple[int, int]]:
        """The words and the blanks before each: what else lies between them, such as a redirection, stays."""
        if not first and not all(map(_BLANKS.match, gaps[:last])):
            raise NotUnderstoodError("a redirection before its arguments")
        if not first:
            return whole.cut(first, last)
        blanks = [_BLANKS.search(gap) for gap in gaps]
        lengths = [len(found[0]) if found else 0 for found in blanks]
        return [(words[n].start - lengths[n - 1], words[n].end) for n in range(first, last)]

    whole = in_a_row(words, insert_word)
    return whole._replace(cut=cut)


def in_a_row(words: Sequence[Word], inserted: Callable[[str, int], str]) -> Shape:
    """Words one after the other: with each that goes, what sets it apart from the one before goes too."""

    def cut(first: int, last: int) -> list[tuple[int, int]]:
        if first:
            return [(words[first - 1].end, words[last - 1].end)]
        return [(words[0].start, words[last].start if last < len(words) else words[-1].end)]

    return Shape(inserted, cut, place=lambda number: words[number].end if number >= 0 else words[0].start)


# Which words of a text became which words of a command line, where variables without quotes make none or several.
# `$THREADS $MORE` may have become `-t 4` as one word each, or all of it is the first: an edit of the second is
# then wrong.


def check_sure(words: Sequence[Word], old: Sequence[str], new: Sequence[str]) -> None:
    """NotUnderstoodError where a word that changes may be another than it seems; all of them fit one for one."""
    runs: list[set[int]] = []  # of unsure ones beside each other: together they are sure again
    for number in sorted(unsure_words(words, old)):
        if runs and number - 1 in runs[-1]:
            runs[-1].add(number)
        else:
            runs.append({number})
    for kind, first, last, _, _ in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        gone = set(range(first, last)) if kind != "equal" else set()
        parted = any(gone & run and not run <= gone for run in runs)
        if parted or (kind == "insert" and any({first - 1, first} <= run for run in runs)):
            raise NotUnderstoodError("unquoted variables in its command, each of which may expand to several words")


def unsure_words(words: Sequence[Word], command: Sequence[str]) -> set[int]:
    """The words that may have become more, fewer or others than the one at their own place."""
    if sum(word.splits for word in words) <= 1:  # so many words in all leave one for each
        return set()
    count = len(command)

    def fits(number: int, first: int, last: int) -> bool:
        word = words[number]
        if last - first == 1:
            return word.fits(command[first])
        return word.splits and bool(word.pattern and word.pattern.fullmatch(" ".join(command[first:last])))

    # how many of the command line the words before each may have become, and where the words from each on may start
    before, behind = [{0}], [{count}]
    for number in range(len(words)):
        before.append({last for first in before[-1] for last in range(first, count + 1) if fits(number, first, last)})
    for number in reversed(range(len(words))):
        behind.insert(0, {first for last in behind[0] for first in range(last + 1) if fits(number, first, last)})
    return {
        number
        for number in range(len(words))
        for first in before[number]
        for last in behind[number + 1]
        if (first, last) != (number, number + 1) and last >= first and fits(number, first, last)
    }
