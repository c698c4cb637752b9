"""The time of one prompt token where the CPU computes, or where it lends its weights to a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from unslow.think.physics.decoding import own
from unslow.think.physics.host_decoding import HOST_COMPUTE, HOST_READS
from unslow.think.physics.interconnect import LINK
from unslow.think.physics.terms import Factor, Term

if TYPE_CHECKING:
    from unslow.think.physics.chip import Chip, Setting
    from unslow.think.physics.numbers import Number
    from unslow.think.physics.prefill import Prompt


def host_prefill_terms(prompt: Prompt, chip: Chip, setting: Setting) -> Iterator[Term]:
    """A prompt token on a CPU alone."""
    amounts = prompt.amounts
    yield Term(HOST_READS, (amounts.dense_bytes + amounts.expert_bytes) / chip.bytes_per_s / prompt.micro_batch)
    used = (Factor("prompt/cpu"), Factor(f"prompt types/cpu/{setting.types}"))
    products = 2 * (prompt.token_weights + prompt.token_expert_weights)
    yield Term(HOST_COMPUTE, products / chip.flops_per_s, used)
    yield Term(HOST_COMPUTE, 2 * prompt.attention_products / chip.flops_per_s, (Factor("prompt attention/cpu"),))


def lent_weights_terms(prompt: Prompt, link_bytes_per_s: Number, setting: Setting) -> Iterator[Term]:
    """A prompt token on a GPU, whose weights lie in the host's memory: copied once for each micro-batch."""
    amounts, each = prompt.amounts, prompt.micro_batch
    for kind, lent in (("prompt copy", amounts.dense_bytes), ("prompt copy experts", amounts.expert_bytes)):
        factors = (Factor(f"{kind}/{setting.backend}"), *own(kind, setting))
        yield Term(LINK, lent / link_bytes_per_s / each, factors)
