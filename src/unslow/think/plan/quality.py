"""What a quant and a type of cache cost in answers, by published measurements of models like it."""

import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import cache, lru_cache
from math import inf, log, log1p
from operator import attrgetter
from statistics import NormalDist
from typing import NamedTuple

import msgspec

from unslow.catalog.architectures import layouts
from unslow.catalog.quality import CacheException, Figure, cache_exceptions, figures, tables
from unslow.catalog.quants import find_mix, mixes, quants, sensitive
from unslow.catalog.weight_parts import find_scheme
from unslow.facts.errors import UserError
from unslow.think.physics.chip import BYTES, HALF
from unslow.think.plan.report import QualityShown


class Loss(msgspec.Struct, frozen=True):
    """Against 16 bits."""

    increase: float | None  # Of the perplexity, as a share; None where none was published
    kl: float | None
    at_least: bool = False  # Whether only a part of it, or something that loses less, was measured
    words: str = ""
    sources: tuple[str, ...] = ()
    much: bool = False  # Whether it is known to be much, without a figure of the perplexity
    published: "Loss | None" = None  # By others, of models like it, where this project measured the model itself

    @property
    def by_others(self) -> "Loss":
        """What was published, whether or not this project measured it as well."""
        return self.published or self


NO_LOSS = Loss(0.0, 0.0)


class Cost(msgspec.Struct, frozen=True):
    """Against the model as it was published; None is not measured."""

    perplexity_increase: float | None  # As a share: 0.01 is one percent
    kl_divergence: float | None  # The mean over all tokens, in nats
    words: str
    sources: tuple[str, ...]
    quant: str
    weights: Loss
    cache: Loss

    @property
    def is_at_least(self) -> bool:
        """Whether a part of it was not measured, so that the true cost is this or more."""
        return self.weights.at_least or self.cache.at_least

    @property
    def is_measured(self) -> bool:
        """Whether this project measured the cache of this very model, so that others' figure stands beside it."""
        return self.cache.published is not None

    @property
    def published_increase(self) -> float | None:
        """What others published of models like it."""
        return combined_increase(self.weights.by_others, self.cache.by_others)


FigureNumber = Callable[[Figure], float | None]
_INCREASE: FigureNumber = attrgetter("increase")  # of the perplexity, as a share
_DIVERGENCE: FigureNumber = attrgetter("kl")  # the mean KL divergence
_SAME_SIZE = log(1.25)  # a 7B and an 8B lose differently by their training, not by their size
_TWO_SIDED = NormalDist().inv_cdf(0.975)
_TABLES_AGREE = 2  # so many must have both quants before an order between them counts as known
_WIDE = ("F32", "F16", "BF16")
_WIDE_CACHE = {"", "auto", "f16", "fp16", "float16", "half", "bf16", "bfloat16", "f32", "fp32", "float32"}
_SAME = {"fp8_e4m3": "fp8"}  # what vLLM means by fp8
_EIGHT = 8.0  # bits of types that ggml does not have, such as fp8
_EQUAL = 0.001
"""Of the logarithm of perplexity. q8_0 for keys and values costs 0.0003 of Llama 3 8B (llama.cpp pull 7412), and for
keys alone 0.0002 of Llama 2 7B (6183) and 0.0004 to 0.0007 of Qwen3 30B-A3B (ik_llama.cpp pull 1034)."""
_EQUAL_KL = 0.002  # nats; q8_0 for keys and values has 0.0010 (Llama 3 8B) to 0.0016 (Qwen3.6 35B-A3B)
_SPELLING = re.compile(r"_text$|[-_.]")  # in what names of the same architecture differ
_CACHED = 4096  # a search asks for the same few combinations again and again
FULL = "full precision: no loss"
_BROKEN = 10.0  # from here on a share says nothing: the text is as good as random
_MUCH = 0.05  # a rise of perplexity that `unslow verify` does not let pass by default
_PLAIN = frozenset({"auto", "bfloat16", "float16", "dynamic", "static", "offloaded"})
_CACHES = {"quantized": "int4"}  # caches of Transformers by the type that they keep


