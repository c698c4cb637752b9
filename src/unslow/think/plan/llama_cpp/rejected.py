"""What people try instead of the plan that is taken, and with its numbers why not."""

from collections.abc import Callable, Iterator

from unslow.think.memory.llama_cpp.hyperparameters import Settings
from unslow.think.physics.placement import SPLIT_BY_ROW
from unslow.think.plan.llama_cpp.choose import price_at
from unslow.think.plan.llama_cpp.placing import Placing
from unslow.think.plan.llama_cpp.points import DEFAULT_CACHE, DEFAULT_MICRO_BATCH, MUCH, Point, Points
from unslow.think.plan.llama_cpp.price import FoundSettings, Price, Pricing, other_work
from unslow.think.plan.llama_cpp.search import ABOUT, PricedPlacing
from unslow.think.plan.report import RejectedShown

_ALIKE = 1.03
_TOO_LITTLE = f"but less than {MUCH:g} times, and the CPU must then compute attention: not worth the risk"
_BUILT = (
    "the usual llama.cpp builds have kernels only for equal types: builds until September 2026 then compute attention "
    "on the CPU, later ones convert the whole KV cache to 16 bits for each token"
)
_ONE_TYPE = {
    "cuda": _BUILT,
    "rocm": _BUILT,
    "metal": "Metal has kernels only for equal types: the CPU would compute attention",
    "vulkan": "Vulkan supports it, but its memory use has not been measured",
}
"""Why unlike types are not searched on a GPU (supports_op of each backend in llama.cpp's sources)."""
Other = FoundSettings | PricedPlacing
"""Settings that a plan is held against; what is only priced was not laid out, and may be slower than that."""


def rejected_options(points: Points, best: Point, others: tuple[Point, ...]) -> tuple[RejectedShown, ...]:
    """Each with its numbers."""
    found = [*_tempting_changes(points, best), *_other_points(best, others)]
    return tuple(RejectedShown(what=what, because=because) for what, because in found)


def _tempting_changes(points: Points, best: Point) -> Iterator[tuple[str, str]]:
    placing, settings = best.found.placing, best.found.settings
    if not best.found.split or not any(best.found.split):
        yield from _fewer_threads(points, best)
        return
    if settings.cache_on_gpu and placing.first_complete and points.question.abilities.cache_on_host:
        yield from _cache_with_host(points, best)
    if placing.first_complete - placing.whole:
        yield from _alternative(points, best, "whole layers on the CPU (-ngl alone)", lambda p: p.apart + p.pieces == 0)
    if placing.whole and points.question.abilities.apart:
        what = "only experts" if best.variant.pieces.is_sparse else "only feed-forward matrices"
        yield from _alternative(points, best, f"{what} on the CPU", lambda p: p.whole == 0)
    if sum(1 for count in best.found.split if count) > 1 and not placing.first_complete:
        # Every matrix on all GPUs: each works all the time, and all wait for all twice a layer
        pricing = Pricing(best.variant.pieces, points.question.hardware, points.question.goal.work)
        pricing.split_mode = SPLIT_BY_ROW
        price = pricing.price(_settings_without_placing(best), placing, best.found.split, best.found.threads)
        said = _compared_words(best.found.price, price)
        yield "row split across GPUs (-sm row)", f"{said}; each GPU holds about as much as now"
    if placing.first_complete:
        yield from _fewer_threads(points, best)
        size, what = DEFAULT_MICRO_BATCH, "the usual micro-batch"
        if settings.micro_batch == size:
            smaller = [other for other in points.question.abilities.micro_batches if other < size]
            size, what = smaller[-1] if smaller else size, "a micro-batch"
        if settings.micro_batch != size:
            yield from _alternative(points, best, f"{what} of {size}", lambda _: True, size)
    if placing.first_complete or settings.cache_types != DEFAULT_CACHE.lower():
        yield from unlike_types(points)


def _cache_with_host(points: Points, best: Point) -> Iterator[tuple[str, str]]:
    """Which looks quick in an empty context, and crawls in a full one."""
    other = _best_of(points, best, _settings_without_placing(best)._replace(cache_on_gpu=False), lambda _: True)
    if other is None:
        return
    at_most = isinstance(other, PricedPlacing)
    said = _compared_words(best.found.price, other.price, at_most=at_most)
    reasons = [*_drawbacks(points, best, other)] or [_when_deep(points, best, other)]
    if not at_most and other.price.request_s * _ALIKE < best.request_s and not reasons[0].startswith("but"):
        reasons.append(_TOO_LITTLE)
    yield "KV cache in host memory (-nkvo)", "; ".join((said, *reasons))


