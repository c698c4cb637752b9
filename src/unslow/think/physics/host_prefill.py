"""The time of one prompt token where the CPU computes, or where it lends its weights to a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from unslow.think.physics.decoding import by_kind, own
from unslow.think.physics.host_decoding import HOST_COMPUTE, HOST_READS, host_decode_terms
from unslow.think.physics.interconnect import LINK
from unslow.think.physics.numbers import larger
from unslow.think.physics.terms import Factor, Factors, Term

if TYPE_CHECKING:
    from unslow.think.physics.amounts import Amounts
    from unslow.think.physics.chip import Chip, Setting
    from unslow.think.physics.numbers import Number
    from unslow.think.physics.prefill import Prompt

ROW_BY_ROW = {"q4_1": 2.7, "q5_0": 1.9, "q5_1": 3.5}
"""How many times as long as for Q4_0 products take of types that llama.cpp does not rearrange for whole matrices on a
CPU, but multiplies row by row (`repack.cpp` and `sgemm.cpp` in ggml-cpu). Two cores with AVX-512 multiplied 55 billion
weights a second of Q4_0, 20 of Q4_1, 30 of Q5_0 and 16 of Q5_1. What other types take was learned of their class."""


def host_prefill_terms(prompt: Prompt, chip: Chip, setting: Setting) -> Iterator[Term]:
    """A prompt token on a CPU alone."""
    amounts = prompt.amounts
    yield Term(HOST_READS, (amounts.dense_bytes + amounts.expert_bytes) / chip.bytes_per_s / prompt.micro_batch)
    # each pass over the weights begins as for one token: of a small model, two cores took 16 ms more for each 8 tokens
    for term in host_decode_terms(amounts._replace(tokens=1.0), chip, setting):
        if term.part != HOST_READS:
            yield term._replace(seconds=term.seconds / prompt.micro_batch, side="")
    used = (Factor("prompt/cpu"), Factor(f"prompt types/cpu/{setting.types}"), *_vectors(setting))
    products = 2 * (prompt.token_weights + prompt.token_expert_weights) * _row_by_row(amounts, setting)
    yield Term(HOST_COMPUTE, products / chip.flops_per_s, used)
    yield Term(HOST_COMPUTE, 2 * prompt.attention_products / chip.flops_per_s, (Factor("prompt attention/cpu"),))


def _vectors(setting: Setting) -> Factors:
    """Wider vectors, and forks with kernels of their own: whole matrices gain more by both than single vectors do."""
    wide = (Factor("prompt wide vectors/cpu"),) if setting.wide_vectors else ()
    fork = (Factor(f"prompt product/runtime/{setting.runtime}"),) if setting.runtime else ()
    return *wide, *fork


def _row_by_row(amounts: Amounts, setting: Setting) -> Number:
    """How many times as long all products take as if there were a kernel for whole matrices of every type."""
    every: Number = 0.0
    longer: Number = 0.0
    for kind, weights in by_kind(amounts, setting).items():
        every, longer = every + weights, longer + weights * (ROW_BY_ROW.get(kind, 1.0) - 1)
    return 1 + longer / larger(every, 1.0)


def lent_weights_terms(prompt: Prompt, link_bytes_per_s: Number, setting: Setting) -> Iterator[Term]:
    """A prompt token on a GPU, whose weights lie in the host's memory: copied once for each micro-batch."""
    amounts, each = prompt.amounts, prompt.micro_batch
    for kind, lent in (("prompt copy", amounts.dense_bytes), ("prompt copy experts", amounts.expert_bytes)):
        factors = (Factor(f"{kind}/{setting.backend}"), *own(kind, setting))
        yield Term(LINK, lent / link_bytes_per_s / each, factors)
