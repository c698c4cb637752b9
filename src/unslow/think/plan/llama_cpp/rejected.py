"""What people try instead, and why it is not the recommendation: each is priced like the plans themselves."""

from collections.abc import Callable, Iterator

from unslow.think.memory.llama_cpp.settings import Settings
from unslow.think.physics.interconnect import ROW
from unslow.think.plan.goal import Work
from unslow.think.plan.llama_cpp.placing import Placing
from unslow.think.plan.llama_cpp.points import DEFAULT_MICRO_BATCH, Point, Points
from unslow.think.plan.llama_cpp.price import Price, Pricing
from unslow.think.plan.report import RejectedShown

_ALIKE = 1.03


def rejected(points: Points, best: Point, others: tuple[Point, ...]) -> tuple[RejectedShown, ...]:
    """Each with its numbers."""
    found = [*_tempting(points, best), *_points(best, others)]
    return tuple(RejectedShown(what=what, because=because) for what, because in found)


def _tempting(points: Points, best: Point) -> Iterator[tuple[str, str]]:
    """Settings of the same file and cache that guides name."""
    placing, settings = best.found.placing, best.found.settings
    if not best.found.split or not any(best.found.split):
        yield from _fewer_threads(points, best)
        return
    if settings.cache_on_gpu and placing.first_complete:
        yield from _cache_with_host(points, best)
    if placing.first_complete - placing.whole:
        yield from _instead(points, best, "whole layers with the host (-ngl alone)", lambda p: p.apart + p.pieces == 0)
    if placing.whole and points.question.abilities.apart:
        what = "only experts" if best.variant.pieces.is_sparse else "only feed-forward matrices"
        yield from _instead(points, best, f"{what} with the host", lambda p: p.whole == 0)
    if sum(1 for count in best.found.split if count) > 1 and not placing.first_complete:
        yield from _cut(points, best)
    if placing.first_complete:
        yield from _fewer_threads(points, best)
        yield from _other_micro_batch(points, best)


def _instead(
    points: Points, best: Point, what: str, allowed: Callable[[Placing], bool], micro_batch: int | None = None
) -> Iterator[tuple[str, str]]:
    search = points.search(best.variant)
    plain = _unplaced(best)
    other = search.best_of(plain._replace(micro_batch=micro_batch or plain.micro_batch), allowed)
    if other is None:
        yield what, "does not fit"
        return
    yield what, _against(best.found.price, other[0])


def _cache_with_host(points: Points, best: Point) -> Iterator[tuple[str, str]]:
    """Which looks quick in an empty context, and crawls in a full one."""
    settings = _unplaced(best)._replace(cache_on_gpu=False)
    other = points.search(best.variant).best_of(settings, lambda _: True)
    if other is None:
        return
    deep = points.other_work(best.context)[1]
    now = _at(points, best, deep, best.found.placing, cache_on_gpu=True)
    then = _at(points, best, deep, other[1], cache_on_gpu=False)
    said = _against(best.found.price, other[0])
    further = f"at {deep.depth:,.0f} tokens of depth {then.decode_tokens_per_s:.3g} tok/s instead of"
    yield "keys and values with the host (-nkvo)", f"{said}; {further} {now.decode_tokens_per_s:.3g}"


def _at(points: Points, best: Point, work: Work, placing: Placing, *, cache_on_gpu: bool) -> Price:
    pricing = Pricing(best.variant.pieces, points.question.hardware, work)
    split = (len(best.variant.pieces.layers) + 1 - placing.whole,) + (0,) * (len(best.found.split) - 1)
    settings = _unplaced(best)._replace(cache_on_gpu=cache_on_gpu)
    return pricing.price(settings, placing, split if len(split) == 1 else best.found.split, best.found.threads)


def _cut(points: Points, best: Point) -> Iterator[tuple[str, str]]:
    """Every matrix on all GPUs: each works all the time, and all wait for all twice a layer."""
    pricing = Pricing(best.variant.pieces, points.question.hardware, points.question.goal.work)
    pricing.split_mode = ROW
    price = pricing.price(_unplaced(best), best.found.placing, best.found.split, best.found.threads)
    yield "rows of every matrix on each GPU (-sm row)", _against(best.found.price, price)


def _fewer_threads(points: Points, best: Point) -> Iterator[tuple[str, str]]:
    half = best.found.threads // 2
    if half < 1:
        return
    pricing = points.search(best.variant).pricing
    price = pricing.price(_unplaced(best), best.found.placing, best.found.split, half)
    yield f"fewer threads than cores ({half})", _against(best.found.price, price)


def _other_micro_batch(points: Points, best: Point) -> Iterator[tuple[str, str]]:
    now = best.found.settings.micro_batch
    if now == DEFAULT_MICRO_BATCH:
        sizes = points.question.abilities.micro_batches
        smaller = [size for size in sizes if size < now]
        if smaller:
            yield from _instead(points, best, f"a micro-batch of {smaller[-1]}", lambda _: True, smaller[-1])
        return
    yield from _instead(points, best, f"the usual micro-batch of {DEFAULT_MICRO_BATCH}", lambda _: True, 512)


def _points(best: Point, others: tuple[Point, ...]) -> Iterator[tuple[str, str]]:
    """Other quants and types of cache with the same context; each once."""
    said: set[str] = set()
    for point in others:
        what = f"{point.variant.quant} with a cache of {point.found.settings.key_type.lower()}"
        if point.context != best.context or what in said:
            continue
        said.add(what)
        costs = point.cost.cache.words if point.variant.given else point.cost.weights.words
        missing = "" if point.variant.at_hand else "no such file is here"
        yield what, "; ".join(filter(None, (_against(best.found.price, point.found.price), costs, missing)))


def _unplaced(point: Point) -> Settings:
    """Its settings without where things go."""
    return point.found.settings._replace(gpu_layers=-1, experts_on_cpu=0, overrides=(), split=())


def _against(best: Price, other: Price) -> str:
    """How it compares, in the work that was asked about."""
    ratio = other.request_s / best.request_s
    speeds = f"{other.decode_tokens_per_s:.3g} tok/s instead of {best.decode_tokens_per_s:.3g}"
    if ratio > _ALIKE:
        return f"{ratio:.2f} times as long for the same request ({speeds})"
    if ratio < 1 / _ALIKE:
        return f"the same request {1 / ratio:.2f} times as quick, answers at {speeds}"
    return f"no difference to speak of ({speeds})"