@lru_cache(maxsize=_CACHED)
def quality_cost(
    quant: str, key_type: str, value_type: str, parameters: int, architecture: str = "", *, rotated: bool = False
) -> Cost:
    """The cost of weights and cache together; `rotated` where llama.cpp is b8624 or newer (see the catalog)."""
    # It may be spelt as GGUF does, or as Hugging Face does
    spellings = {_SPELLING.sub("", name.casefold()): name for name in layouts()}
    architecture = spellings.get(_SPELLING.sub("", architecture.casefold()), architecture)
    weights = cost_of_weights(quant, parameters, architecture)
    cached = cost_of_cache(key_type, value_type, parameters, architecture, rotated=rotated)
    told = [part.words for part in (weights, cached) if part.words]
    if weights.increase and cached.increase:
        told.append("the two losses are assumed independent and added as logarithms; KL divergences nearly add up")
    return Cost(
        combined_increase(weights, cached),
        None if weights.kl is None or cached.kl is None else weights.kl + cached.kl,
        "; ".join(told),
        tuple(dict.fromkeys((*weights.sources, *cached.sources))),
        quant,
        weights,
        cached,
    )


def combined_increase(weights: Loss, cached: Loss) -> float | None:
    """Of both together, as if they were independent; None where one is not known."""
    if weights.increase is None or cached.increase is None:
        return None
    return (1 + weights.increase) * (1 + cached.increase) - 1


def cost_of_weights(quant: str, parameters: int, architecture: str = "") -> Loss:
    """Of the weights alone."""
    name = _known_name(quant)
    if name in _WIDE:
        return NO_LOSS
    if name and architecture:
        named_after = mixes()[name].file_type[1].name if name in mixes() else name
        published = next((group.source for group in sensitive(architecture) if group.stored == named_after), "")
        if published:
            return Loss(0.0, 0.0, words=f"{quant} is how the model was published", sources=(published,))
    if name is None or not weight_figures(name):
        return unknown_loss(f"weights: no published figures for {quant}")
    if parameters <= 0:
        return unknown_loss("weights: model size unknown")
    return _measured_loss(name, quant, parameters, architecture)


def _known_name(quant: str) -> str | None:
    """The mix or the packing that a word means, a publisher's change of the two tables left out; None for his own."""
    with suppress(UserError):
        mix = find_mix(quant)
        return mix.like or mix.name
    with suppress(UserError):
        return find_scheme(quant).packing.name
    return None


def _measured_loss(name: str, quant: str, parameters: int, architecture: str) -> Loss:
    def figure_of(quant: str, number: FigureNumber) -> tuple[Figure, float] | None:
        return nearest_figure(parameters, architecture, weight_figures(quant), number)

    shares = [share for q in (name, *sorted(never_worse_than(name))) if (share := figure_of(q, _INCREASE))]
    if not shares:
        return unknown_loss(f"weights: no published perplexity of {quant} for such a model")
    figure, number = max(shares, key=lambda share: share[1])
    nats = figure_of(name, _DIVERGENCE)
    sources = dict.fromkeys(taken.table.source for taken, _ in filter(None, ((figure, number), nats)))
    as_named = "" if name.casefold() == quant.casefold() else f" (as {name})"
    words = f"weights {quant}{as_named}: {number:+.2%} perplexity of {figure.table.model}"
    words += " with an importance matrix" if figure.row.matrix else ""
    of_another = figure.row.quant != name
    words += f" in {figure.row.quant}, which it never beats" if of_another else ""
    words += " per word, which is more than per token" if figure.table.per == "word" else ""
    return Loss(number, nats[1] if nats else None, at_least=of_another, words=words, sources=tuple(sources))


@cache
def never_worse_than(quant: str) -> frozenset[str]:
    """Quants that came out better in every table that has both, or better than one that did."""
    # Tables have different quants of different models; this keeps a quant that only an old model was measured with from
    # looking better than one that it has always lost against
    better, asked = _better_quants(), [quant]
    found: set[str] = set()
    while asked:
        new = better.get(asked.pop(), frozenset()) - found
        found |= new
        asked += new
    return frozenset(found - {quant})


