"""The time of one generated token as terms, on a GPU and on a CPU, for one conversation or for a batch of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

from unslow.think.physics.chip import Chip, SpeedSetting, class_of_kind, progress, reading_bytes_per_s
from unslow.think.physics.terms import KEPT, Factor, Factors, Number, Term, at_most, larger, smaller

READS, COMPUTE, LAUNCHES, ROUND_TRIP = "device memory reads", "compute", "kernel launches", "round trip"
HOST_READS, HOST_COMPUTE, HOST_LAYERS = "host memory reads", "host compute", "host layer overhead"
HOST_ATTENTION = "host attention"
READING, COMPUTING = "reading", "computing"  # the two sides of a token on a CPU
LAUNCHED_ONE_BY_ONE = "launches one by one"
NO_AMOUNTS: Mapping[str, Number] = MappingProxyType({})
REFERENCE_WIDTH = 4096
FEW = 8  # as many as llama.cpp multiplies one by one (MMVQ_MAX_BATCH_SIZE)
REREADING = ("cuda", "rocm")
"""Backends whose attention without flash attention reads keys and values once for every query head that shares them."""
REREAD = 0.5
"""Of what it reads again, the part that its last cache does not serve: without flash attention an 8B model with four
query heads a key took 0.62 ms more for 16,384 tokens on an H200, where reading three times again would take 1.3
(lab/data/h200_speed_learning.jsonl), and 1.5 of 2.7 ms more for 32,000."""
MOST_SHARING = 8.0
"""Query heads a key that this is believed of: the one latent that all heads of DeepSeek's models share was not measured
without flash attention."""
FUSED_ON_CPU, PACKED_ON_CPU = 1.7, 1.33
"""Flash attention on a CPU, and of a cache in q8_0: at 4,096 tokens of depth a layer of Llama 3.1 8B beside an H200
took 16 threads 1.39 ms, and 1.86 with q8_0 (lab/plan_gpu), where a server's plain kernels are expected to take 0.83."""
_SHARPNESS = 3.0  # How nearly the longer of the two is all that counts: 1 is the sum, infinity the longer one alone


class Amounts(NamedTuple):
    """What a step reads and computes where it lies."""

    dense_bytes: Number = 0.0
    dense_weights: Number = 0.0
    expert_bytes: Number = 0.0  # Of the experts that are met
    expert_weights: Number = 0.0
    kinds: Mapping[str, Number] = NO_AMOUNTS  # The weights that one token meets, by the kind of their type
    cache_bytes: Number = 0.0  # Keys and values that are looked at
    cache_elements: Number = 0.0
    attention_products: Number = 0.0  # Multiply-adds of attention
    met_kinds: Mapping[str, Number] = NO_AMOUNTS  # The weights that all conversations meet together, by kind
    state_bytes: Number = 0.0
    layers: Number = 0.0
    expert_layers: Number = 0.0
    state_layers: Number = 0.0
    width: Number = 4096.0
    tokens: Number = 1.0  # Conversations that the step brings forward; weights are counted for one of them

    def share(self, parts: Number) -> Amounts:
        """One of so many equal parts of the weights and the cache; every part walks all layers."""
        return self._replace(
            **{name: getattr(self, name) / parts for name in _SHARED},
            kinds={kind: weights / parts for kind, weights in self.kinds.items()},
            met_kinds={kind: weights / parts for kind, weights in self.met_kinds.items()},
        )


_SHARED = tuple(name for name in Amounts._fields if name.endswith(("_bytes", "_weights", "_elements", "_products")))
"""What several GPUs divide among them, beside the weights by kind."""


class Launching(NamedTuple):
    """What a runtime's own work costs on the processor."""

    layer_s: float
    expert_layer_s: float
    step_s: float


PLAIN = Launching(62e-6, 25e-6, 450e-6)
"""llama.cpp without CUDA graphs: lab/data/h200_speed_learning.jsonl, section d, on one 16-core host."""
EAGER = Launching(720e-6, 700e-6, 1e-3)
"""Transformers in eager mode: the same, section j; a host with slower cores takes 1.4 times as long."""
SERVED = Launching(550e-6, 250e-6, 0.7e-3)
"""vLLM and its kin in eager mode, between a slow and a fast host: 22 and 19 ms a token for 28 and 24 layers, of which
the GPU needs 13 and 6 (https://github.com/vllm-project/vllm-omni/issues/7960); 14.2 ms for the 32 of Llama 3 8B on an
H200, of which it needs 5 (tests/machines/vllm_0_26_h200_eager). Their experts are one operation for all of a layer."""

PIECES = Launching(255e-6, 0.0, 0.7e-3)
"""vLLM whose graphs leave attention out, between a fast and a slow host: 8.1 and 9.3 ms a token for the 32 layers of
Llama 3 8B and the 28 of a 3B on an H200, of which it needs 5 and 3 (tests/machines/lab_vllm_graphs_of_pieces*)."""


