"""What a quant and a type of cache cost in answers, by published measurements of models like it."""

import re
from functools import cache, lru_cache
from math import log1p

import msgspec

from unslow.catalog.layouts import layouts
from unslow.catalog.mixes import find_mix, mixes
from unslow.catalog.quality import Figure
from unslow.catalog.scheme_words import find_scheme
from unslow.catalog.sensitive import sensitive
from unslow.facts.errors import UserError
from unslow.think.plan.cache_quality import cost_of_cache
from unslow.think.plan.published import Number, divergence, increase, never_worse_than, of_weights, speaking_for
from unslow.think.plan.quality_part import FREE, Loss, unknown
from unslow.think.plan.report import QualityShown

_WIDE = ("F32", "F16", "BF16")
_EQUAL = 0.001
"""Of the logarithm of perplexity. q8_0 for keys and values costs 0.0003 of Llama 3 8B (llama.cpp pull 7412), and for
keys alone 0.0002 of Llama 2 7B (6183) and 0.0004 to 0.0007 of Qwen3 30B-A3B (ik_llama.cpp pull 1034)."""
_EQUAL_KL = 0.002  # nats; q8_0 for keys and values has 0.0010 (Llama 3 8B) to 0.0016 (Qwen3.6 35B-A3B)
_CACHED = 4096  # a search asks for the same few combinations again and again


class Cost(msgspec.Struct, frozen=True):
    """Against the model as it was published; None is what nobody measured."""

    perplexity_increase: float | None
    """As a share: 0.01 is one percent."""
    kl_divergence: float | None
    """The mean over all tokens, in nats."""
    words: str
    sources: tuple[str, ...]
    quant: str
    weights: Loss
    cache: Loss

    @property
    def is_at_least(self) -> bool:
        """Whether a part of it was not measured, so that the true cost is this or more."""
        return self.weights.at_least or self.cache.at_least


@lru_cache(maxsize=_CACHED)
def cost_of(
    quant: str, key_type: str, value_type: str, parameters: int, architecture: str = "", *, rotated: bool = False
) -> Cost:
    """The cost of weights and cache together; `rotated` where llama.cpp is b8624 or newer (see the catalogue).

    The architecture may be spelt as GGUF does, or as Hugging Face does.
    """
    architecture = _architectures().get(_bare(architecture), architecture)
    weights = cost_of_weights(quant, parameters, architecture)
    cached = cost_of_cache(key_type, value_type, parameters, architecture, rotated=rotated)
    shares = weights.increase, cached.increase
    return Cost(
        None if None in shares else (1 + (shares[0] or 0.0)) * (1 + (shares[1] or 0.0)) - 1,
        None if weights.kl is None or cached.kl is None else weights.kl + cached.kl,
        _together(weights, cached),
        tuple(dict.fromkeys((*weights.sources, *cached.sources))),
        quant,
        weights,
        cached,
    )


@cache
def _architectures() -> dict[str, str]:
    return {_bare(name): name for name in layouts()}


def _bare(architecture: str) -> str:
    return re.sub(r"_text$|[-_.]", "", architecture.casefold())


def _together(weights: Loss, cached: Loss) -> str:
    told = [part.words for part in (weights, cached) if part.words]
    if weights.increase and cached.increase:
        told.append("added as if one had nothing to do with the other, as logarithms; KL divergences nearly add")
    return "; ".join(told)


def cost_of_weights(quant: str, parameters: int, architecture: str = "") -> Loss:
    """Of the weights alone."""
    name = _name(quant)
    if name in _WIDE:
        return FREE
    published = _published_in(name, architecture)
    if published:
        return Loss(0.0, 0.0, words=f"{quant} is how the model was published", sources=(published,))
    if name is None or not of_weights(name):
        return unknown(f"weights: nobody published what {quant} costs")
    if parameters <= 0:
        return unknown("weights: the size of the model is not known")
    return _measured(name, quant, parameters, architecture)


def _measured(name: str, quant: str, parameters: int, architecture: str) -> Loss:
    def found(quant: str, number: Number) -> tuple[Figure, float] | None:
        return speaking_for(parameters, architecture, of_weights(quant), number)

    shares = [share for q in (name, *sorted(never_worse_than(name))) if (share := found(q, increase))]
    if not shares:
        return unknown(f"weights: nobody published the perplexity of {quant} for such a model")
    figure, number = max(shares, key=lambda share: share[1])
    nats = found(name, divergence)
    sources = dict.fromkeys(taken.table.source for taken, _ in filter(None, ((figure, number), nats)))
    return Loss(
        number,
        nats[1] if nats else None,
        at_least=figure.row.quant != name,
        words=_told(name, quant, figure, number),
        sources=tuple(sources),
    )


def _told(name: str, quant: str, figure: Figure, number: float) -> str:
    as_named = "" if name.casefold() == quant.casefold() else f" (as {name})"
    words = f"weights {quant}{as_named}: {number:+.2%} perplexity of {figure.table.model}"
    words += " with an importance matrix" if figure.row.matrix else ""
    if figure.row.quant != name:
        words = f"{words} in {figure.row.quant}, and it has never done better than that"
    return f"{words} by the word, which is more than by the token" if figure.table.per == "word" else words


def _name(quant: str) -> str | None:
    """The mix or the packing that a word means, a publisher's change of the two tables left out; None for his own."""
    try:
        mix = find_mix(quant)
    except UserError:
        return _packing(quant)
    return mix.like or mix.name


def _packing(quant: str) -> str | None:
    try:
        return find_scheme(quant).packing.name
    except UserError:
        return None


def _published_in(name: str | None, architecture: str) -> str:
    """Who says that such models are published in this very type; empty where nobody does."""
    if not name or not architecture:
        return ""
    named_after = mixes()[name].file_type[1].name if name in mixes() else name
    return next((group.source for group in sensitive(architecture) if group.stored == named_after), "")


def is_equal_quality(one: Cost, other: Cost) -> bool:
    """Whether nobody could tell them apart: at most 0.1 % of perplexity, and 0.002 nats where both were measured.

    Of the same quant only the caches are compared, whether or not what the weights cost is known.
    """
    if one.quant == other.quant:
        return _is_near(one.cache, other.cache)
    return _is_near(
        Loss(one.perplexity_increase, one.kl_divergence, at_least=one.is_at_least),
        Loss(other.perplexity_increase, other.kl_divergence, at_least=other.is_at_least),
    )


def _is_near(one: Loss, other: Loss) -> bool:
    if one == other:
        return True
    if one.increase is None or other.increase is None or one.at_least or other.at_least:
        return False
    if abs(log1p(one.increase) - log1p(other.increase)) > _EQUAL:
        return False
    return one.kl is None or other.kl is None or abs(one.kl - other.kl) <= _EQUAL_KL


def shown(cost: Cost) -> QualityShown:
    """The cost as the report tells it."""
    return QualityShown(
        perplexity_increase=cost.perplexity_increase,
        kl_divergence=cost.kl_divergence,
        words=cost.words,
        sources=cost.sources,
    )