@cache
def _better_quants() -> dict[str, frozenset[str]]:
    by_table = []
    for table in tables().values():
        if not table.only_for:  # without an importance matrix where there are both
            worst: dict[str, float] = {}
            for row in table.rows:
                share = Figure(table, row).increase
                if row.quant and share is not None:
                    worst[row.quant] = max(share, worst.get(row.quant, 0.0))
            by_table.append(worst)
    quants = {quant for worst in by_table for quant in worst}

    def is_better(one: str, other: str) -> bool:
        both = [worst for worst in by_table if one in worst and other in worst]
        return len(both) >= _TABLES_AGREE and all(worst[one] < worst[other] for worst in both)

    return {a: frozenset(b for b in quants if a != b and is_better(b, a)) for a in quants}


def cost_of_cache(
    key_type: str, value_type: str, parameters: int, architecture: str = "", *, rotated: bool = False
) -> Loss:
    """Of the cache alone; the names of types as runtimes spell them."""
    names = (name.casefold() for name in (key_type, value_type))
    keys, values = ("" if name in _WIDE_CACHE else _SAME.get(name, name) for name in names)  # empty from 16 bits on
    if not keys and not values:
        return NO_LOSS
    published = _published_cache(keys, values, parameters, architecture, rotated=rotated)
    own = _own_figure(keys, values, parameters, architecture)
    if own is None or own.increase is None:
        return published
    reach = _TWO_SIDED * (own.row.error or 0.0)
    increase, table = own.increase, own.table
    measured = f"{_cache_label(keys, values)}{increase_words(increase)} perplexity measured of {table.model}"
    if own.row.rotated and not rotated:
        words = f"{published.words}; with llama.cpp b8624 or newer, {measured}"
        return msgspec.structs.replace(published, words=words, sources=(*published.sources, table.source))
    _, judged = agreement(Bounds(increase - reach, increase, increase + reach), published)
    nats = f" and a KL divergence of {own.kl:.4f}" if own.kl is not None else ""
    nats += f" (published {published.kl:.4f})" if nats and published.kl is not None else ""
    words = f"{measured}{nats} at {table.context:,} tokens of context; the perplexity {judged}"
    return Loss(increase, own.kl, words=words, sources=(table.source, *published.sources), published=published)


def _own_figure(keys: str, values: str, parameters: int, architecture: str) -> Figure | None:
    """What this project measured of this very model, or of one of its architecture and about its size."""
    for figure in _cache_rows(keys, values):
        table = figure.table
        if table.own and table.architecture == architecture and _distance(figure, parameters) <= _SAME_SIZE:
            return figure
    return None


def increase_words(increase: float) -> str:
    """An increase of the perplexity: a share, or how many times it is where the model is broken."""
    return f"{increase:+.2%}" if increase < _BROKEN else f"×{1 + increase:,.0f}"


class Bounds(NamedTuple):
    """An increase of the perplexity as it was measured, with the ends of its 95 % interval."""

    low: float
    mid: float
    high: float


def agreement(measured: Bounds, published: Loss) -> tuple[bool | None, str]:
    """Whether a measurement agrees with what was published, None where that can't be told; and both in words."""
    known, said = published.increase, published.words
    if known is None and not published.much:
        return None, "no figure was published" + (f" ({said})" if said else "")
    if known is None:
        said = said.removeprefix("cache: ")
        if measured.high < _MUCH:
            return False, f"disagrees with what was published, this model loses little: {said}"
        if measured.low > _MUCH:
            return True, f"agrees with what was published: {said}"
        return None, f"neither confirms nor refutes what was published: {said}"
    least = "at least " if published.at_least else ""
    told = f"the published {least}{increase_words(known)}"
    because = f" ({said})" if said else ""
    if measured.high + _EQUAL < known:
        return False, f"disagrees with {told}, it is less{because}"
    if measured.low - _EQUAL > known and not published.at_least:
        return False, f"disagrees with {told}, it is more{because}"
    return True, f"agrees with {told}{because}"


