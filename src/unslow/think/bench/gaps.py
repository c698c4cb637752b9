"""The times between the tokens of one answer, as the client sees them.

A stream comes in pieces. Where a piece is one token, the gap between two pieces is the latency of a token. Some servers
put several tokens into one piece, some a part of one: the gap is then that of pieces, which is what a reader waits for.
It is never divided by the tokens of a piece, because that would make up latencies that nobody saw.
"""

import math
from collections.abc import Sequence
from itertools import pairwise

from unslow.facts.bench import Gaps


def gaps_of(arrivals_s: Sequence[float], generated_tokens: int) -> Gaps | None:
    """The gaps between pieces, those of tokens where each is one; None where fewer than two pieces tell nothing.

    `count` is the number of gaps: where it is far from `generated_tokens - 1`, the pieces are not tokens.
    """
    if generated_tokens < 1:
        return None
    gaps = sorted(max(0.0, later - earlier) for earlier, later in pairwise(arrivals_s))
    if not gaps:
        return None
    p50, p95, p99 = (quantile(gaps, share) for share in (0.50, 0.95, 0.99))
    return Gaps(count=len(gaps), p50_s=p50, p95_s=p95, p99_s=p99, max_s=gaps[-1])


def quantile(ordered: Sequence[float], share: float) -> float:
    """The smallest value that at least that share of all values does not exceed: always one that was really seen."""
    rank = math.ceil(share * len(ordered) - 1e-9)
    return ordered[min(max(rank, 1), len(ordered)) - 1]


def tokens_per_piece(generated_tokens: int, gaps: Gaps) -> float:
    """How many tokens came in a piece of the stream, on average."""
    return generated_tokens / (gaps.count + 1)
