"""Which side of an experiment has what: the slow one, the fast one, or nobody tells.

What reads prose is imported where there is some: most reports have none, and it takes as long as a whole judgement.
"""

import re
from functools import lru_cache
from typing import TypeVar

from unslow.facts.account import Comparison, Side, Topic
from unslow.facts.values import Fact, Known

T = TypeVar("T")


def slow_side_has(trial: Comparison, *topics: Topic) -> bool | None:
    """Whether the slow side is the one with one of these things; None where the text does not tell."""
    from unslow.think.words.presence import side_with  # noqa: PLC0415

    return _is_slow(side_with(*labels(trial), *topics))


def slow_side_has_more(trial: Comparison, topic: Topic) -> bool | None:
    """Whether the slow side is the one with more of a thing that is counted; None where the text does not tell."""
    from unslow.think.words.presence import side_with_more  # noqa: PLC0415

    return _is_slow(side_with_more(*labels(trial), topic))


def slow_side_names(trial: Comparison, pattern: re.Pattern[str]) -> bool | None:
    """Whether a word stands beside the slow side alone, or the fast one alone; None where beside both or neither."""
    slow, fast = (bool(pattern.search(label)) for label in labels(trial))
    return None if slow == fast else slow


def counts_of(trial: Comparison, topic: Topic) -> tuple[int, int]:
    """How many of a thing the slow and the fast side have; 0 where the text does not tell."""
    from unslow.think.words.presence import counts  # noqa: PLC0415

    return counts(*labels(trial), topic)


def set_elsewhere(fact: Fact[T], trial: Comparison) -> T | None:
    """A setting as something else than the account of the trial shows it: the trial's own text names both sides."""
    return fact.value if isinstance(fact, Known) and _text_of(fact.source) != _text_of(trial.source) else None


def _text_of(source: str) -> str:
    """A source without the number of its line."""
    return source.rpartition(":")[0] or source


@lru_cache(maxsize=256)
def labels(trial: Comparison) -> tuple[str, str]:
    """What is said of the slow side and of the fast one; older accounts hold it in their text only."""
    if trial.slow_is or trial.fast_is:
        return trial.slow_is, trial.fast_is
    from unslow.think.words.reread import labels_in  # noqa: PLC0415

    return labels_in(trial)


def _is_slow(side: Side | None) -> bool | None:
    return None if side is None else side == "slow"
