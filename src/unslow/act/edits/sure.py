"""Which words of a text became which words of a command line, where variables without quotes make none or several.

`$THREADS $MORE` may have become `-t 4` as one word each, or all of it is the first: an edit of the second is
then wrong.
"""

from collections.abc import Callable, Sequence
from difflib import SequenceMatcher

from unslow.act.edits.words import NotUnderstoodError, Word

Fits = Callable[[int, int, int], bool]


def check_sure(words: Sequence[Word], old: Sequence[str], new: Sequence[str]) -> None:
    """NotUnderstoodError where a word that changes may be another than it seems; all of them fit one for one."""
    runs = _runs(unsure_words(words, old))
    for kind, first, last, _, _ in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        gone = set(range(first, last)) if kind != "equal" else set()
        parted = any(gone & run and not run <= gone for run in runs)
        if parted or (kind == "insert" and any({first - 1, first} <= run for run in runs)):
            raise NotUnderstoodError("variables without quotes in its command, each of which may be several words")


def _runs(unsure: set[int]) -> list[set[int]]:
    """Those beside each other: together they are sure again."""
    runs: list[set[int]] = []
    for number in sorted(unsure):
        if runs and number - 1 in runs[-1]:
            runs[-1].add(number)
        else:
            runs.append({number})
    return runs


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

    before, behind = _reached(len(words), count, fits), _reaching(len(words), count, fits)
    return {
        number
        for number in range(len(words))
        for first in before[number]
        for last in behind[number + 1]
        if (first, last) != (number, number + 1) and last >= first and fits(number, first, last)
    }


def _reached(words: int, count: int, fits: Fits) -> list[set[int]]:
    """For each word, how many of the command line the words before it may have become."""
    found: list[set[int]] = [{0}]
    for number in range(words):
        found.append({last for first in found[-1] for last in range(first, count + 1) if fits(number, first, last)})
    return found


def _reaching(words: int, count: int, fits: Fits) -> list[set[int]]:
    """For each word, where it may start so that the words from it on become all the rest."""
    found: list[set[int]] = [{count}]
    for number in reversed(range(words)):
        found.append({first for last in found[-1] for first in range(last + 1) if fits(number, first, last)})
    return found[::-1]
