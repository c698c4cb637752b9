"""Several conversations in one step: weights are read once for all, products are computed for each.

Up to a few conversations, each is multiplied as if it were alone. Beyond, the matrix units take over: they cost more
to begin with and next to nothing for each further conversation, up to the ridge where they are busy all the time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from unslow.think.physics.numbers import at_most
from unslow.think.physics.terms import Factor, Factors, Term

if TYPE_CHECKING:
    from unslow.think.physics.chip import Chip
    from unslow.think.physics.numbers import Number

FEW = 8
"""As many as llama.cpp multiplies one by one (MMVQ_MAX_BATCH_SIZE)."""


def batched_product_terms(
    part: str, weights: Number, met: Number, tokens: Number, chip: Chip, factors: Factors, backend: str
) -> Iterator[Term]:
    """What products cost for so many tokens: `weights` for one of them, `met` are all that they meet together."""
    few, many = share_of_few(tokens), 1 - share_of_few(tokens)
    one = weights / chip.flops_per_s
    yield Term(part, one * few, factors)
    yield Term(part, one * (tokens - 1) * few, (*factors, Factor(f"batched/{backend}")))
    yield Term(part, met / chip.flops_per_s * many, (*factors, Factor(f"tiles/{backend}")))
    yield Term(part, 2 * weights * tokens / chip.matrix_flops_per_s * many, (Factor(f"batch/{backend}"),))


def share_of_few(tokens: Number) -> Number:
    """1 where the tokens are few, 0 where they are many."""
    return at_most(tokens, FEW)


def ridge_tokens(bytes_per_weight: Number, chip: Chip) -> Number:
    """How many conversations keep the matrix units as busy as the memory."""
    return bytes_per_weight / chip.bytes_per_s * chip.matrix_flops_per_s / 2
