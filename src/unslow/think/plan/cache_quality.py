"""What quantised keys and values cost: measured together, or each alone and added."""

from typing import NamedTuple

from unslow.catalog.cache_exceptions import CacheException, cache_exceptions
from unslow.catalog.quality import Figure
from unslow.catalog.quants import quants
from unslow.think.plan.published import Number, about, divergence, increase, of_cache, speaking_for
from unslow.think.plan.quality_part import FREE, Loss, unknown

_WIDE = {"", "auto", "f16", "fp16", "float16", "half", "bf16", "bfloat16", "f32", "fp32", "float32"}
_SAME = {"fp8_e4m3": "fp8"}  # what vLLM means by fp8
_EIGHT = 8.0  # bits of types that ggml does not have, such as fp8


def cost_of_cache(
    key_type: str, value_type: str, parameters: int, architecture: str = "", *, rotated: bool = False
) -> Loss:
    """Of the cache alone; the names of types as runtimes spell them."""
    keys, values = _plain(key_type), _plain(value_type)
    if not keys and not values:
        return FREE
    warnings = [w for w in cache_exceptions().values() if _is_about(w, keys, values, architecture)]
    decided = next((w for w in warnings if w.architectures), None)
    if decided:
        nats = [decided.kl.get(t) for t in (keys, values) if t]
        return Loss(None, _worst(nats), words=f"cache: {decided.words}", sources=(decided.source,))
    loss = _measured(keys, values, parameters, architecture, rotated=rotated)
    words = [loss.words, *(w.words for w in warnings)]
    return Loss(loss.increase, loss.kl, loss.at_least, "; ".join(words), (*loss.sources, *(w.source for w in warnings)))


def _plain(name: str) -> str:
    """The type in small letters; empty for one of 16 bits or more."""
    name = name.casefold()
    return "" if name in _WIDE else _SAME.get(name, name)


def _worst(numbers: list[float | None]) -> float | None:
    known = [n for n in numbers if n is not None]
    return max(known) if len(known) == len(numbers) else None


def _is_about(warning: CacheException, keys: str, values: str, architecture: str) -> bool:
    types = (keys,) if warning.part == "keys" else (keys, values)
    few = any(t and _bits(t) <= warning.bits_at_most for t in types)
    return few and (not warning.architectures or architecture in warning.architectures)


def _bits(name: str) -> float:
    quant = quants().get(name.upper())
    return quant.block_bytes * 8 / quant.block_elements if quant else _EIGHT


def _measured(keys: str, values: str, parameters: int, architecture: str, *, rotated: bool) -> Loss:
    label = f"cache {keys or 'f16'}/{values or 'f16'}: "
    if parameters <= 0:
        return unknown(label + "the size of the model is not known")
    asked = _Asked(parameters, architecture, rotated)
    shares, nats = (_found(keys, values, asked, number) for number in (increase, divergence))
    if not shares.taken:
        return unknown(label + "nobody published the perplexity of it")
    models = " and ".join(dict.fromkeys(figure.table.model for figure, _ in shares.taken))
    return Loss(
        shares.sum,
        nats.sum if nats.taken and not nats.at_least else None,
        shares.at_least,
        f"{label}{'at least ' if shares.at_least else ''}{shares.sum:+.2%} perplexity of {models}",
        tuple(dict.fromkeys(figure.table.source for figure, _ in (*shares.taken, *nats.taken))),
    )


class _Asked(NamedTuple):
    """The model, and whether its runtime rotates."""

    parameters: int
    architecture: str
    rotated: bool


class _Found(NamedTuple):
    """Figures that add up to an answer; none where nobody measured all of it."""

    taken: tuple[tuple[Figure, float], ...] = ()
    at_least: bool = False

    @property
    def sum(self) -> float:
        """Of their numbers."""
        return sum(number for _, number in self.taken)


def _found(keys: str, values: str, asked: _Asked, number: Number) -> _Found:
    """Both halves as they were measured together, and never less than one of them alone; else one and the other."""
    whole = _one(keys, values, asked, number)
    if not keys or not values or any(figure.table.only_for for figure, _ in whole.taken):
        return whole
    halves = _one(keys, "", asked, number), _one("", values, asked, number)
    if whole.taken:
        worst = max((whole, *halves), key=lambda found: found.sum)
        return _Found(worst.taken, whole.at_least)
    if halves[0].taken and halves[1].taken:
        return _Found((*halves[0].taken, *halves[1].taken), halves[0].at_least or halves[1].at_least)
    return _Found()


def _one(keys: str, values: str, asked: _Asked, number: Number) -> _Found:
    """What was measured of just this, rotated as asked if that was; rotating only ever loses less."""
    known = [f for f in about(asked.architecture, of_cache(keys, values)) if number(f) is not None]
    for rotated in (asked.rotated, not asked.rotated):
        among = [f for f in known if f.row.rotated == rotated]
        found = speaking_for(asked.parameters, asked.architecture, among, number)
        if found:
            return _Found((found,), at_least=rotated and not asked.rotated)
    return _Found()
