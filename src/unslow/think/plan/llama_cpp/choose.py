"""Which point to take: the best for the aim among those that keep the floors."""

from collections.abc import Iterator, Sequence
from itertools import combinations
from typing import NamedTuple

from unslow.think.plan.goal import Goal, Work
from unslow.think.plan.llama_cpp.points import (
    DEFAULT_CACHE,
    DEFAULT_MICRO_BATCH,
    MOST_TOKENS,
    NEARLY,
    Point,
    Points,
    has_room_for,
)
from unslow.think.plan.llama_cpp.price import FoundSettings, Price, Pricing, other_work
from unslow.think.plan.quality import is_equal_quality

_SAME = 1.01  # an unnoticeable difference
_LONGER = (2, 4)  # times the context that was asked for, as far as the model was trained for it
_SEARCHED_WHOLE = 2  # types of cache of which the best settings are searched among all: those that cost no quality
_NEIGHBOURS = 2  # so many quants that are coarser than the given one are looked at: finer ones are never faster


class Choice(NamedTuple):
    """The points that were found, and the one to take."""

    front: tuple[Point, ...]
    best: Point | None
    others: tuple[Point, ...]  # That were found and are not on the front, or fall below a floor


def choose(points: Points) -> Choice:
    """Everything that serves the goal, and the best of it."""
    goal = points.question.goal
    every = [point for point in _every_point(points) if point]
    guarded = not points.unguarded and has_room_for(points.question.given_variant.blueprint, points.question.hardware)
    if guarded and not any(_serves(point, goal, points) for point in every):
        points.unguarded = True
        points.forget()
        every = [point for point in _every_point(points) if point]
    if not any(p.variant.given and p.context == goal.context and is_good_enough(p, goal, points) for p in every):
        every += [point for point in (points.runnable(),) if point]
    serving = [point for point in every if _serves(point, goal, points)]
    best = _best_point(serving, goal)
    distinct = list({id(point): point for point in every}.values())
    # Those that no other beats in speed, context and quality at once; of equal ones the first
    front = [p for p in distinct if not any(_beats(other, p) for other in distinct if other is not p)]
    if best and not any(point is best for point in front):
        front = [*front, best]
    front.sort(key=lambda point: (point.context, point.request_s))
    shown = {id(point) for point in front}
    return Choice(tuple(front), best, tuple(point for point in every if id(point) not in shown))


def _every_point(points: Points) -> Iterator[Point | None]:
    """The given quant with every type of cache; longer contexts; and finer and coarser quants."""
    asked = points.question
    given, goal = asked.given_variant, asked.goal
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
        yield from _longer_points(points, kind, kinds[0])
    others = [variant for variant in asked.variants if not variant.given]
    if goal.aim != "quality":
        at = asked.variants.index(given)
        others = [v for v in others if v.whole or 0 < asked.variants.index(v) - at <= _NEIGHBOURS]
    for variant in others:
        for kind in kinds if goal.aim == "quality" else kinds[-1:]:
            yield points.at(variant, kind, kind, goal.context)


def mixed_types(points: Points) -> Iterator[tuple[str, str]]:
    """Keys of one type and values of another, where llama.cpp computes with them, and the cost was measured."""
    # Only processors do: the kernels of GPUs that it is built with are for one type (`rejected.py`). Keys are never the
    # coarser ones: they lose more.
    asked = points.question
    if asked.hardware.rooms or not asked.abilities.mixed_cache:
        return
    for key, value in combinations(asked.abilities.cache_types, 2):
        if points.cost(asked.given_variant, key, value).cache.increase is not None:
            yield key, value


def _longer_points(points: Points, kind: str, finest: str) -> Iterator[Point | None]:
    """Longer contexts, up to the first that does not fit or falls below the floor: what is longer still does too."""
    # Each with the finest cache too where nothing is divided with the host: there may be room for that
    given, goal = points.question.given_variant, points.question.goal
    for context in _contexts(points):
        point = points.at(given, kind, kind, context)
        yield point
        if point and not (points.question.hardware.rooms and point.found.placing.first_complete):
            yield points.at(given, finest, finest, point.context)
        least = goal.least_tokens_per_s or 0.0
        if point is None or (goal.aim == "context" and least and slowest(point, points) < least):
            return


def _contexts(points: Points) -> tuple[int, ...]:
    """A few for a look; every doubling and the steps between where the context is the aim."""
    goal, given = points.question.goal, points.question.given_variant
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
    if point.context < goal.context or not point.variant.at_hand:
        return False
    quick = goal.least_tokens_per_s is None or slowest(point, points) >= goal.least_tokens_per_s
    return quick and is_good_enough(point, goal, points)


def slowest(point: Point, points: Points) -> float:
    """Tokens per second at the user's work; where the context is the aim, of a conversation that fills it."""
    if points.question.goal.aim != "context":
        return point.found.price.decode_tokens_per_s
    work = other_work(points.question.goal.work, point.context)[1]
    return price_at(points, point, point.found, work).decode_tokens_per_s


def is_good_enough(point: Point, goal: Goal, points: Points) -> bool:
    """By the floor that was given; else as good as the given file with its cache as it is by default."""
    # Where quality is the aim, the finest is taken that keeps the floor of speed, and no other floor is needed
    if goal.worst_perplexity_increase is not None:
        return point.increase <= goal.worst_perplexity_increase
    if goal.aim == "quality":
        return True
    if point.variant.given:
        return is_equal_quality(point.cost, points.cost(point.variant, DEFAULT_CACHE))
    return point.increase <= (points.cost(points.question.given_variant, DEFAULT_CACHE).perplexity_increase or 0.0)


def _best_point(serving: Sequence[Point], goal: Goal) -> Point | None:
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

    def effort(point: Point) -> tuple[float, ...]:
        settings = point.found.settings
        types = (settings.key_type != DEFAULT_CACHE, settings.value_type != settings.key_type)
        others = (settings.micro_batch != DEFAULT_MICRO_BATCH, not settings.cache_on_gpu)
        changes = sum((*types, *others, *map(bool, point.found.placing)))
        return point.context, point.increase, changes, point.request_s

    return min(alike, key=effort)


def _beats(one: Point, other: Point) -> bool:
    """Whether it is as good in everything that counts, and better in something; what one lacks is no better."""
    if other.variant.at_hand and not one.variant.at_hand:
        return False
    quick = one.request_s <= _SAME * other.request_s
    better = one.request_s * _SAME < other.request_s or one.context > other.context or one.increase < other.increase
    return quick and one.context >= other.context and one.increase <= other.increase and better


def price_at(points: Points, best: Point, found: FoundSettings, work: Work) -> Price:
    """What other work takes with settings that were found for a point's model."""
    pricing = Pricing(best.variant.pieces, points.question.hardware, work)
    return pricing.price(found.settings, found.placing, found.split, found.threads)
