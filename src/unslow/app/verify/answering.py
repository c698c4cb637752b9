"""What a server answers without any chance, and what it expects of a given text."""

from collections.abc import Sequence
from contextlib import suppress
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
from unslow.look.written_turns import read_written_turns

MOST_TOKENS, FEWEST_TOKENS = 48, 12
"""Of an answer: longer ones have gone their own way by then, shorter ones tell no loop."""
MOST_PLACES, FEWEST_PLACES = 200, 48
"""Of the text whose probabilities are asked for: two hundred tell a percent of perplexity."""
FEWEST_QUESTIONS = 5
"""Of those that are compared: fewer can't tell another model from chance (`think.verify.agreement`)."""
SHORTEST_S, LONGEST_S = 15.0, 120.0
"""For the probabilities of one server, should it be slower than it was."""
_TRIES = 2
"""Of a question: one failure may be an accident."""
_PARTS = 5
"""The first is asked everything twice and the second once, and both for probabilities."""
_LETTERS = 4.0
"""Of a token, about: the text is read once, a few tokens before each place, and a place is one step of generating."""


class Extent(NamedTuple):
    """How much is compared: the same for both."""

    tokens: int
    places: int
    questions: int
    seconds: float = LONGEST_S
    """For probabilities."""


def extent_of(party: Party, seconds: float) -> Extent:
    """As much as the time is enough for, by how fast the server is."""
    decode = _slowest([sample.decode_tokens_per_s for sample in party.samples])
    prefill = _slowest([sample.prefill_tokens_per_s for sample in party.samples]) or decode
    if not decode:
        return Extent(FEWEST_TOKENS, FEWEST_PLACES, FEWEST_QUESTIONS, max(SHORTEST_S, min(LONGEST_S, seconds)))
    part_s, all_of_them = seconds / _PARTS, len(openings())
    opening_s = sum(map(len, openings())) / all_of_them / _LETTERS / prefill
    tokens = int((part_s / all_of_them - opening_s) * decode)
    questions = int(part_s / (opening_s + FEWEST_TOKENS / decode))
    places = int((part_s - len(reading()) / _LETTERS / prefill) * decode)
    return Extent(
        max(FEWEST_TOKENS, min(MOST_TOKENS, tokens)),
        max(FEWEST_PLACES, min(MOST_PLACES, places)),
        max(FEWEST_QUESTIONS, min(all_of_them, questions)),
        max(SHORTEST_S, min(LONGEST_S, seconds)),
    )


def _slowest(rates: Sequence[float | None]) -> float:
    return min((rate for rate in rates if rate), default=0.0)


def extent_before(side: Side) -> Extent | None:
    """The extent of what was kept; None where no answers were."""
    return Extent(side.compared_tokens, side.places or FEWEST_PLACES, len(side.answers)) if side.answers else None


def compare_answers(bencher: Bencher, party: Party, extent: Extent, *, twice: bool) -> None:
    """Ask all questions, twice of the one that the other is held against, and then for probabilities."""
    bencher.progress.step(f"comparing answers: {party.what}", 0.0)
    party.compared_tokens, party.places = extent.tokens, extent.places
    party.answers = _answers(bencher, party, extent)
    if twice:
        bencher.progress.step(f"comparing answers, once more: {party.what}", 0.5)
        party.again = _answers(bencher, party, extent)
    with suppress(LookError):  # most runtimes don't show it
        party.written_turns = read_written_turns(bencher.system, bencher.target)
    _score(bencher, party, extent)


def chosen(questions: Sequence[str], number: int) -> list[str]:
    """So many of all, spread over their kinds."""
    return [questions[place * len(questions) // number] for place in range(number)]


def _answers(bencher: Bencher, party: Party, extent: Extent) -> tuple[str, ...]:
    """All answers, or none where the server does not give one."""
    found = []
    for opening in chosen(openings(), extent.questions):
        question = Question(opening, extent.tokens, bencher.slot, greedy=True, silence_s=bencher.silence_s)
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


def _score(bencher: Bencher, party: Party, extent: Extent) -> None:
    bencher.progress.step(f"comparing what it expects of a text: {party.what}", 0.9)
    text = Text(reading(), extent.places, extent.seconds, context_of(bencher), bencher.slot)
    try:
        party.scored = score(bencher.system, bencher.target, text)
    except LookError as error:
        party.not_scored = error.why
    settle(bencher)