def decode_terms(amounts: Amounts, chip: Chip, setting: SpeedSetting, year: Number) -> Iterator[Term]:
    """What a step costs on a GPU that holds all of these amounts.

        bytes / bandwidth                     no kernel is faster
        + bytes / bandwidth x waste           kernels that do not keep the memory busy all the time
        + weights / arithmetic x operations   unpacking and multiplying what was read
        + layers x (launch + width x small kernels), experts and states on top
        + keys and values / bandwidth x what attention costs
        + a step's own cost: graph, sampling, the way to the host and back

    Every factor is learned for a backend, and deviates for a family of chips as far as measurements of it say so.
    """
    yield from read_terms(amounts, chip, setting)
    yield from product_terms(amounts, chip, setting, year)
    # What layers cost beyond their bytes: launches, and kernels too small to fill the chip
    host = (Factor("slow host"),) if setting.slow_host else ()
    overhead = (Factor(f"launch progress/{setting.backend}", progress(year)), *host, *_runtime("launch", setting))
    per_layer = (*deviating("launch", setting)[1:], *overhead)
    wide = amounts.layers * amounts.width / REFERENCE_WIDTH
    counts = (("layer", amounts.layers), ("wide layer", wide), ("expert layer", amounts.expert_layers))
    many = amounts.layers * (1 - at_most(amounts.tokens, FEW))
    for kind, count in (*counts, ("state layer", amounts.state_layers), ("batched layer", many)):
        yield Term(LAUNCHES, count, (Factor(f"{kind}/{setting.backend}"), *per_layer, *device_factors(kind, setting)))
    yield Term(ROUND_TRIP, 1.0, (Factor(f"step/{setting.backend}"), *device_factors("step", setting), *overhead))
    yield Term(ROUND_TRIP, amounts.tokens - 1, (Factor(f"conversation/{setting.backend}"),))


def read_terms(amounts: Amounts, chip: Chip, setting: SpeedSetting) -> Iterator[Term]:
    """Reading weights, keys and values, and states."""
    waste = (*deviating("waste", setting), *_runtime("waste", setting))
    read = amounts.dense_bytes + amounts.expert_bytes
    yield Term(READS, read / reading_bytes_per_s(read, chip))
    yield Term(READS, amounts.dense_bytes / chip.bytes_per_s, waste)
    experts = (Factor(f"expert waste/{setting.backend}"), *waste[1:], *device_factors("expert waste", setting))
    yield Term(READS, amounts.expert_bytes / chip.bytes_per_s, experts)
    yield Term(READS, 2 * amounts.state_bytes / chip.bytes_per_s)  # read, and written again
    unfused = () if setting.fused else (Factor(f"unfused/{setting.backend}"),)
    cache = amounts.cache_bytes / chip.bytes_per_s
    yield Term(READS, cache)
    yield Term(
        READS, cache, (Factor(f"cache waste/{setting.backend}"), *unfused, *device_factors("cache waste", setting))
    )
    if not setting.fused and setting.backend in REREADING:
        heads_per_key = amounts.attention_products / larger(amounts.cache_elements, 1.0)
        yield Term(READS, cache * REREAD * larger(smaller(heads_per_key, MOST_SHARING) - 1, 0.0))
    if setting.packed_cache:
        unpacked = amounts.cache_elements / chip.flops_per_s
        yield Term(COMPUTE, unpacked, (Factor(f"packed cache/{setting.backend}"),))


def product_terms(amounts: Amounts, chip: Chip, setting: SpeedSetting, year: Number) -> Iterator[Term]:
    """Unpacking and multiplying, which the plain units do, and which takes longer for some types than for others."""
    common = (*deviating("product", setting), Factor(f"progress/{setting.backend}", progress(year)))
    for kind, weights in by_kind(amounts, setting).items():
        factors = (*common, *kind_factors(kind, setting.backend))
        met = amounts.met_kinds.get(kind, weights)
        yield from batched_product_terms(COMPUTE, weights, met, amounts.tokens, chip, factors, setting.backend)


def batched_product_terms(
    part: str, weights: Number, met: Number, tokens: Number, chip: Chip, factors: Factors, backend: str
) -> Iterator[Term]:
    """What products cost for so many tokens: `weights` for one of them, `met` are all that they meet together."""
    # Weights are read once for all conversations, products are computed for each. Up to a few conversations, each is
    # multiplied as if it were alone. Beyond, the matrix units take over: they cost more to begin with and next to
    # nothing for each further conversation, up to the ridge where they are busy all the time.
    few = at_most(tokens, FEW)  # 1 where the tokens are few, 0 where they are many
    many, one = 1 - few, weights / chip.flops_per_s
    yield Term(part, one * few, factors)
    yield Term(part, one * (tokens - 1) * few, (*factors, Factor(f"batched/{backend}")))
    yield Term(part, met / chip.flops_per_s * many, (*factors, Factor(f"tiles/{backend}")))
    yield Term(part, 2 * weights * tokens / chip.matrix_flops_per_s * many, (Factor(f"batch/{backend}"),))


@lru_cache(maxsize=KEPT)
def _runtime(kind: str, setting: SpeedSetting) -> Factors:
    return (Factor(f"{kind}/runtime/{setting.runtime}"),) if setting.runtime else ()


