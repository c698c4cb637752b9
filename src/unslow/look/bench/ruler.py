"""How long a text is in tokens, without asking for each text: by the tokens of every word it may be made of.

A tokenizer reads words apart from each other. So one question is enough: all words in a row, with the same short word
between them, whose token then shows where one ends and the next begins. Without a tokenizer, earlier prompts and the
tokens that the server counted in them have to do.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

_BETWEEN = "the"
_GUESSED_TOKENS_PER_WORD = 1.3
_FEWEST_TOKENS_PER_WORD = 0.25  # no tokenizer takes so many words together; a count can be wrong
_FAR_APART = 2.0  # prompts of much the same length tell a ratio, and nothing of what a template adds


class Ruler(NamedTuple):
    """Tokens by word, those of any other word, and what is there without any word."""

    sizes: dict[str, int]
    other: float = _GUESSED_TOKENS_PER_WORD
    around: float = 0.0

    def size(self, word: str) -> float:
        """The tokens of a word."""
        return self.sizes.get(word, self.other)

    def length(self, text: str) -> float:
        """The tokens of a text."""
        return self.around + sum(self.size(word) for word in text.split())

    @property
    def smallest(self) -> float:
        """The tokens of the shortest word; half of one where an average is all there is."""
        return min(self.sizes.values(), default=self.other / 2)

    @property
    def is_exact(self) -> bool:
        """Whether it knows each word."""
        return bool(self.sizes)


def row_of(words: Iterable[str]) -> str:
    """The question to the tokenizer; it begins with the word between twice, as a text may begin otherwise."""
    return f" {_BETWEEN} ".join([_BETWEEN, *words, ""]).strip()


def parse_row(tokens: Sequence[int], words: Sequence[str]) -> Ruler | None:
    """The words' sizes from the tokens of their row; None where the tokenizer mixes them up."""
    [(between, _)] = Counter(tokens).most_common(1) or [(0, 0)]
    groups: list[int] = [0]
    for token in tokens:
        if token == between:
            groups.append(0)
        else:
            groups[-1] += 1
    sizes = groups[-len(words) - 1 : -1]
    if len(sizes) != len(words) or not all(sizes) or len(groups) > len(words) + 3:
        return None
    return Ruler(dict(zip(words, sizes, strict=True)))


def learned_ruler(seen: Sequence[tuple[int, int]]) -> Ruler:
    """From pairs of words and tokens: a straight line where they are far apart, else a mere ratio."""
    if not seen:
        return Ruler({})
    (fewest, fewer), (most, more) = min(seen), max(seen)
    if most >= _FAR_APART * fewest and more > fewer:
        slope = (more - fewer) / (most - fewest)
        return Ruler({}, max(_FEWEST_TOKENS_PER_WORD, slope), max(0.0, fewer - slope * fewest))
    ratio = sum(tokens for _, tokens in seen) / sum(words for words, _ in seen)
    return Ruler({}, max(_FEWEST_TOKENS_PER_WORD, ratio))
