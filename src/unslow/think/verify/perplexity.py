"""How well two servers expect the same text: perplexities, paired place by place, and how often they choose alike.

Most of the scatter of a perplexity is that of the text: paired, it cancels, so that two hundred places tell a percent.
"""

import math
import statistics
from typing import NamedTuple

from unslow.facts.verified import Scored
from unslow.think.bench.spread import CONFIDENCE
from unslow.think.bench.student import quantile

FEWEST_PLACES = 24
"""Fewer tell nothing of a text."""
LEAST_ALIKE = 0.65
"""Of the places, where the likeliest token is the same. Weights of two bits still keep 71 to 86 % of them (Same top p
in llama.cpp's tools/perplexity/README.md); less is another model."""
_MOST_LOG = 20.0


class Expected(NamedTuple):
    """Perplexities before and after, the change as a share with its interval, and the share of places that agree."""

    places: int
    before: float
    after: float
    increase: float
    low: float
    high: float
    alike: float
    alike_high: float
    """What that share is at most, with 97.5 % confidence."""

    @property
    def is_another_model(self) -> bool:
        """Whether it would choose other tokens far too often."""
        return self.alike_high < LEAST_ALIKE


def reads_alike(before: Scored, after: Scored) -> bool:
    """Whether both read the text in the same tokens; as far as both have room for it."""
    length = min(len(before.tokens), len(after.tokens))
    return before.tokens[:length] == after.tokens[:length]


def expected_of(before: Scored, after: Scored) -> Expected | None:
    """What the places that both were asked at tell; None where there are too few."""
    old = dict(zip(before.at, zip(before.log_probabilities, before.likeliest, strict=True), strict=True))
    new = dict(zip(after.at, zip(after.log_probabilities, after.likeliest, strict=True), strict=True))
    places = [place for place in old if place in new]
    if len(places) < FEWEST_PLACES:
        return None
    rises = [old[place][0] - new[place][0] for place in places]
    middle = statistics.fmean(rises)
    reach = quantile(CONFIDENCE, len(rises) - 1) * statistics.stdev(rises) / math.sqrt(len(rises))
    alike = sum(old[place][1] == new[place][1] for place in places)
    return Expected(
        places=len(places),
        before=_perplexity([old[place][0] for place in places]),
        after=_perplexity([new[place][0] for place in places]),
        increase=_share(middle),
        low=_share(middle - reach),
        high=_share(middle + reach),
        alike=alike / len(places),
        alike_high=_highest_share(alike, len(places)),
    )


def _perplexity(log_probabilities: list[float]) -> float:
    return math.exp(min(_MOST_LOG, -statistics.fmean(log_probabilities)))


def _share(log: float) -> float:
    return math.expm1(max(-_MOST_LOG, min(_MOST_LOG, log)))


def _highest_share(alike: int, places: int) -> float:
    """The upper end of Wilson's interval."""
    z = statistics.NormalDist().inv_cdf((1 + CONFIDENCE) / 2)
    share = alike / places
    centre = share + z * z / (2 * places)
    reach = z * math.sqrt(share * (1 - share) / places + z * z / (4 * places * places))
    return min(1.0, (centre + reach) / (1 + z * z / places))
