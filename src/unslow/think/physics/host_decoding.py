"""The time of one generated token on a CPU, as terms.

    time = bytes / bandwidth x (1 + waste)
         + weights / arithmetic x operations, which differ by the type of the weights and by the width of vectors
         + rows of matrices, each of which is begun and summed up
         + attention: products of one vector with many short ones
         + layers x threads x waiting for each other

No line of it needs a measurement of this machine; `calibration` has the form that does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from unslow.think.physics.decoding import by_kind, deviating, kind_factors
from unslow.think.physics.terms import Factor, Term

if TYPE_CHECKING:
    from unslow.think.physics.amounts import Amounts
    from unslow.think.physics.chip import Chip, Setting

HOST_READS, HOST_COMPUTE, HOST_LAYERS = "host memory reads", "host compute", "host layer overhead"
HOST_ATTENTION = "host attention"


def host_decode_terms(amounts: Amounts, chip: Chip, setting: Setting) -> Iterator[Term]:
    """What a step costs on a CPU that holds all of these amounts."""
    read = amounts.dense_bytes + amounts.expert_bytes + amounts.cache_bytes + 2 * amounts.state_bytes
    yield Term(HOST_READS, read / chip.bytes_per_s)
    yield Term(HOST_READS, read / chip.bytes_per_s, deviating("waste", setting))
    wide = (Factor("wide vectors/cpu"),) if setting.wide_vectors else ()
    for kind, weights in by_kind(amounts, setting).items():
        apart = (Factor(f"beside gpu/cpu/{kind}"),) if setting.beside_gpu else ()
        product = (*deviating("product", setting), *wide, *kind_factors(kind, "cpu"), *apart)
        yield Term(HOST_COMPUTE, weights * amounts.tokens / chip.flops_per_s, product)
    rows = (amounts.dense_weights + amounts.expert_weights) / amounts.width if amounts.width else 0.0
    yield Term(HOST_COMPUTE, rows * amounts.tokens / chip.threads, (Factor("row/cpu"),))
    yield Term(HOST_ATTENTION, amounts.attention_products / chip.flops_per_s, (Factor("attention/cpu"),))
    yield Term(HOST_LAYERS, amounts.layers * chip.threads, (Factor("barrier/cpu"),))
    yield Term(HOST_LAYERS, amounts.layers, (Factor("layer/cpu"),))
    yield Term(HOST_LAYERS, amounts.expert_layers * chip.threads, (Factor("expert barrier/cpu"),))
    yield Term(HOST_LAYERS, 1.0, (Factor("step/cpu"),))
