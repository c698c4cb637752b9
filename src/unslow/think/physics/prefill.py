"""The time of one prompt token as terms: where a GPU computes, where the CPU does, or lends its weights."""

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from unslow.think.physics import decode
from unslow.think.physics.chip import Chip, SpeedSetting, progress
from unslow.think.physics.placement import F16_BYTES, LINK, SPLIT_BY_LAYER
from unslow.think.physics.terms import KEPT, Factor, Factors, Number, Term, larger, logarithm

_ACTIVATIONS = 20  # numbers of two bytes that a token writes and reads in each layer, for each of its width, about
PICO = 1e-12
ROW_BY_ROW = {"q4_1": 2.7, "q5_0": 1.9, "q5_1": 3.5}
"""How many times as long as for Q4_0 products take of types that llama.cpp does not rearrange for whole matrices on a
CPU, but multiplies row by row (`repack.cpp` and `sgemm.cpp` in ggml-cpu). Two cores with AVX-512 multiplied 55 billion
weights a second of Q4_0, 20 of Q4_1, 30 of Q5_0 and 16 of Q5_1. What other types take was learned of their class."""


class Prompt(NamedTuple):
    """What a prompt token asks, and how many of them share a micro-batch."""

    amounts: decode.Amounts  # Of one micro-batch: the experts that its tokens meet together are counted whole
    token_weights: Number  # That one token is multiplied with, without the output
    token_expert_weights: Number
    attention_products: Number  # Multiply-adds of attention for one token, at its depth
    micro_batch: Number
    is_quantised: bool = True
    gpus: Number = 1.0
    split: str = SPLIT_BY_LAYER
    pipelined: Number = 1.0  # How many GPUs work at once on micro-batches of one prompt
    peers: bool = True

    @property
    def parts(self) -> Number:
        """Into how many parts every matrix is split."""
        return 1.0 if self.split == SPLIT_BY_LAYER else self.gpus


def prefill_terms(prompt: Prompt, chip: Chip, setting: SpeedSetting, year: Number) -> Iterator[Term]:
    """What a prompt token costs on GPUs.

        operations / matrix arithmetic x 1 / utilisation + operations / power x energy
        + what a micro-batch shares: weights read, unpacked, launches
        + attention, which grows with depth

    The largest GPUs do not reach what their matrix units could do, because they would have to draw more than they may.
    """
    pipeline = Factor("pipeline", logarithm(prompt.pipelined))
    shared = (Factor(f"prompt progress/{setting.backend}", progress(year)), pipeline)
    yield from _product_terms(prompt, chip, setting, shared)
    # Weights, which all tokens of a micro-batch share: read, and unpacked; and each token's own activations
    amounts, each = prompt.amounts, chip.bytes_per_s * prompt.micro_batch * prompt.parts
    yield Term(decode.READS, (amounts.dense_bytes + amounts.expert_bytes) / each, (pipeline,))
    if prompt.is_quantised:
        unpacked = 2 * F16_BYTES * (amounts.dense_weights + amounts.expert_weights)
        yield Term(decode.READS, unpacked / each, (Factor(f"unpacking/{setting.backend}"), *shared))
    activations = amounts.layers * amounts.width * _ACTIVATIONS / chip.bytes_per_s
    yield Term(decode.READS, activations, (Factor(f"activations/{setting.backend}"), pipeline))
    # Launches, which all tokens of a micro-batch share too
    host = (Factor("slow host prompt"),) if setting.slow_host else ()
    kinds = {"layer": amounts.layers, "expert layer": amounts.expert_layers, "state layer": amounts.state_layers}
    for kind, count in kinds.items():
        factors = (Factor(f"prompt {kind}/{setting.backend}"), *decode.device_factors(f"prompt {kind}", setting))
        yield Term(decode.LAUNCHES, count / prompt.micro_batch, (*factors, *shared, *host))
    unfused = () if setting.fused else (Factor(f"unfused prompt/{setting.backend}"),)
    seconds = 2 * prompt.attention_products / chip.matrix_flops_per_s
    yield Term(decode.COMPUTE, seconds, (*decode.deviating("prompt attention", setting), *unfused, *shared))
    yield from link_terms(prompt, setting)