def _alternative(
    points: Points, best: Point, what: str, allowed: Callable[[Placing], bool], micro_batch: int | None = None
) -> Iterator[tuple[str, str]]:
    plain = _settings_without_placing(best)
    other = _best_of(points, best, plain._replace(micro_batch=micro_batch or plain.micro_batch), allowed)
    if other is None:
        yield what, "does not fit"
        return
    said = _compared_words(best.found.price, other.price, at_most=isinstance(other, PricedPlacing))
    yield what, "; ".join((said, *_drawbacks(points, best, other)))


def _fewer_threads(points: Points, best: Point) -> Iterator[tuple[str, str]]:
    half = best.found.threads // 2
    if half < 1:
        return
    pricing = points.search(best.variant).pricing
    price = pricing.price(_settings_without_placing(best), best.found.placing, best.found.split, half)
    yield f"fewer threads than cores ({half})", _compared_words(best.found.price, price)


def unlike_types(points: Points) -> Iterator[tuple[str, str]]:
    """Keys of a finer type than values, which guides name: a trap on most GPUs."""
    why = _ONE_TYPE.get(points.question.hardware.setting.backend)
    if why and points.question.abilities.mixed_cache and len(points.question.abilities.cache_types) > 1:
        yield "different types for keys and values (-ctk q8_0 -ctv q4_0)", why


def _best_of(points: Points, best: Point, settings: Settings, allowed: Callable[[Placing], bool]) -> Other | None:
    """The quickest of some placings; what seems to be quicker than the plan is laid out like the plan itself."""
    other = points.search(best.variant).best_of(settings, allowed)
    if other is None or other.price.request_s * _ALIKE >= best.request_s:
        return other
    search = points.new_search(best.variant)
    search.same, search.allowed = ABOUT, allowed
    return search.best(settings, (settings.micro_batch,), (settings.cache_on_gpu,))


def _drawbacks(points: Points, best: Point, other: Other) -> Iterator[str]:
    """What keeps something from being taken that is quicker at the work that was named."""
    if isinstance(other, PricedPlacing) or other.price.request_s * _ALIKE >= best.request_s:
        return
    long, deep = other_work(points.question.goal.work, best.context)
    now, then = (price_at(points, best, found, deep) for found in (best.found, other))
    if then.step_s > now.step_s:
        yield f"but {_when_deep(points, best, other)}"
        return
    now, then = (price_at(points, best, found, long) for found in (best.found, other))
    if then.request_s > now.request_s:
        slower = then.request_s / now.request_s
        yield f"but a prompt of {long.prompt:,} tokens and its answer take {slower:.2f} times as long"


def _when_deep(points: Points, best: Point, other: Other) -> str:
    deep = other_work(points.question.goal.work, best.context)[1]
    now = price_at(points, best, best.found, deep)
    if isinstance(other, FoundSettings):
        then = price_at(points, best, other, deep)
    else:  # a placing with its cache on the host whose memory was not laid out
        pricing = Pricing(best.variant.pieces, points.question.hardware, deep)
        split = (len(best.variant.pieces.layers) + 1 - other.placing.whole,) + (0,) * (len(best.found.split) - 1)
        settings = _settings_without_placing(best)._replace(cache_on_gpu=False)
        split = split if len(split) == 1 else best.found.split
        then = pricing.price(settings, other.placing, split, best.found.threads)
    speeds = f"{then.decode_tokens_per_s:.3g} tok/s instead of {now.decode_tokens_per_s:.3g}"
    return f"at {deep.depth:,.0f} tokens of depth {speeds}"


def _compared_words(best: Price, other: Price, *, at_most: bool = False) -> str:
    """How it compares, in the work that was asked about; it may be no quicker than that."""
    ratio = other.request_s / best.request_s
    speeds = f"{other.decode_tokens_per_s:.3g} tok/s instead of {best.decode_tokens_per_s:.3g}"
    speeds = f"at most {speeds}" if at_most else speeds
    if ratio > _ALIKE:
        return f"{'at least ' if at_most else ''}{ratio:.2f} times as long for the same request ({speeds})"
    if ratio < 1 / _ALIKE:
        return f"the same request {1 / ratio:.2f} times as fast, decode at {speeds}"
    return f"{'no clear gain' if at_most else 'no noticeable difference'} ({speeds})"


def _settings_without_placing(point: Point) -> Settings:
    return point.found.settings._replace(gpu_layers=-1, experts_on_cpu=0, overrides=(), split=())


def _other_points(best: Point, others: tuple[Point, ...]) -> Iterator[tuple[str, str]]:
    """Other quants and types of cache with the same context; each once."""
    said = {_kind(best)}
    for point in others:
        what = _kind(point)
        if point.context != best.context or what in said:
            continue
        said.add(what)
        costs = point.cost.cache.words if point.variant.given else point.cost.weights.words
        missing = "" if point.variant.at_hand else "no such file on this machine"
        yield what, "; ".join(filter(None, (_compared_words(best.found.price, point.found.price), costs, missing)))


def _kind(point: Point) -> str:
    return f"{point.variant.quant} with a cache of {point.found.settings.cache_types}"
