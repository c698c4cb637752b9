"""Prompts: the protocol's own two, or text of any length that no cache has seen and no draft can guess.

Every prompt differs from the others from its first word on. Long ones are sentences of words drawn at random, so that
nothing in them repeats what came before, and end in a question. They are exact to a token or two where the runtime
has a tokenizer to ask, which is asked once for all words and once for what stands around them.
"""

import random
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import count, islice
from pathlib import Path
from threading import Lock
from typing import NamedTuple

from unslow.look.requests import Target, read_tokens
from unslow.look.system import System

WORDS = tuple(Path(__file__).with_name("prompt_words.txt").read_text("utf-8").split())

_BETWEEN = "the"
_GUESSED_TOKENS_PER_WORD = 1.3
_FEWEST_TOKENS_PER_WORD = 0.25  # no tokenizer joins that many words; a count can be wrong
_FAR_APART = 2.0  # prompts of much the same length tell a ratio, and nothing of what a template adds

PROMPTS = (
    "Explain the transformer architecture in detail.",
    "Explain what limits heat pumps below freezing, including refrigerants and compressors. Be thorough.",
)
QUESTION = "So much for the words. Now explain the transformer architecture in detail, and be thorough."
WITH_QUESTION_FROM = 64  # A shorter prompt has no room for one
_SENTENCE_WORDS = (7, 15)
_MOST_LEARNED = 64
_AVERAGED_WORDS = 400
_FORMS = (*WORDS, *(word.capitalize() for word in WORDS), *(f"{word}." for word in WORDS))


class Ruler(NamedTuple):
    """How long a text is in tokens: tokens by word, those of any other word, and what is there without any word.

    A tokenizer reads words apart from each other. So one question is enough: all words in a row, with the same short
    word between them, whose token then shows where one ends and the next begins. Without a tokenizer, earlier prompts
    and the tokens that the server counted in them have to do.
    """

    sizes: dict[str, int]
    other: float = _GUESSED_TOKENS_PER_WORD
    around: float = 0.0

    def size(self, word: str) -> float:
        return self.sizes.get(word, self.other)

    def length(self, text: str) -> float:
        return self.around + sum(self.size(word) for word in text.split())


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


class Prompts:
    """Makes prompts for one server; any thread may ask for them."""

    def __init__(self, system: System, target: Target) -> None:
        self._system, self._target = system, target
        self._lock, self._numbers, self._turns = Lock(), count(), count()
        self._seed = ""
        self._exact: Ruler | None = None
        self._asked = False
        self._framed: dict[str, Ruler] = {}
        self._seen: list[tuple[int, int]] = []

    def prompt(self, tokens: int = 0) -> str:
        """A prompt of about this many tokens; 0 asks for the protocol's own, in turn."""
        question = QUESTION if tokens >= WITH_QUESTION_FROM else ""
        with self._lock:
            self._seed = self._seed or f"{self._system.now()} {self._system.clock()}"
            number, ruler = next(self._numbers), self._ruler(question) if tokens > 0 else Ruler({})
            turn = next(self._turns) if tokens <= 0 else 0
        words = _sentences(self._seed, number)
        if tokens <= 0:
            name = " ".join(next(words) for _ in range(4))
            return f"{name} is what this request is called. {PROMPTS[turn % len(PROMPTS)]}"
        asked, chosen, is_exact = question.split(), [next(words)], bool(ruler.sizes)
        room = tokens - ruler.around - ruler.size(chosen[0]) - (0 if is_exact else len(asked) * ruler.other)
        smallest = min(ruler.sizes.values(), default=ruler.other / 2)  # half of one where an average is all there is
        while room >= smallest:
            word = next(w for w in words if ruler.size(w) <= room) if is_exact else next(words)
            chosen.append(word)
            room -= ruler.size(word)
        return " ".join([*chosen, *asked])

    def learn(self, words: int, tokens: int) -> None:
        """Take note of how many tokens a prompt of `words` words was, for servers without a tokenizer."""
        if words > 0 and tokens > 0:
            with self._lock:
                self._seen = [*self._seen[1 - _MOST_LEARNED :], (words, tokens)]

    def _ruler(self, question: str) -> Ruler:
        if not self._asked:
            tokens = read_tokens(self._system, self._target, row_of(_FORMS))
            self._exact, self._asked = parse_row(tokens, _FORMS) if tokens else None, True
            if tokens and self._exact is None:  # one that does not keep words apart, as one of letters
                words = list(islice(_sentences("average", 0), _AVERAGED_WORDS))
                tokens = read_tokens(self._system, self._target, " ".join(words))
                self._seen += [(len(words), len(tokens))] if tokens else []
        if self._exact is None:
            return learned_ruler(self._seen)
        if question not in self._framed:
            # What stands around the words: special tokens, a template, the question
            text = " ".join(islice(_sentences("frame", 0), 16))
            tokens = read_tokens(self._system, self._target, f"{text} {question}".strip())
            around = len(tokens) - self._exact.length(text) if tokens else self._exact.around
            self._framed[question] = self._exact._replace(around=around)
        return self._framed[question]


def _sentences(seed: str, number: int) -> Iterator[str]:
    """Words without end; the first is another one for each number, until all have had their turn."""
    chance = random.Random(f"{seed} {number}")  # noqa: S311 (nothing depends on it being secret)
    start = random.Random(seed).randrange(len(WORDS))  # noqa: S311
    word = WORDS[(start + number) % len(WORDS)]
    while True:
        length = chance.randint(*_SENTENCE_WORDS)
        yield word.capitalize()
        yield from (chance.choice(WORDS) for _ in range(length - 2))
        yield f"{chance.choice(WORDS)}."
        word = chance.choice(WORDS)
