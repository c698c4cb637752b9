"""Answers that are none: empty, one sign over and over, or the same few words without end."""

from collections import Counter
from collections.abc import Sequence

from unslow.think.verify.agreement import words_of

ONE_SIGN = 0.8
"""Of an answer, the share of its commonest sign: models that lost their numbers say `!!!!` or `GGGG`."""
FEWEST_SIGNS, FEWEST_WORDS = 16, 12
"""Shorter answers may well repeat themselves."""
NEW_TRIPLES = 0.35
"""Of all threes of words, those that are new; less is a loop. Prose keeps more than nine of ten."""
SOME, SHARE = 2, 0.25
"""So many more than before, as a number and as a share of all: small models loop now and then by themselves."""


def is_garbage(answer: str) -> bool:
    """Whether an answer says nothing."""
    words, signs = words_of(answer), [sign for sign in answer if not sign.isspace()]
    if not words:
        return True
    if len(signs) >= FEWEST_SIGNS and Counter(signs).most_common(1)[0][1] >= ONE_SIGN * len(signs):
        return True
    return len(words) >= FEWEST_WORDS and len(_triples(words)) < NEW_TRIPLES * (len(words) - 2)


def _triples(words: Sequence[str]) -> set[tuple[str, ...]]:
    return {tuple(words[at : at + 3]) for at in range(len(words) - 2)}


def garbage_among(answers: Sequence[str]) -> int:
    """How many of them say nothing."""
    return sum(map(is_garbage, answers))


def has_more_garbage(before: Sequence[str], after: Sequence[str]) -> bool:
    """Whether the second set has far more of it."""
    more = garbage_among(after) - garbage_among(before)
    return more >= max(SOME, SHARE * len(after))
