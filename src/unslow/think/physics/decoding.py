"""The time of one generated token on a GPU, as terms.

    bytes / bandwidth                     no kernel is faster
    + bytes / bandwidth x waste           kernels that do not keep the memory busy all the time
    + weights / arithmetic x operations   unpacking and multiplying what was read
    + layers x (launch + width x small kernels), experts and states on top
    + keys and values / bandwidth x what attention costs
    + a step's own cost: graph, sampling, the way to the host and back

Every factor is learned for a backend, and deviates for a family of chips as far as measurements of it say so.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from unslow.think.physics.batching import batched_product_terms, share_of_few
from unslow.think.physics.cache import reading_bytes_per_s
from unslow.think.physics.chip import Chip, Setting, progress
from unslow.think.physics.kinds import HALF, class_of_kind
from unslow.think.physics.numbers import larger, smaller
from unslow.think.physics.terms import KEPT, Factor, Factors, Term

if TYPE_CHECKING:
    from unslow.think.physics.amounts import Amounts
    from unslow.think.physics.numbers import Number

REFERENCE_WIDTH = 4096
REREADING = ("cuda", "rocm")
"""Backends whose attention without flash attention reads keys and values once for every query head that shares them."""
REREAD = 0.5
"""Of what it reads again, the part that its last cache does not serve: without flash attention an 8B model with four
query heads a key took 0.62 ms more for 16,384 tokens on an H200, where reading three times again would take 1.3
(lab/data/h200_speed_learning.jsonl), and 1.5 of 2.7 ms more for 32,000."""
MOST_SHARING = 8.0
"""Query heads a key that this is believed of: the one latent that all heads of DeepSeek's models share was not measured
without flash attention."""
READS, COMPUTE, LAUNCHES, ROUND_TRIP = "device memory reads", "compute", "kernel launches", "round trip"


def decode_terms(amounts: Amounts, chip: Chip, setting: Setting, year: Number) -> Iterator[Term]:
    """What a step costs on a GPU that holds all of these amounts."""
    yield from read_terms(amounts, chip, setting)
    yield from product_terms(amounts, chip, setting, year)
    yield from launch_terms(amounts, setting, year)
    yield Term(ROUND_TRIP, 1.0, (Factor(f"step/{setting.backend}"), *own("step", setting), *_overhead(setting, year)))
    if not serves_many(setting):  # which samples for all conversations at once, on the GPU
        yield Term(ROUND_TRIP, amounts.tokens - 1, (Factor(f"conversation/{setting.backend}"),))


def serves_many(setting: Setting) -> bool:
    """Whether the engine is made for many conversations, as vLLM and its kin are.

    Its matrix units multiply plain weights from the first conversation on, while they arrive; it has no other kernels
    for many, samples for all at once, and with recorded graphs its host costs nothing: torch.compile fuses what is
    small, and only packed weights have small kernels of their own (scales, activations). What was learned of
    llama.cpp in these is not charged: of Llama 3 8B in BF16 on an H200, vLLM 0.26 was measured at 4.95 ms a step for
    one, 5.2 for 4, 5.4 for 16 and 7.3 for 64 conversations (tests/machines/vllm_0_26_h200_full).
    """
    return setting.runtime == "vllm"


def read_terms(amounts: Amounts, chip: Chip, setting: Setting) -> Iterator[Term]:
    """Reading weights, keys and values, and states."""
    waste = (*deviating("waste", setting), *_runtime("waste", setting))
    read = amounts.dense_bytes + amounts.expert_bytes
    yield Term(READS, read / reading_bytes_per_s(read, chip))
    yield Term(READS, amounts.dense_bytes / chip.bytes_per_s, waste)
    experts = (Factor(f"expert waste/{setting.backend}"), *waste[1:], *own("expert waste", setting))
    yield Term(READS, amounts.expert_bytes / chip.bytes_per_s, experts)
    yield Term(READS, 2 * amounts.state_bytes / chip.bytes_per_s)  # read, and written again
    unfused = () if setting.fused else (Factor(f"unfused/{setting.backend}"),)
    cache = amounts.cache_bytes / chip.bytes_per_s
    yield Term(READS, cache)
    yield Term(READS, cache, (Factor(f"cache waste/{setting.backend}"), *unfused, *own("cache waste", setting)))
    if not setting.fused and setting.backend in REREADING:
        heads_per_key = amounts.attention_products / larger(amounts.cache_elements, 1.0)
        yield Term(READS, cache * REREAD * larger(smaller(heads_per_key, MOST_SHARING) - 1, 0.0))
    if setting.packed_cache:
        unpacked = amounts.cache_elements / chip.flops_per_s
        yield Term(COMPUTE, unpacked, (Factor(f"packed cache/{setting.backend}"),))


def product_terms(amounts: Amounts, chip: Chip, setting: Setting, year: Number) -> Iterator[Term]:
    """Unpacking and multiplying, which the plain units do, and which takes longer for some types than for others."""
    if serves_many(setting) and setting.types == HALF:  # nothing is unpacked first
        products = sum(by_kind(amounts, setting).values()) * amounts.tokens
        yield Term(COMPUTE, 2 * products / chip.matrix_flops_per_s, (Factor(f"batch/{setting.backend}"),))
        return
    common = (*deviating("product", setting), _progress(setting, year))
    for kind, weights in by_kind(amounts, setting).items():
        factors = (*common, *kind_factors(kind, setting.backend))
        met = amounts.met_kinds.get(kind, weights)
        yield from batched_product_terms(COMPUTE, weights, met, amounts.tokens, chip, factors, setting.backend)


def by_kind(amounts: Amounts, setting: Setting) -> Mapping[str, Number]:
    """The weights by kind; all of the setting's class where nothing tells them apart."""
    return amounts.kinds or {setting.types: amounts.dense_weights + amounts.expert_weights}


