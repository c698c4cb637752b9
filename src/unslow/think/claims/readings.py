"""A model in one quant, as the numbers that a claim is held against."""

import math
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import NamedTuple

from unslow.catalog.mixes import mixes
from unslow.catalog.models import WellKnown, all_names, model_at
from unslow.facts.blueprint import Tensor
from unslow.think.blueprints.made_up import made_up
from unslow.think.claims.models_in_text import ModelSaid
from unslow.think.claims.quants_in_text import USUAL, QuantSaid
from unslow.think.memory.llama_cpp.cache import layer_caches
from unslow.think.memory.llama_cpp.hyper import Hyper
from unslow.think.memory.llama_cpp.settings import Settings

_MATRIX = 2
_LOOKED_UP = ("token_embd.weight", "per_layer_token_embd.weight")
_SMALLER = ("Q3_K_M", "IQ2_M", "IQ1_S")
_LARGER = ("Q4_K_M", "BF16", "Q8_0", "Q6_K", "Q5_K_M", "Q3_K_M", "IQ2_M")
_PUBLISHED_BITS = {"MXFP4": 4.25, "FP8": 8.0}
_SMALLER_THAN_NAMED = 0.97  # a "70B" has 68 to 72
_CACHE_TYPES = {"F32": 4.0, "F16": 2.0, "BF16": 2.0, "Q8_0": 34 / 32, "Q5_1": 24 / 32, "Q5_0": 22 / 32, "Q4_1": 20 / 32,
                "Q4_0": 18 / 32, "FP8": 1.0, "INT8": 1.0, "Q8": 34 / 32, "Q4": 18 / 32, "INT4": 0.5}  # fmt: skip
"""Bytes of an element of the cache."""


class Reading(NamedTuple):
    """A model in a quant; what is counted is a file's tensors, or parameters times bits where there is only a size."""

    model: str
    quant: str
    weights_bytes: float
    table_bytes: float
    """Of the tables that a token only looks one row up in."""
    expert_bytes: float
    expert_share: float
    output_bytes: float
    layers: int
    parameters: float
    active: float
    shaped: bool = False
    """Whether its tensors are known, and not its size alone."""
    assumed: bool = False
    """Whether the quant is one that the text does not name."""

    @property
    def name(self) -> str:
        """The model with its quant."""
        return f"{self.model} {self.quant}".strip()

    @property
    def always_bytes(self) -> float:
        """What every token reads, whichever experts it takes."""
        return self.weights_bytes - self.table_bytes - self.expert_bytes

    @property
    def read_bytes(self) -> float:
        """What one token reads of the weights."""
        return self.always_bytes + self.expert_bytes * self.expert_share

    @property
    def layer_bytes(self) -> float:
        """Of one repeating layer, on average."""
        return (self.weights_bytes - self.table_bytes - self.output_bytes) / max(1, self.layers)

    def cache_bytes(self, context: int, kind: str = "F16") -> float | None:
        """Keys and values of so many tokens; None where the shape is unknown."""
        return _cache_of_f16(self.model, context) * cache_share(kind) if self.shaped else None


def cache_share(kind: str) -> float:
    """The size of a cache of that type, in those of F16."""
    return _CACHE_TYPES.get(kind.upper(), 2.0) / 2.0


@lru_cache(maxsize=512)
def _cache_of_f16(name: str, context: int) -> float:
    hyper = Hyper(made_up(_known(name), "F16"))
    return float(sum(c.bytes for c in layer_caches(hyper, Settings(context=max(1, context), micro_batch=1))))


@cache
def _known(name: str) -> WellKnown:
    return next(model_at(stem) for stem, names in all_names().items() if names[0] == name)


class _Stored(NamedTuple):
    """How the weights may be stored: a mix, in which a scheme packs the matrices in so many bits."""

    mix: str
    bits: float
    label: str
    assumed: bool = False
    """Whether nobody named it."""


def readings(model: ModelSaid, quant: QuantSaid | None, *, any_quant: bool = False) -> list[Reading]:
    """Every reading of what was said, the usual first; with no quant, the usual one and then smaller ones.

    With `any_quant` a quant that is not named may as well be a larger one, and none of them is a guess.
    """
    if any_quant and quant is None:
        return [r for mix in _LARGER for r in _of_models(model, _Stored(mix, 0.0, mix))]
    return [r for stored in _stored(quant) for r in _of_models(model, stored)]


def _stored(quant: QuantSaid | None) -> Iterator[_Stored]:
    if quant is None:
        yield from (_Stored(mix, 0.0, mix, assumed=True) for mix in (USUAL, *_SMALLER))
    elif quant.mixes:
        yield from (_Stored(mix, 0.0, mix) for mix in quant.mixes)
    else:
        yield _Stored("BF16", quant.bits, quant.label)


def _of_models(model: ModelSaid, stored: _Stored) -> Iterator[Reading]:
    mix, bits, label, assumed = stored
    if not model.models:
        yield _by_size(model, mix, bits, label)._replace(assumed=assumed)
    for known in model.models:
        published = known.published.upper().replace(" BLOCK", "")
        if assumed and mix == USUAL and published in _PUBLISHED_BITS:
            yield _exact(known.name, "BF16", _PUBLISHED_BITS[published], published)._replace(assumed=True)
        else:
            yield _exact(known.name, mix, bits, label)._replace(assumed=assumed)


@lru_cache(maxsize=256)
def _exact(name: str, mix: str, bits: float, label: str) -> Reading:
    """From the tensors of the file."""
    plan = made_up(_known(name), mix)
    hyper, names = Hyper(plan), plan.by_name
    guessing = {f"blk.{n}." for n in range(hyper.layers, hyper.all_layers)}
    tensors = [(t, _bytes(t, bits)) for t in plan.tensors if not t.name.startswith(tuple(guessing))]
    tied = "output.weight" not in names
    looked_up = [name for name in _LOOKED_UP if not (tied and name == _LOOKED_UP[0])]
    experts = sum(size for t, size in tensors if "_exps." in t.name)
    elements = sum(math.prod(t.shape) for t, _ in tensors if "_exps." in t.name)
    share = max(hyper.experts_used) / hyper.experts if hyper.experts else 0.0
    everything = sum(math.prod(t.shape) for t, _ in tensors)
    looked = sum(math.prod(t.shape) for t, _ in tensors if t.name in looked_up)
    output = _LOOKED_UP[0] if tied else "output.weight"
    return Reading(
        model=name,
        quant=label,
        weights_bytes=sum(size for _, size in tensors),
        table_bytes=sum(size for t, size in tensors if t.name in looked_up),
        expert_bytes=experts,
        expert_share=share,
        output_bytes=sum(size for t, size in tensors if t.name == output),
        layers=hyper.layers,
        parameters=_known(name).parameters,
        active=everything - looked - elements * (1 - share),
        shaped=True,
    )


def _bytes(tensor: Tensor, bits: float) -> float:
    """As it is in the plan, or in so many bits where it is one of the matrices that schemes pack."""
    if not bits or len(tensor.shape) < _MATRIX or tensor.name in (*_LOOKED_UP, "output.weight"):
        return tensor.bytes
    return math.prod(tensor.shape) * bits / 8


def _by_size(model: ModelSaid, mix: str, bits: float, label: str) -> Reading:
    """From the number of parameters alone, which a name may round up."""
    weight = (bits or mixes()[mix].bits_per_weight) / 8 * _SMALLER_THAN_NAMED
    total, active = model.parameters * weight, model.active * weight
    experts = total - active if active < total else 0.0
    return Reading(model.label, label, total, 0.0, experts, 0.0, 0.0, 0, model.parameters, model.active)
