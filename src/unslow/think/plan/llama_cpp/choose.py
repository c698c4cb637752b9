"""Which point to take: the best for the aim among those that keep the floors, and why not what people try instead."""

from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

from unslow.think.memory.llama_cpp.settings import Settings
from unslow.think.physics.links import SPLIT_BY_ROW
from unslow.think.plan.goal import Goal, Work
from unslow.think.plan.llama_cpp.placing import Placing
from unslow.think.plan.llama_cpp.points import (
    DEFAULT_CACHE,
    DEFAULT_MICRO_BATCH,
    MOST_TOKENS,
    MUCH,
    NEARLY,
    Point,
    Points,
    has_room_for,
)
from unslow.think.plan.llama_cpp.price import FoundSettings, Price, Pricing, other_work
from unslow.think.plan.llama_cpp.search import Priced
from unslow.think.plan.quality import is_equal_quality
from unslow.think.plan.report import RejectedShown

_SAME = 1.01  # a difference that nobody notices
_LONGER = (2, 4)  # times the context that was asked for, as far as the model was trained for it
_SEARCHED_WHOLE = 2  # types of cache of which the best settings are searched among all: those that cost no quality
_NEIGHBOURS = 2  # so many quants that are coarser than the given one are looked at: finer ones are never faster


class Chosen(NamedTuple):
    """The points that were found, and the one to take."""

    front: tuple[Point, ...]
    best: Point | None
    others: tuple[Point, ...]  # That were found and are not on the front, or fall below a floor


def choose(points: Points) -> Chosen:
    """Everything that serves the goal, and the best of it."""
    goal = points.question.goal
    every = [point for point in _every(points) if point]
    guarded = not points.unguarded and has_room_for(points.question.given.blueprint, points.question.hardware)
    if guarded and not any(_serves(point, goal, points) for point in every):
        points.unguarded = True
        points.forget()
        every = [point for point in _every(points) if point]
    if not any(p.variant.given and p.context == goal.context and is_good_enough(p, goal, points) for p in every):
        every += [point for point in (points.runnable(),) if point]
    serving = [point for point in every if _serves(point, goal, points)]
    best = _best(serving, goal)
    distinct = list({id(point): point for point in every}.values())
    # Those that no other beats in speed, context and quality at once; of equal ones the first
    front = [p for p in distinct if not any(_beats(other, p) for other in distinct if other is not p)]
    if best and not any(point is best for point in front):
        front = [*front, best]
    front.sort(key=lambda point: (point.context, point.request_s))
    shown = {id(point) for point in front}
    return Chosen(tuple(front), best, tuple(point for point in every if id(point) not in shown))


def _every(points: Points) -> Iterator[Point | None]:
    """The given quant with every type of cache; longer contexts; and finer and coarser quants."""
    asked = points.question
    given, goal = asked.given, asked.goal
    for number, kind in enumerate(asked.abilities.cache_types):
        if number == _SEARCHED_WHOLE:
            points.settle()
        yield points.at(given, kind, kind, goal.context)
        if number < _SEARCHED_WHOLE:
            yield points.alone(given, kind, kind, goal.context)
    for key, value in mixed_types(points):
        yield points.at(given, key, value, goal.context)
    kinds = asked.abilities.cache_types[:2]
    for kind in kinds[-1:] if goal.aim == "speed" else kinds:
        yield from _longer(points, kind, kinds[0])
    others = [variant for variant in asked.variants if not variant.given]
    if goal.aim != "quality":
        at = asked.variants.index(given)
        others = [v for v in others if v.whole or 0 < asked.variants.index(v) - at <= _NEIGHBOURS]
    for variant in others:
        for kind in kinds if goal.aim == "quality" else kinds[-1:]:
            yield points.at(variant, kind, kind, goal.context)


def mixed_types(points: Points) -> Iterator[tuple[str, str]]:
    """Keys of one type and values of another, where llama.cpp computes with them, and somebody measured what it costs.

    Only processors do: the kernels of GPUs that it is built with are for one type (see `unlike_types`). Keys are never
    the coarser ones: they lose more.
    """
    asked = points.question
    if asked.hardware.rooms or not asked.abilities.mixed_cache:
        return
    for key, value in combinations(asked.abilities.cache_types, 2):
        if points.cost(asked.given, key, value).cache.increase is not None:
            yield key, value


