"""Prompts: the protocol's own two, or any number of tokens of text that no cache has seen and no draft can guess.

Every prompt differs from the others from its first word on. Long ones are sentences of words drawn at random, so that
nothing in them repeats what came before, and end in a question. They are exact to a token or two where the runtime has
a tokenizer to ask, which is asked once for all words and once for what stands around them.
"""

import random
from collections.abc import Iterator
from itertools import count, islice
from threading import Lock

from unslow.look.bench.guest import Target
from unslow.look.bench.ruler import Ruler, learned_ruler, parse_row, row_of
from unslow.look.bench.tokenizers import read_tokens
from unslow.look.bench.words import WORDS
from unslow.look.system import System

PROMPTS = (
    "Explain the transformer architecture in detail.",
    "Explain what limits heat pumps below freezing, including refrigerants and compressors. Be thorough.",
)
QUESTION = "So much for the words. Now explain the transformer architecture in detail, and be thorough."
WITH_QUESTION_FROM = 64
"""A shorter prompt has no room for one."""
_SENTENCE_WORDS = (7, 15)
_MOST_LEARNED = 64
_AVERAGED_WORDS = 400
_FORMS = (*WORDS, *(word.capitalize() for word in WORDS), *(f"{word}." for word in WORDS))


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
        """A prompt of so many tokens, as nearly as can be told; 0 asks for the protocol's own, in turn."""
        question = QUESTION if tokens >= WITH_QUESTION_FROM else ""
        with self._lock:
            self._seed = self._seed or f"{self._system.now()} {self._system.clock()}"
            number, ruler = next(self._numbers), self._ruler(question) if tokens > 0 else Ruler({})
            turn = next(self._turns) if tokens <= 0 else 0
        words = _sentences(self._seed, number)
        if tokens <= 0:
            name = " ".join(next(words) for _ in range(4))
            return f"{name} is what this request is called. {PROMPTS[turn % len(PROMPTS)]}"
        return _filled(words, ruler, tokens, question)

    def learn(self, words: int, tokens: int) -> None:
        """Take note of how many tokens a prompt of so many words was; of use where there is no tokenizer."""
        if words > 0 and tokens > 0:
            with self._lock:
                self._seen = [*self._seen[1 - _MOST_LEARNED :], (words, tokens)]

    def _ruler(self, question: str) -> Ruler:
        """The ruler for prompts that end so; asks the tokenizer where that was not done yet."""
        if not self._asked:
            tokens = read_tokens(self._system, self._target, row_of(_FORMS))
            self._exact, self._asked = parse_row(tokens, _FORMS) if tokens else None, True
            if tokens and self._exact is None:
                self._learn_average()
        if self._exact is None:
            return learned_ruler(self._seen)
        if question not in self._framed:
            self._framed[question] = self._frame(self._exact, question)
        return self._framed[question]

    def _learn_average(self) -> None:
        """A tokenizer that does not keep words apart, as one of letters, tells how many tokens a word takes."""
        words = list(islice(_sentences("average", 0), _AVERAGED_WORDS))
        tokens = read_tokens(self._system, self._target, " ".join(words))
        self._seen += [(len(words), len(tokens))] if tokens else []

    def _frame(self, ruler: Ruler, question: str) -> Ruler:
        """The ruler with what stands around the words: special tokens, a template, the question."""
        words = " ".join(word for word, _ in zip(_sentences("frame", 0), range(16), strict=False))
        tokens = read_tokens(self._system, self._target, f"{words} {question}".strip())
        return ruler._replace(around=len(tokens) - ruler.length(words)) if tokens else ruler


def _sentences(seed: str, number: int) -> Iterator[str]:
    """Words without end; the first is another one for each number, until all have had their turn."""
    chance = random.Random(f"{seed} {number}")  # noqa: S311 (nothing depends on nobody guessing it)
    start = random.Random(seed).randrange(len(WORDS))  # noqa: S311
    word = WORDS[(start + number) % len(WORDS)]
    while True:
        length = chance.randint(*_SENTENCE_WORDS)
        yield word.capitalize()
        yield from (chance.choice(WORDS) for _ in range(length - 2))
        yield f"{chance.choice(WORDS)}."
        word = chance.choice(WORDS)


def _filled(words: Iterator[str], ruler: Ruler, tokens: int, question: str) -> str:
    """As many words as there is room for, and one at least, then the question."""
    asked, chosen = question.split(), [next(words)]
    room = tokens - ruler.around - ruler.size(chosen[0]) - (0 if ruler.is_exact else len(asked) * ruler.other)
    smallest = ruler.smallest
    while room >= smallest:
        word = next(w for w in words if ruler.size(w) <= room) if ruler.is_exact else next(words)
        chosen.append(word)
        room -= ruler.size(word)
    return " ".join([*chosen, *asked])