def _published_cache(keys: str, values: str, parameters: int, architecture: str, *, rotated: bool) -> Loss:
    warnings = _warnings_about(keys, values, architecture)
    decided = next((w for w in warnings if w.architectures), None)
    if decided:
        nats = [decided.kl.get(t) for t in (keys, values) if t]
        known = [n for n in nats if n is not None]
        kl = max(known) if len(known) == len(nats) else None
        return Loss(None, kl, words=f"cache: {decided.words}", sources=(decided.source,), much=True)
    loss = _measured_cache(keys, values, parameters, architecture, rotated=rotated)
    words = [loss.words, *(w.words for w in warnings)]
    return Loss(loss.increase, loss.kl, loss.at_least, "; ".join(words), (*loss.sources, *(w.source for w in warnings)))


def _cache_label(keys: str, values: str) -> str:
    return f"cache {keys or 'f16'}/{values or 'f16'}: "


def _warnings_about(keys: str, values: str, architecture: str) -> list[CacheException]:
    found = []
    for warning in cache_exceptions().values():
        types = (keys,) if warning.part == "keys" else (keys, values)
        known = [quants().get(name.upper()) for name in types if name]
        bits = (quant.block_bytes * 8 / quant.block_elements if quant else _EIGHT for quant in known)
        few = any(each <= warning.bits_at_most for each in bits)
        if few and (not warning.architectures or architecture in warning.architectures):
            found.append(warning)
    return found


class _AskedModel(NamedTuple):
    parameters: int
    architecture: str
    rotated: bool


class _QualityFigures(NamedTuple):
    """Figures that add up to an answer; none where a part was not measured."""

    taken: tuple[tuple[Figure, float], ...] = ()
    at_least: bool = False

    @property
    def sum(self) -> float:
        """Of their numbers."""
        return sum(number for _, number in self.taken)


def _measured_cache(keys: str, values: str, parameters: int, architecture: str, *, rotated: bool) -> Loss:
    label = _cache_label(keys, values)
    if parameters <= 0:
        return unknown_loss(label + "model size unknown")
    asked = _AskedModel(parameters, architecture, rotated)
    shares, nats = (_find_figures(keys, values, asked, number) for number in (_INCREASE, _DIVERGENCE))
    if not shares.taken:
        return unknown_loss(label + "no published perplexity")
    models = " and ".join(dict.fromkeys(figure.table.model for figure, _ in shares.taken))
    sources = dict.fromkeys(figure.table.source for figure, _ in (*shares.taken, *nats.taken))
    words = f"{label}{'at least ' if shares.at_least else ''}{shares.sum:+.2%} perplexity of {models}"
    kl = nats.sum if nats.taken and not nats.at_least else None
    return Loss(shares.sum, kl, shares.at_least, words, tuple(sources))


def _find_figures(keys: str, values: str, asked: _AskedModel, number: FigureNumber) -> _QualityFigures:
    """Both halves as they were measured together, and never less than one of them alone; else one and the other."""
    whole = _single_figure(keys, values, asked, number)
    if not keys or not values or any(figure.table.only_for for figure, _ in whole.taken):
        return whole
    halves = _single_figure(keys, "", asked, number), _single_figure("", values, asked, number)
    if whole.taken:
        worst = max((whole, *halves), key=lambda found: found.sum)
        return _QualityFigures(worst.taken, whole.at_least)
    if halves[0].taken and halves[1].taken:
        return _QualityFigures((*halves[0].taken, *halves[1].taken), halves[0].at_least or halves[1].at_least)
    return _QualityFigures()


def _single_figure(keys: str, values: str, asked: _AskedModel, number: FigureNumber) -> _QualityFigures:
    """What was measured of just this, rotated as asked if that was; rotating only ever loses less."""
    known = [f for f in figures_about(asked.architecture, cache_figures(keys, values)) if number(f) is not None]
    for rotated in (asked.rotated, not asked.rotated):
        among = [f for f in known if f.row.rotated == rotated]
        found = nearest_figure(asked.parameters, asked.architecture, among, number)
        if found:
            return _QualityFigures((found,), at_least=rotated and not asked.rotated)
    return _QualityFigures()


