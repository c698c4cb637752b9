"""What a server answers without any chance, and what it expects of a given text."""

from typing import NamedTuple

from unslow.app.bench.bencher import Bencher
from unslow.app.bench.server import context_of
from unslow.app.bench.standard import settle
from unslow.app.verify.party import Party
from unslow.catalog.samples import openings, reading
from unslow.facts.verified import Side
from unslow.look.bench.asking import ask
from unslow.look.bench.guest import AskError, Question
from unslow.look.scoring import Text, score
from unslow.look.system import LookError

MOST_TOKENS, FEWEST_TOKENS = 48, 12
"""Of an answer: longer ones have gone their own way by then, shorter ones tell no loop."""
MOST_PLACES, FEWEST_PLACES = 200, 48
"""Of the text whose probabilities are asked for: two hundred tell a percent of perplexity."""
LONGEST_S = 120.0
"""For the probabilities of one server, should it be slower than it was."""
_TRIES = 2
"""Of a question: one failure may be an accident."""
_PARTS = 5
"""The first is asked everything twice and the second once, and both for probabilities."""
_PLACE_STEPS = 1.5
"""What a place takes, in steps of generating: one, and the few tokens since the last place."""


class Extent(NamedTuple):
    """How much is compared: the same for both."""

    tokens: int
    places: int


def extent_of(party: Party, seconds: float) -> Extent:
    """As much as the time is enough for, by how fast the server is."""
    rates = [sample.decode_tokens_per_s for sample in party.samples if sample.decode_tokens_per_s]
    each = min(rates, default=0.0) * seconds / _PARTS
    tokens, places = int(each / len(openings())), int(each / _PLACE_STEPS)
    return Extent(max(FEWEST_TOKENS, min(MOST_TOKENS, tokens)), max(FEWEST_PLACES, min(MOST_PLACES, places)))


def extent_before(side: Side) -> Extent | None:
    """The extent of what was kept; None where no answers were."""
    return Extent(side.compared_tokens, side.places or FEWEST_PLACES) if side.answers else None


def compare_answers(bencher: Bencher, party: Party, extent: Extent, *, twice: bool) -> None:
    """Ask all questions, twice of the one that the other is held against, and then for probabilities."""
    bencher.progress.step(f"comparing answers: {party.what}", 0.0)
    party.compared_tokens, party.places = extent
    party.answers = _answers(bencher, party, extent.tokens)
    if twice:
        bencher.progress.step(f"comparing answers, once more: {party.what}", 0.5)
        party.again = _answers(bencher, party, extent.tokens)
    _score(bencher, party, extent.places)


def _answers(bencher: Bencher, party: Party, tokens: int) -> tuple[str, ...]:
    """All answers, or none where the server does not give one."""
    found = []
    for opening in openings():
        question = Question(opening, tokens, bencher.slot, greedy=True, silence_s=bencher.silence_s)
        text = _answer(bencher, party, question)
        if text is None:
            return ()
        found.append(text)
    return tuple(found)


def _answer(bencher: Bencher, party: Party, question: Question) -> str | None:
    """The answer; None where there is none, however often it is asked."""
    for _ in range(_TRIES):
        try:
            return ask(bencher.system, bencher.target, question).text
        except AskError as error:
            party.failures.append(error.why)
    return None


def _score(bencher: Bencher, party: Party, places: int) -> None:
    bencher.progress.step(f"comparing what it expects of a text: {party.what}", 0.9)
    text = Text(reading(), places=places, seconds=LONGEST_S, context=context_of(bencher), slot=bencher.slot)
    try:
        party.scored = score(bencher.system, bencher.target, text)
    except LookError as error:
        party.not_scored = error.why
    settle(bencher)