def _longer(points: Points, kind: str, finest: str) -> Iterator[Point | None]:
    """Longer contexts, up to the first that does not fit or falls below the floor: what is longer still does too.

    Each with the finest cache too where nothing is divided with the host: there may be room for that.
    """
    given, goal = points.question.given, points.question.goal
    for context in _contexts(points):
        point = points.at(given, kind, kind, context)
        yield point
        if point and not (points.question.hardware.rooms and point.found.placing.first_complete):
            yield points.at(given, finest, finest, point.context)
        if point is None or (goal.aim == "context" and not _is_quick(point, goal, points)):
            return


def _contexts(points: Points) -> tuple[int, ...]:
    """A few for a look; every doubling and the steps between where the context is the aim."""
    goal, given = points.question.goal, points.question.given
    trained = min(given.blueprint.count("context_length", goal.context), MOST_TOKENS // goal.work.users)
    if goal.aim != "context":
        return tuple(goal.context * times for times in _LONGER if goal.context * times <= trained)
    found, step = [], goal.context
    while step < trained:
        found += [step * 5 // 4, step * 3 // 2, step * 7 // 4, step * 2]
        step *= 2
    return tuple(dict.fromkeys(min(context // 256 * 256, trained) for context in found))


def _serves(point: Point, goal: Goal, points: Points) -> bool:
    """Whether it keeps every floor, and is something that the user has."""
    wide = point.context >= goal.context
    return wide and _is_quick(point, goal, points) and is_good_enough(point, goal, points) and point.variant.at_hand


def _is_quick(point: Point, goal: Goal, points: Points) -> bool:
    return goal.least_tokens_per_s is None or slowest(point, points) >= goal.least_tokens_per_s


def slowest(point: Point, points: Points) -> float:
    """Tokens per second at the user's work; where the context is the aim, of a conversation that fills it."""
    if points.question.goal.aim != "context":
        return point.found.price.decode_tokens_per_s
    work = other_work(points.question.goal.work, point.context)[1]
    return _price_of(points, point, point.found, work).decode_tokens_per_s


def is_good_enough(point: Point, goal: Goal, points: Points) -> bool:
    """By the floor that was given; else as good as the given file with its cache as it is by default.

    Where quality is the aim, the finest is taken that keeps the floor of speed, and no other floor is needed.
    """
    if goal.worst_perplexity_increase is not None:
        return point.increase <= goal.worst_perplexity_increase
    if goal.aim == "quality":
        return True
    if point.variant.given:
        return is_equal_quality(point.cost, points.cost(point.variant, DEFAULT_CACHE))
    return point.increase <= (points.cost(points.question.given, DEFAULT_CACHE).perplexity_increase or 0.0)


def _best(serving: Sequence[Point], goal: Goal) -> Point | None:
    """The best by the aim; of those that are nearly as good, the finest and simplest."""
    if not serving:
        return None
    if goal.aim != "quality":  # a longer one than was asked for is no quicker, and other work was not held against it
        wanted = (max if goal.aim == "context" else min)(point.context for point in serving)
        serving = [point for point in serving if point.context == wanted]
    else:
        least = min(point.increase for point in serving)
        serving = [point for point in serving if point.increase <= least]
    quickest = min(point.request_s for point in serving)
    alike = [point for point in serving if point.request_s <= NEARLY * quickest]
    return min(alike, key=lambda point: (point.context, point.increase, _turned(point), point.request_s))


def _turned(point: Point) -> int:
    settings = point.found.settings
    types = (settings.key_type != DEFAULT_CACHE, settings.value_type != settings.key_type)
    others = (settings.micro_batch != DEFAULT_MICRO_BATCH, not settings.cache_on_gpu)
    return sum((*types, *others, *map(bool, point.found.placing)))


def _beats(one: Point, other: Point) -> bool:
    """Whether it is as good in everything that counts, and better in something; what one lacks is no better."""
    if other.variant.at_hand and not one.variant.at_hand:
        return False
    quick = one.request_s <= _SAME * other.request_s
    better = one.request_s * _SAME < other.request_s or one.context > other.context or one.increase < other.increase
    return quick and one.context >= other.context and one.increase <= other.increase and better


_ALIKE = 1.03
_TOO_LITTLE = f"but less than {MUCH:g} times, and processors must then compute attention: that is not worth the risk"
_BUILT = (
    "llama.cpp as it is usually built has kernels for one type of both: builds until September 2026 compute attention "
    "on the processor then, later ones turn all keys and values into 16 bits for each token"
)
_ONE_TYPE = {
    "cuda": _BUILT,
    "rocm": _BUILT,
    "metal": "Metal has kernels for one type of both: the processor would compute attention",
    "vulkan": "Vulkan computes with them, but nobody recorded yet how much memory it takes for that",
}
"""Why unlike types are not searched on a GPU (supports_op of each backend in llama.cpp's sources)."""


def rejected_options(points: Points, best: Point, others: tuple[Point, ...]) -> tuple[RejectedShown, ...]:
    """Each with its numbers."""
    found = [*_tempting(points, best), *_points(best, others)]
    return tuple(RejectedShown(what=what, because=because) for what, because in found)


def _tempting(points: Points, best: Point) -> Iterator[tuple[str, str]]:
    placing, settings = best.found.placing, best.found.settings
    if not best.found.split or not any(best.found.split):
        yield from _fewer_threads(points, best)
        return
    if settings.cache_on_gpu and placing.first_complete and points.question.abilities.cache_on_host:
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
    if placing.first_complete or settings.cache_types != DEFAULT_CACHE.lower():
        yield from unlike_types(points)


Other = FoundSettings | Priced
"""Settings that a plan is held against; what is only priced was not laid out, and may be slower than that."""


def _best_of(points: Points, best: Point, settings: Settings, allowed: Callable[[Placing], bool]) -> Other | None:
    """The quickest of some placings; what seems to be quicker than the plan is laid out like the plan itself."""
    other = points.search(best.variant).best_of(settings, allowed)
    if other is None or other.price.request_s * _ALIKE >= best.request_s:
        return other
    search = points.fresh_search(best.variant)
    search.allowed = allowed
    return search.best(settings, (settings.micro_batch,), (settings.cache_on_gpu,))


def _instead(
    points: Points, best: Point, what: str, allowed: Callable[[Placing], bool], micro_batch: int | None = None
) -> Iterator[tuple[str, str]]:
    plain = _unplaced(best)
    other = _best_of(points, best, plain._replace(micro_batch=micro_batch or plain.micro_batch), allowed)
    if other is None:
        yield what, "does not fit"
        return
    said = _against(best.found.price, other.price, at_most=isinstance(other, Priced))
    yield what, "; ".join((said, *_but(points, best, other)))


def _but(points: Points, best: Point, other: Other) -> Iterator[str]:
    """What keeps something from being taken that is quicker at the work that was named."""
    if isinstance(other, Priced) or other.price.request_s * _ALIKE >= best.request_s:
        return
    long, deep = other_work(points.question.goal.work, best.context)
    now, then = (_price_of(points, best, found, deep) for found in (best.found, other))
    if then.step_s > now.step_s:
        yield f"but {_when_deep(points, best, other)}"
        return
    now, then = (_price_of(points, best, found, long) for found in (best.found, other))
    if then.request_s > now.request_s:
        slower = then.request_s / now.request_s
        yield f"but a prompt of {long.prompt:,} tokens and its answer take {slower:.2f} times as long"


def _price_of(points: Points, best: Point, found: FoundSettings, work: Work) -> Price:
    pricing = Pricing(best.variant.pieces, points.question.hardware, work)
    return pricing.price(found.settings, found.placing, found.split, found.threads)


def _cache_with_host(points: Points, best: Point) -> Iterator[tuple[str, str]]:
    """Which looks quick in an empty context, and crawls in a full one."""
    other = _best_of(points, best, _unplaced(best)._replace(cache_on_gpu=False), lambda _: True)
    if other is None:
        return
    at_most = isinstance(other, Priced)
    said = _against(best.found.price, other.price, at_most=at_most)
    reasons = [*_but(points, best, other)] or [_when_deep(points, best, other)]
    if not at_most and other.price.request_s * _ALIKE < best.request_s and not reasons[0].startswith("but"):
        reasons.append(_TOO_LITTLE)
    yield "keys and values with the host (-nkvo)", "; ".join((said, *reasons))


def _when_deep(points: Points, best: Point, other: Other) -> str:
    deep = other_work(points.question.goal.work, best.context)[1]
    now = _price_of(points, best, best.found, deep)
    if isinstance(other, FoundSettings):
        then = _price_of(points, best, other, deep)
    else:  # a placing with its cache on the host whose memory was not laid out
        pricing = Pricing(best.variant.pieces, points.question.hardware, deep)
        split = (len(best.variant.pieces.layers) + 1 - other.placing.whole,) + (0,) * (len(best.found.split) - 1)
        settings = _unplaced(best)._replace(cache_on_gpu=False)
        split = split if len(split) == 1 else best.found.split
        then = pricing.price(settings, other.placing, split, best.found.threads)
    speeds = f"{then.decode_tokens_per_s:.3g} tok/s instead of {now.decode_tokens_per_s:.3g}"
    return f"at {deep.depth:,.0f} tokens of depth {speeds}"


def unlike_types(points: Points) -> Iterator[tuple[str, str]]:
    """Keys of a finer type than values, which guides name: a trap on most GPUs."""
    why = _ONE_TYPE.get(points.question.hardware.setting.backend)
    if why and points.question.abilities.mixed_cache and len(points.question.abilities.cache_types) > 1:
        yield "keys of another type than values (-ctk q8_0 -ctv q4_0)", why


def _cut(points: Points, best: Point) -> Iterator[tuple[str, str]]:
    """Every matrix on all GPUs: each works all the time, and all wait for all twice a layer."""
    pricing = Pricing(best.variant.pieces, points.question.hardware, points.question.goal.work)
    pricing.split_mode = SPLIT_BY_ROW
    price = pricing.price(_unplaced(best), best.found.placing, best.found.split, best.found.threads)
    said = _against(best.found.price, price)
    yield "rows of every matrix on each GPU (-sm row)", f"{said}; each GPU holds about as much as now"


def _fewer_threads(points: Points, best: Point) -> Iterator[tuple[str, str]]:
    half = best.found.threads // 2
    if half < 1:
        return
    pricing = points.search(best.variant).pricing
    price = pricing.price(_unplaced(best), best.found.placing, best.found.split, half)
    yield f"fewer threads than cores ({half})", _against(best.found.price, price)


def _other_micro_batch(points: Points, best: Point) -> Iterator[tuple[str, str]]:
    now, size = best.found.settings.micro_batch, DEFAULT_MICRO_BATCH
    if now != size:
        yield from _instead(points, best, f"the usual micro-batch of {size}", lambda _: True, size)
    elif smaller := [size for size in points.question.abilities.micro_batches if size < now]:
        yield from _instead(points, best, f"a micro-batch of {smaller[-1]}", lambda _: True, smaller[-1])


def _points(best: Point, others: tuple[Point, ...]) -> Iterator[tuple[str, str]]:
    """Other quants and types of cache with the same context; each once."""
    said = {_kind(best)}
    for point in others:
        what = _kind(point)
        if point.context != best.context or what in said:
            continue
        said.add(what)
        costs = point.cost.cache.words if point.variant.given else point.cost.weights.words
        missing = "" if point.variant.at_hand else "no such file is here"
        yield what, "; ".join(filter(None, (_against(best.found.price, point.found.price), costs, missing)))


def _kind(point: Point) -> str:
    return f"{point.variant.quant} with a cache of {point.found.settings.cache_types}"


def _unplaced(point: Point) -> Settings:
    """Its settings without where things go."""
    return point.found.settings._replace(gpu_layers=-1, experts_on_cpu=0, overrides=(), split=())


def _against(best: Price, other: Price, *, at_most: bool = False) -> str:
    """How it compares, in the work that was asked about; it may be no quicker than that."""
    ratio = other.request_s / best.request_s
    speeds = f"{other.decode_tokens_per_s:.3g} tok/s instead of {best.decode_tokens_per_s:.3g}"
    speeds = f"at most {speeds}" if at_most else speeds
    if ratio > _ALIKE:
        return f"{'at least ' if at_most else ''}{ratio:.2f} times as long for the same request ({speeds})"
    if ratio < 1 / _ALIKE:
        return f"the same request {1 / ratio:.2f} times as quick, answers at {speeds}"
    return f"{'at best as quick' if at_most else 'no difference to speak of'} ({speeds})"