def unknown_loss(words: str) -> Loss:
    """An unpublished loss, and why."""
    return Loss(None, None, words=words)


def nearest_figure(
    parameters: int, architecture: str, among: Iterable[Figure], number: FigureNumber
) -> tuple[Figure, float] | None:
    """The figure to take, and its number; of models of about the same size the worst, because newer ones lose more."""
    found = [(f, n) for f in figures_about(architecture, among) if (n := number(f)) is not None]
    found = [(f, n) for f, n in found if not f.table.older] or found
    found = [(f, n) for f, n in found if f.table.per != "word"] or found
    if not found or parameters <= 0:
        return None
    nearest = min((f for f, _ in found), key=lambda f: _distance(f, parameters))
    alike = [(f, n) for f, n in found if f is nearest or _distance(f, nearest.table.parameters) <= _SAME_SIZE]
    return max(alike, key=lambda pair: pair[1])


def figures_about(architecture: str, among: Iterable[Figure]) -> list[Figure]:
    """Figures of models that are built like it where there are such, else those that speak for every model."""
    among = list(among)
    return [f for f in among if architecture in f.table.only_for] or [f for f in among if not f.table.only_for]


def _distance(figure: Figure, parameters: int) -> float:
    """Between sizes, as a logarithm; nothing is near to a model whose size is not known."""
    both = figure.table.parameters and parameters
    return abs(log(parameters / figure.table.parameters)) if both else inf


@cache
def weight_figures(quant: str) -> tuple[Figure, ...]:
    """What others measured of one quant."""
    return tuple(f for f in figures() if f.row.quant == quant and not f.table.own)


def cache_figures(keys: str, values: str) -> tuple[Figure, ...]:
    """What others measured of caches of these types; an empty one stands for 16 bits."""
    return tuple(f for f in _cache_rows(keys, values) if not f.table.own)


@cache
def _cache_rows(keys: str, values: str) -> tuple[Figure, ...]:
    return tuple(f for f in figures() if not f.row.quant and (f.row.keys, f.row.values) == (keys, values))


def is_equal_quality(one: Cost, other: Cost) -> bool:
    """Whether they are indistinguishable: at most 0.1 % of perplexity, and 0.002 nats where both were measured."""
    # Of the same quant only the caches are compared, whether or not what the weights cost is known
    if one.quant == other.quant:
        return _is_near(one.cache, other.cache)
    return _is_near(*(Loss(c.perplexity_increase, c.kl_divergence, at_least=c.is_at_least) for c in (one, other)))


def _is_near(one: Loss, other: Loss) -> bool:
    if one.increase is None or other.increase is None or one.at_least or other.at_least:
        return one == other
    near = abs(log1p(one.increase) - log1p(other.increase)) <= _EQUAL
    return near and (one.kl is None or other.kl is None or abs(one.kl - other.kl) <= _EQUAL_KL)


def is_as_good(one: Cost, other: Cost) -> bool:
    """Whether they are indistinguishable, or the first is better."""
    known = one.perplexity_increase is not None and other.perplexity_increase is not None
    better = known and (one.perplexity_increase or 0.0) <= (other.perplexity_increase or 0.0)
    return better or is_equal_quality(one, other)


def shown_quality(cost: Cost) -> QualityShown:
    """The cost as the report tells it."""
    return msgspec.convert(cost, QualityShown, from_attributes=True)


def hf_cost(quant: str, types: str, cache: str, parameters: int, architecture: str) -> Cost:
    """The cost of weights and cache together."""
    kept = "f16" if cache in _PLAIN else _CACHES.get(cache, cache)
    return quality_cost("F16" if types == HALF else quant, kept, kept, parameters, architecture)


def hf_quality(quant: str, types: str, cache: str, parameters: int, architecture: str) -> QualityShown:
    """The same as the report shows it."""
    cost = hf_cost(quant, types, cache, parameters, architecture)
    return msgspec.structs.replace(shown_quality(cost), words=cost.words or FULL)


def weight_bits(types: str) -> float:
    """Of a class of types, about: what quality is ordered by where no figure was published."""
    return {HALF: 16.0, BYTES: 8.0}.get(types, 4.0)
