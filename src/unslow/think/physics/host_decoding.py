"""The time of one generated token on a CPU, as terms.

    time = the longer of two sides, nearly, as cores fetch the next weights while they multiply these:
             reading:   bytes / bandwidth x (1 + waste)
             computing: weights / arithmetic x operations, which differ by the weights' type and the vectors' width
                        + rows of matrices, each of which is begun and summed up
                        + attention: products of one vector with many short ones
         + layers x threads x waiting for each other

No line of it needs a measurement of this machine; `calibration` has the form that does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from unslow.think.physics.decoding import by_kind, deviating, kind_factors
from unslow.think.physics.numbers import at_most, larger
from unslow.think.physics.terms import Factor, Factors, Term

if TYPE_CHECKING:
    from unslow.think.physics.amounts import Amounts
    from unslow.think.physics.chip import Chip, Setting

HOST_READS, HOST_COMPUTE, HOST_LAYERS = "host memory reads", "host compute", "host layer overhead"
HOST_ATTENTION = "host attention"
FUSED_ON_CPU, PACKED_ON_CPU = 1.7, 1.33
"""Flash attention on a CPU, and of a cache in q8_0: at 4,096 tokens of depth a layer of Llama 3.1 8B beside an H200
took 16 threads 1.39 ms, and 1.86 with q8_0 (lab/plan_gpu), where a server's plain kernels are expected to take 0.83."""
READING, COMPUTING = "reading", "computing"
"""The two sides of a token on a CPU."""


def host_decode_terms(amounts: Amounts, chip: Chip, setting: Setting) -> Iterator[Term]:
    """What a step costs on a CPU that holds all of these amounts."""
    read = amounts.dense_bytes + amounts.expert_bytes + amounts.cache_bytes + 2 * amounts.state_bytes
    yield Term(HOST_READS, read / chip.bytes_per_s, side=READING)
    yield Term(HOST_READS, read / chip.bytes_per_s, deviating("waste", setting), READING)
    common = (*deviating("product", setting), *_vectors(setting))
    for kind, weights in by_kind(amounts, setting).items():
        product = (*common, *kind_factors(kind, "cpu"), *_rearranged(kind, setting))
        yield Term(HOST_COMPUTE, weights * amounts.tokens / chip.flops_per_s, product, COMPUTING)
    known = at_most(1.0, amounts.width)  # else nothing is said of rows
    rows = (amounts.dense_weights + amounts.expert_weights) / larger(amounts.width, 1.0) * known
    yield Term(HOST_COMPUTE, rows * amounts.tokens / chip.threads, (Factor("row/cpu"),), COMPUTING)
    attention = (Factor("attention/cpu"), *_servers(setting))
    yield Term(HOST_ATTENTION, amounts.attention_products * _fused(setting) / chip.flops_per_s, attention, COMPUTING)
    yield Term(HOST_LAYERS, amounts.layers * chip.threads, (Factor("barrier/cpu"),))
    yield Term(HOST_LAYERS, amounts.layers, (Factor("layer/cpu"),))
    yield Term(HOST_LAYERS, amounts.expert_layers * chip.threads, (Factor("expert barrier/cpu"),))
    yield Term(HOST_LAYERS, 1.0, (Factor("step/cpu"),))


def _vectors(setting: Setting) -> Factors:
    """Wider vectors, servers that compute less than their clock says, and forks with kernels of their own."""
    wide = (Factor("wide vectors/cpu"),) if setting.wide_vectors else ()
    fork = (Factor(f"product/runtime/{setting.runtime}"),) if setting.runtime else ()
    return *wide, *_servers(setting), *fork


def _servers(setting: Setting) -> Factors:
    return (Factor("server/cpu"),) if setting.server else ()


def _fused(setting: Setting) -> float:
    """How many times as long attention takes in one kernel, which a GPU beside the CPU makes llama.cpp choose."""
    if not setting.beside_gpu or not setting.fused:
        return 1.0
    return FUSED_ON_CPU * (PACKED_ON_CPU if setting.packed_cache else 1.0)


def _rearranged(kind: str, setting: Setting) -> Factors:
    """How weights lie: as in the file beside a GPU, else in an order for AMX where there is that."""
    if setting.beside_gpu:
        return (Factor(f"beside gpu/cpu/{kind}"),)
    return (Factor(f"tiles/cpu/{kind}"),) if setting.tiles else ()
