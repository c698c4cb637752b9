"""Which of two ways somebody uses today: `I now use 16 threads`, or the command that the server was started with."""

import re
from collections.abc import Iterator, Sequence

from unslow.facts.account import Comparison, Side, Topic
from unslow.think.words.lines import Line
from unslow.think.words.modality import is_claimed
from unslow.think.words.presence import count_in, counts, has, side_with
from unslow.think.words.rates import speeds

_SENTENCE = re.compile(r"(?<=[.!?;])\s+")
_IN_USE = re.compile(
    r"\b(?:i|we)(?:'m| am| are|'re)? (?:(?:now|currently|already|still|always|actually|just) )*"
    r"(?:us(?:e|ing)|run(?:ning)?|stay(?:ing)?|launch(?:ing)?|start(?:ing)?)\b"
    r"|\bcurrent(?:ly)?\b|\bat the moment\b|\bright now\b|\bnow (?:us\w+|on|with|at|run\w*)\b"
    r"|\bmy (?:current )?(?:settings?|config\w*|command)\b|\b(?:started|launched|runs|running) with\b"
    r"|\bcommand(?: ?line)?\s?:"
)
_COMMAND = re.compile(r"\b(?:llama-(?:server|cli)|vllm serve|koboldcpp|ollama (?:run|serve)|sglang)\b.*\s--?[a-z]")
_TODAY = re.compile(r"\b(?:now|currently|today|at the moment|i use|i am using|i'm using|in use)\b")


def side_in_use(settings: Sequence[str], told: Comparison) -> Side | None:
    """The side that the author uses, by its label or by sentences on how it runs; None where nobody, or both, tell."""
    marked = [bool(_TODAY.search(label)) for label in (told.slow_is, told.fast_is)]
    if marked[0] != marked[1]:
        return "slow" if marked[0] else "fast"
    found = {side for sentence in settings if (side := _side_of(sentence, told))}
    return found.pop() if len(found) == 1 else None


def settings_in_use(lines: Sequence[Line]) -> Iterator[tuple[Line, str]]:
    """Sentences that tell how it runs, and no speed of it, each with its line."""
    for line in lines:
        for sentence in _SENTENCE.split(line.text):
            says = _IN_USE.search(sentence) or _COMMAND.search(sentence)
            if says and is_claimed(sentence, says.start()) and not any(speeds(sentence)):
                yield line, sentence


def _side_of(sentence: str, told: Comparison) -> Side | None:
    """The side that a sentence agrees with, in a thing in which the two differ."""
    for topic in told.differs:
        if number := count_in(sentence, topic):
            slow, fast = counts(told.slow_is, told.fast_is, topic)
            return _which(number == slow, number == fast)
        if (there := has(sentence, topic)) is not None and (side := side_with(told.slow_is, told.fast_is, topic)):
            return side if there else "fast" if side == "slow" else "slow"
    return None


def _which(slow: bool, fast: bool) -> Side | None:  # noqa: FBT001 (one of each side)
    return None if slow == fast else "slow" if slow else "fast"


def sides_are_told(told: Comparison) -> bool:
    """Whether the labels tell which side has one of the things that differ."""
    return any(_is_told(told, topic) for topic in told.differs)


def _is_told(told: Comparison, topic: Topic) -> bool:
    return bool(side_with(told.slow_is, told.fast_is, topic)) or any(counts(told.slow_is, told.fast_is, topic))