def _product_terms(prompt: Prompt, chip: Chip, setting: SpeedSetting, shared: Factors) -> Iterator[Term]:
    types = (*_type_factors(setting), *shared)
    dense, experts = 2 * prompt.token_weights / prompt.parts, 2 * prompt.token_expert_weights / prompt.parts
    used = (*decode.deviating("prompt", setting), *types)
    yield Term(decode.COMPUTE, dense / chip.matrix_flops_per_s, used)
    sparse = (Factor(f"prompt experts/{setting.backend}"), *decode.device_factors("prompt experts", setting))
    yield Term(decode.COMPUTE, experts / chip.matrix_flops_per_s, (*used, *sparse))
    if bool(chip.watts > 0) if isinstance(chip.watts, (int, float)) else bool((chip.watts > 0).all()):
        energy = (*decode.deviating("energy", setting), *types)
        yield Term(decode.COMPUTE, (dense + experts) * PICO / chip.watts, energy)


@lru_cache(maxsize=KEPT)
def _type_factors(setting: SpeedSetting) -> Factors:
    """How a class of types deviates: everywhere, on a backend, and on a device."""
    types, backend = setting.types, setting.backend
    own = decode.device_factors(f"prompt {types}", setting)
    return Factor(f"prompt types/{types}"), Factor(f"prompt types/{backend}/{types}"), *own


def link_terms(prompt: Prompt, setting: SpeedSetting) -> Iterator[Term]:
    """Sending a token's state on to the next GPU, or gathering it from all in every layer."""
    width, others = prompt.amounts.width, prompt.gpus - 1
    if prompt.split == SPLIT_BY_LAYER:
        yield Term(LINK, others * width, (Factor("prompt crossing"),))
        return
    ways = (Factor("linked"),) if setting.linked else () if prompt.peers else (Factor("no peers prompt"),)
    layers, split = prompt.amounts.layers, prompt.split
    yield Term(LINK, layers * width * others, (Factor(f"prompt gather/{split}"), *ways))
    yield Term(LINK, layers * others / prompt.micro_batch, (Factor(f"prompt gather each/{split}"), *ways))


def pipelined_gpus(gpus: Number, micro_batches: Number) -> Number:
    """How many GPUs work at once on so many micro-batches that go from one to the next."""
    return micro_batches * gpus / (micro_batches + gpus - 1)


def host_prefill_terms(prompt: Prompt, chip: Chip, setting: SpeedSetting) -> Iterator[Term]:
    """A prompt token on a CPU alone."""
    amounts = prompt.amounts
    yield Term(decode.HOST_READS, (amounts.dense_bytes + amounts.expert_bytes) / chip.bytes_per_s / prompt.micro_batch)
    # each pass over the weights begins as for one token: of a small model, two cores took 16 ms more for each 8 tokens
    for term in decode.host_decode_terms(amounts._replace(tokens=1.0), chip, setting):
        if term.part != decode.HOST_READS:
            yield term._replace(seconds=term.seconds / prompt.micro_batch, side="")
    # Wider vectors, and forks with kernels of their own: whole matrices gain more by both than single vectors do
    wide = (Factor("prompt wide vectors/cpu"),) if setting.wide_vectors else ()
    fork = (Factor(f"prompt product/runtime/{setting.runtime}"),) if setting.runtime else ()
    used = (Factor("prompt/cpu"), Factor(f"prompt types/cpu/{setting.types}"), *wide, *fork)
    # How many times as long all products take as if there were a kernel for whole matrices of every type
    every: Number = 0.0
    longer: Number = 0.0
    for kind, weights in decode.by_kind(amounts, setting).items():
        every, longer = every + weights, longer + weights * (ROW_BY_ROW.get(kind, 1.0) - 1)
    products = 2 * (prompt.token_weights + prompt.token_expert_weights) * (1 + longer / larger(every, 1.0))
    yield Term(decode.HOST_COMPUTE, products / chip.flops_per_s, used)
    yield Term(decode.HOST_COMPUTE, 2 * prompt.attention_products / chip.flops_per_s, (Factor("prompt attention/cpu"),))


def lent_weights_terms(prompt: Prompt, link_bytes_per_s: Number, setting: SpeedSetting) -> Iterator[Term]:
    """A prompt token on a GPU, whose weights lie in the host's memory: copied once for each micro-batch."""
    amounts, each = prompt.amounts, prompt.micro_batch
    for kind, lent in (("prompt copy", amounts.dense_bytes), ("prompt copy experts", amounts.expert_bytes)):
        factors = (Factor(f"{kind}/{setting.backend}"), *decode.device_factors(kind, setting))
        yield Term(LINK, lent / link_bytes_per_s / each, factors)
