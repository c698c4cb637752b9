"""How far two sets of answers agree: how many begin with the same word, and how long each pair stays together.

Answers without any chance still differ from run to run on some machines: sums in another order round otherwise, and one
other word changes all that follow. So what counts is the agreement with the changed server against that of the old one
with itself.
"""

import math
import re
from collections.abc import Sequence
from itertools import takewhile
from typing import NamedTuple

_PIECES = re.compile(r"\w+|[^\w\s]")
RARE = 0.01
"""How often chance may show such a fall of the first words."""
FAR_BELOW = 0.5
"""Of the agreement of the old server with itself: a coarser quant keeps far more of its first words."""

MAY_BE_ANOTHER = 0.25
"""Of the words that the old server keeps with itself: from here down it may be another model that begins alike."""


class Agreement(NamedTuple):
    """Of so many pairs: those that begin alike, and the mean share of their words before they part."""

    pairs: int
    begin_alike: int
    together: float


def words_of(text: str) -> list[str]:
    """Words and signs: a measure that is the same whatever the tokens of a model are."""
    return _PIECES.findall(text)


def agreement_of(one: Sequence[str], other: Sequence[str]) -> Agreement | None:
    """The agreement of two sets of answers to the same questions; None where there is no pair."""
    pairs = [(words_of(a), words_of(b)) for a, b in zip(one, other, strict=False)]
    if not pairs:
        return None
    alike = sum(a[:1] == b[:1] for a, b in pairs)
    return Agreement(len(pairs), alike, sum(_share_together(a, b) for a, b in pairs) / len(pairs))


def _share_together(one: Sequence[str], other: Sequence[str]) -> float:
    length = max(len(one), len(other))
    same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False)))
    return same / length if length else 1.0


def is_far_below(found: Agreement, usual: Agreement) -> bool:
    """Whether fewer answers begin alike than the old server's own do, by far and by more than chance."""
    if found.begin_alike / found.pairs >= FAR_BELOW * usual.begin_alike / usual.pairs:
        return False
    return rarer_alike(found, usual) < RARE


def parts_early(found: Agreement, usual: Agreement) -> bool:
    """Whether answers go their own way so early that a like beginning says little."""
    return found.together < MAY_BE_ANOTHER * usual.together


def rarer_alike(found: Agreement, usual: Agreement) -> float:
    """How often chance alone puts so few of the agreeing pairs on this side (Fisher's exact test)."""
    alike, pairs = found.begin_alike + usual.begin_alike, found.pairs + usual.pairs
    ways = math.comb(pairs, alike)
    fewest = max(0, alike - usual.pairs)
    counts = range(fewest, found.begin_alike + 1)
    return sum(math.comb(found.pairs, n) * math.comb(usual.pairs, alike - n) for n in counts) / ways