@lru_cache(maxsize=KEPT)
def kind_factors(kind: str, backend: str) -> Factors:
    """How a kind deviates from its class, everywhere and on one backend."""
    class_ = class_of_kind(kind)
    apart = () if kind == class_ else (Factor(f"types/{class_}/{kind}"), Factor(f"types/{backend}/{kind}"))
    return Factor(f"types/{class_}"), Factor(f"types/{backend}/{class_}"), *apart


def launch_terms(amounts: Amounts, setting: Setting, year: Number) -> Iterator[Term]:
    """What layers cost beyond their bytes: launches, and kernels too small to fill the chip."""
    per_layer = (*deviations("launch", setting), *_overhead(setting, year))
    wide = amounts.layers * amounts.width / REFERENCE_WIDTH
    counts = (("layer", amounts.layers), ("wide layer", wide), ("expert layer", amounts.expert_layers))
    many = 0.0 if serves_many(setting) else amounts.layers * (1 - share_of_few(amounts.tokens))
    for kind, count in (*counts, ("state layer", amounts.state_layers), ("batched layer", many)):
        yield Term(LAUNCHES, count, (Factor(f"{kind}/{setting.backend}"), *per_layer, *own(kind, setting)))


@lru_cache(maxsize=KEPT)
def deviating(kind: str, setting: Setting) -> Factors:
    """A backend's factor, how a family deviates from it, and how a device does from its family."""
    return Factor(f"{kind}/{setting.backend}"), *deviations(kind, setting)


@lru_cache(maxsize=KEPT)
def deviations(kind: str, setting: Setting) -> Factors:
    """How a family deviates from its backend, and a device from its family."""
    family = f"{kind}/{setting.backend}/{setting.family}"
    own = (Factor(f"{family}/{setting.device}"),) if setting.device else ()
    return Factor(family), *own


@lru_cache(maxsize=KEPT)
def own(kind: str, setting: Setting) -> Factors:
    """What only a device that was measured closely deviates in."""
    if not setting.device:
        return ()
    return (Factor(f"own {kind}/{setting.backend}/{setting.family}/{setting.device}"),)


def _overhead(setting: Setting, year: Number) -> Factors:
    """What makes all overheads larger or smaller."""
    host = (Factor("slow host"),) if setting.slow_host else ()
    newer = Factor(f"launch progress/{setting.backend}", progress(year))
    recorded = serves_many(setting) and setting.graphs and setting.types == HALF
    return newer, *host, *(() if recorded else _runtime("launch", setting))


def _progress(setting: Setting, year: Number) -> Factor:
    return Factor(f"progress/{setting.backend}", progress(year))


@lru_cache(maxsize=KEPT)
def _runtime(kind: str, setting: Setting) -> Factors:
    return (Factor(f"{kind}/runtime/{setting.runtime}"),) if setting.runtime else ()