def host_decode_terms(amounts: Amounts, chip: Chip, setting: SpeedSetting) -> Iterator[Term]:
    """What a step costs on a CPU that holds all of these amounts.

        time = the longer of two sides, nearly, as cores fetch the next weights while they multiply these:
                 reading:   bytes / bandwidth x (1 + waste)
                 computing: weights / arithmetic x operations, which differ by the weights' type and the vectors' width
                            + rows of matrices, each of which is begun and summed up
                            + attention: products of one vector with many short ones
             + layers x threads x waiting for each other

    No line of it needs a measurement of this machine; `speed.machine_rates` has the form that does.
    """
    read = amounts.dense_bytes + amounts.expert_bytes + amounts.cache_bytes + 2 * amounts.state_bytes
    yield Term(HOST_READS, read / chip.bytes_per_s, side=READING)
    yield Term(HOST_READS, read / chip.bytes_per_s, deviating("waste", setting), READING)
    # Wider vectors, servers that compute less than their clock says, and forks with kernels of their own
    wide = (Factor("wide vectors/cpu"),) if setting.wide_vectors else ()
    fork = (Factor(f"product/runtime/{setting.runtime}"),) if setting.runtime else ()
    servers = (Factor("server/cpu"),) if setting.server else ()
    common = (*deviating("product", setting), *wide, *servers, *fork)
    # How weights lie: as in the file beside a GPU, else in an order for AMX where there is that
    order = "beside gpu" if setting.beside_gpu else "tiles" if setting.tiles else ""
    for kind, weights in by_kind(amounts, setting).items():
        ordered = (Factor(f"{order}/cpu/{kind}"),) if order else ()
        product = (*common, *kind_factors(kind, "cpu"), *ordered)
        yield Term(HOST_COMPUTE, weights * amounts.tokens / chip.flops_per_s, product, COMPUTING)
    known = at_most(1.0, amounts.width)  # else nothing is said of rows
    rows = (amounts.dense_weights + amounts.expert_weights) / larger(amounts.width, 1.0) * known
    yield Term(HOST_COMPUTE, rows * amounts.tokens / chip.threads, (Factor("row/cpu"),), COMPUTING)
    attention = (Factor("attention/cpu"), *servers)
    fused = 1.0
    if setting.beside_gpu and setting.fused:  # a GPU beside the CPU makes llama.cpp choose one kernel for attention
        fused = FUSED_ON_CPU * (PACKED_ON_CPU if setting.packed_cache else 1.0)
    yield Term(HOST_ATTENTION, amounts.attention_products * fused / chip.flops_per_s, attention, COMPUTING)
    yield Term(HOST_LAYERS, amounts.layers * chip.threads, (Factor("barrier/cpu"),))
    yield Term(HOST_LAYERS, amounts.layers, (Factor("layer/cpu"),))
    yield Term(HOST_LAYERS, amounts.expert_layers * chip.threads, (Factor("expert barrier/cpu"),))
    yield Term(HOST_LAYERS, 1.0, (Factor("step/cpu"),))


def by_kind(amounts: Amounts, setting: SpeedSetting) -> Mapping[str, Number]:
    """The weights by kind; all of the setting's class where nothing tells them apart."""
    return amounts.kinds or {setting.types: amounts.dense_weights + amounts.expert_weights}


@lru_cache(maxsize=KEPT)
def kind_factors(kind: str, backend: str) -> Factors:
    """How a kind deviates from its class, everywhere and on one backend."""
    class_ = class_of_kind(kind)
    apart = () if kind == class_ else (Factor(f"types/{class_}/{kind}"), Factor(f"types/{backend}/{kind}"))
    return Factor(f"types/{class_}"), Factor(f"types/{backend}/{class_}"), *apart


@lru_cache(maxsize=KEPT)
def deviating(kind: str, setting: SpeedSetting) -> Factors:
    """A backend's factor, how a family deviates from it, and how a device does from its family."""
    family = f"{kind}/{setting.backend}/{setting.family}"
    own = (Factor(f"{family}/{setting.device}"),) if setting.device else ()
    return Factor(f"{kind}/{setting.backend}"), Factor(family), *own


@lru_cache(maxsize=KEPT)
def device_factors(kind: str, setting: SpeedSetting) -> Factors:
    """What only a device that was measured closely deviates in."""
    if not setting.device:
        return ()
    return (Factor(f"own {kind}/{setting.backend}/{setting.family}/{setting.device}"),)


def launch_s(how: Launching, layers: Number, expert_layers: Number) -> Number:
    """Seconds that the processor needs for the launches of a step."""
    return how.layer_s * layers + how.expert_layer_s * expert_layers + how.step_s


def overlapped_s(gpu_s: Number, host_s: Number) -> Number:
    """The time of a step of which the GPU and the processor each do their part at the same time: the longer, nearly."""
    # With recorded graphs (CUDA graphs) launches cost next to nothing and are part of what a layer costs on the GPU.
    return (gpu_s**_SHARPNESS + host_s**_SHARPNESS) ** (1 / _SHARPNESS)
