"""The time of one prompt token, as terms.

    operations / matrix arithmetic x 1 / utilisation + operations / power x energy
    + what a micro-batch shares: weights read, unpacked, launches
    + attention, which grows with depth

The largest GPUs do not reach what their matrix units could do, because they would have to draw more than they may.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from unslow.think.physics.chip import Chip, Setting, progress
from unslow.think.physics.decoding import COMPUTE, LAUNCHES, READS, deviating, own
from unslow.think.physics.interconnect import LAYER, LINK
from unslow.think.physics.kv_cache import F16_BYTES
from unslow.think.physics.numbers import logarithm
from unslow.think.physics.terms import KEPT, Factor, Factors, Term

if TYPE_CHECKING:
    from unslow.think.physics.amounts import Amounts
    from unslow.think.physics.numbers import Number

_ACTIVATIONS = 20
"""Numbers of two bytes that a token writes and reads in each layer, for each of its width, about."""
PICO = 1e-12


class Prompt(NamedTuple):
    """What a prompt token asks, and how many of them share a micro-batch."""

    amounts: Amounts
    """Of one micro-batch: the experts that its tokens meet together are counted whole."""
    token_weights: Number
    """That one token is multiplied with, without the output."""
    token_expert_weights: Number
    attention_products: Number
    """Multiply-adds of attention for one token, at its depth."""
    micro_batch: Number
    is_quantised: bool = True
    gpus: Number = 1.0
    split: str = LAYER
    pipelined: Number = 1.0
    """How many GPUs work at once on micro-batches of one prompt."""
    peers: bool = True

    @property
    def parts(self) -> Number:
        """Into how many parts every matrix is split."""
        return 1.0 if self.split == LAYER else self.gpus


def prefill_terms(prompt: Prompt, chip: Chip, setting: Setting, year: Number) -> Iterator[Term]:
    """What a prompt token costs."""
    pipeline = Factor("pipeline", logarithm(prompt.pipelined))
    shared = (Factor(f"prompt progress/{setting.backend}", progress(year)), pipeline)
    yield from _product_terms(prompt, chip, setting, shared)
    yield from _read_terms(prompt, chip, setting, shared)
    yield from _launch_terms(prompt, setting, shared)
    yield from _attention_terms(prompt, chip, setting, shared)
    yield from _link_terms(prompt, setting)


def _product_terms(prompt: Prompt, chip: Chip, setting: Setting, shared: Factors) -> Iterator[Term]:
    types = (*_type_factors(setting), *shared)
    dense, experts = 2 * prompt.token_weights / prompt.parts, 2 * prompt.token_expert_weights / prompt.parts
    used = (*deviating("prompt", setting), *types)
    yield Term(COMPUTE, dense / chip.matrix_flops_per_s, used)
    sparse = (Factor(f"prompt experts/{setting.backend}"), *own("prompt experts", setting))
    yield Term(COMPUTE, experts / chip.matrix_flops_per_s, (*used, *sparse))
    if _is_known(chip.watts):
        energy = (*deviating("energy", setting), *types)
        yield Term(COMPUTE, (dense + experts) * PICO / chip.watts, energy)


@lru_cache(maxsize=KEPT)
def _type_factors(setting: Setting) -> Factors:
    """How a class of types deviates: everywhere, on a backend, and on a device."""
    types, backend = setting.types, setting.backend
    return Factor(f"prompt types/{types}"), Factor(f"prompt types/{backend}/{types}"), *own(f"prompt {types}", setting)


def _read_terms(prompt: Prompt, chip: Chip, setting: Setting, shared: Factors) -> Iterator[Term]:
    """Weights, which all tokens of a micro-batch share: read, and unpacked; and each token's own activations."""
    amounts, (_, pipeline) = prompt.amounts, shared
    each = chip.bytes_per_s * prompt.micro_batch * prompt.parts
    yield Term(READS, (amounts.dense_bytes + amounts.expert_bytes) / each, (pipeline,))
    if prompt.is_quantised:
        unpacked = 2 * F16_BYTES * (amounts.dense_weights + amounts.expert_weights)
        yield Term(READS, unpacked / each, (Factor(f"unpacking/{setting.backend}"), *shared))
    activations = amounts.layers * amounts.width * _ACTIVATIONS / chip.bytes_per_s
    yield Term(READS, activations, (Factor(f"activations/{setting.backend}"), pipeline))


def _launch_terms(prompt: Prompt, setting: Setting, shared: Factors) -> Iterator[Term]:
    """Launches, which all tokens of a micro-batch share too."""
    host = (Factor("slow host prompt"),) if setting.slow_host else ()
    for kind, count in _counts(prompt.amounts):
        factors = (Factor(f"prompt {kind}/{setting.backend}"), *own(f"prompt {kind}", setting), *shared, *host)
        yield Term(LAUNCHES, count / prompt.micro_batch, factors)


def _counts(amounts: Amounts) -> tuple[tuple[str, Number], ...]:
    return ("layer", amounts.layers), ("expert layer", amounts.expert_layers), ("state layer", amounts.state_layers)


def _attention_terms(prompt: Prompt, chip: Chip, setting: Setting, shared: Factors) -> Iterator[Term]:
    unfused = () if setting.fused else (Factor(f"unfused prompt/{setting.backend}"),)
    seconds = 2 * prompt.attention_products / chip.matrix_flops_per_s
    yield Term(COMPUTE, seconds, (*deviating("prompt attention", setting), *unfused, *shared))


def _link_terms(prompt: Prompt, setting: Setting) -> Iterator[Term]:
    """Sending a token's state on to the next GPU, or gathering it from all in every layer."""
    width, others = prompt.amounts.width, prompt.gpus - 1
    if prompt.split == LAYER:
        yield Term(LINK, others * width, (Factor("prompt crossing"),))
        return
    linked = (Factor("linked"),) if setting.linked else ()
    ways = linked or (() if prompt.peers else (Factor("no peers prompt"),))
    layers, split = prompt.amounts.layers, prompt.split
    yield Term(LINK, layers * width * others, (Factor(f"prompt gather/{split}"), *ways))
    yield Term(LINK, layers * others / prompt.micro_batch, (Factor(f"prompt gather each/{split}"), *ways))


def pipelined(gpus: Number, micro_batches: Number) -> Number:
    """How many GPUs work at once on so many micro-batches that go from one to the next."""
    return micro_batches * gpus / (micro_batches + gpus - 1)


def _is_known(watts: Number) -> bool:
    return bool(watts > 0) if isinstance(watts, (int, float)) else bool((watts > 0).all())
