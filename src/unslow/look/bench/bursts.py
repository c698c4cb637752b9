"""Pauses of a stream after which many pieces come at once: somebody between the server and here held them back.

A server that pauses goes on where it was, one token after the other. Steps that give several tokens at once, by drafts
or by a scheduler that plans ahead, give a handful; a proxy collects kilobytes.
"""

from collections.abc import Sequence
from itertools import pairwise

LEAST_PAUSE_S = 0.5
"""A pause that everybody sees."""
LEAST_TOKENS = 16
"""Times a token's own time: more than any step of speculative decoding gives at once."""
FEWEST_AT_ONCE, AT_ONCE = 8, 0.1
"""Pieces that follow within this share of the pause."""


def held_back_s(arrivals_s: Sequence[float], token_s: float) -> float:
    """Seconds of all such pauses, given when each piece came and what a token takes on average."""
    least = max(LEAST_PAUSE_S, LEAST_TOKENS * token_s)
    pauses = [
        (number, later - earlier)
        for number, (earlier, later) in enumerate(pairwise(arrivals_s))
        if later - earlier >= least
    ]
    return sum(pause for number, pause in pauses if _are_at_once(arrivals_s[number + 1 :], pause))


def _are_at_once(after: Sequence[float], pause_s: float) -> bool:
    """Whether many pieces came right after a pause, or all that were left."""
    last = min(FEWEST_AT_ONCE, len(after)) - 1
    return last > 0 and after[last] - after[0] <= AT_ONCE * pause_s
