"""The answer for llama.cpp: the front, the recommendation, and why not the others."""

import math
from collections.abc import Sequence

import msgspec

from unslow.facts.units import GIB
from unslow.think.plan.llama_cpp.by_itself import valued
from unslow.think.plan.llama_cpp.choose import Chosen, choose, is_good_enough, slowest
from unslow.think.plan.llama_cpp.drafting import drafted_option
from unslow.think.plan.llama_cpp.options import Shown, name_of
from unslow.think.plan.llama_cpp.placing import Placing
from unslow.think.plan.llama_cpp.point import Point
from unslow.think.plan.llama_cpp.points import Points
from unslow.think.plan.llama_cpp.price import Price, Pricing
from unslow.think.plan.llama_cpp.question import Current, Question
from unslow.think.plan.llama_cpp.rejected import rejected
from unslow.think.plan.planned import Planned
from unslow.think.plan.report import ChangeShown, OptionShown, SearchedShown

_MOST_SHOWN = 8


def plan_llama_cpp(
    question: Question, now: tuple[ChangeShown, ...], by_itself: int, hindered: float = 1.0
) -> tuple[Planned, OptionShown | None]:
    """The plan, and what is now; `by_itself` is how many threads llama.cpp takes where nobody says.

    What runs takes `hindered` times as long as by itself: its threads are more than it has time of processors for.
    """
    if not question.abilities.unmapped:
        question = question._replace(hardware=question.hardware._replace(pinned=False))
    points = Points(question)
    chosen = choose(points)
    before = _before(points, hindered)
    shown = Shown(question, now, before.found if before else None, by_itself)
    current = shown.option(before) if before else None
    if current and not question.current:
        current = msgspec.structs.replace(current, name=f"{question.runtime}'s own choice: {current.name}")
    counted = points.counted
    exact = chosen.best is None or chosen.best.proved
    searched = SearchedShown(
        combinations=counted.combinations, priced=counted.priced, laid_out=counted.laid_out, exact=exact
    )
    if chosen.best is None:
        reason, hint = _why_not(points, chosen)
        few = _told_apart(sorted(chosen.front, key=lambda point: point.request_s))[:_MOST_SHOWN]
        options = tuple(shown.option(point) for point in few)
        return Planned(options, None, (), searched, (), reason, hint), current
    front = _shortened(chosen, chosen.best)
    drafted, told = drafted_option(question, chosen.best, shown)
    return Planned(
        (*(shown.option(point) for point in front), *((drafted,) if drafted else ())),
        next(n for n, point in enumerate(front) if point is chosen.best),
        rejected(points, chosen.best, _left_out(chosen, front)),
        searched,
        (*_notes(points, chosen.best), *((told,) if told else ())),
    ), current


def _before(points: Points, hindered: float) -> Point | None:
    """What runs now; where nothing does, what llama.cpp would do by itself."""
    question = points.question
    current: Current | None = question.current
    given = question.given
    if current is None:
        found = points.by_itself(question.goal.context)
    else:
        placing = Placing(current.whole, current.apart)
        split = current.split(len(given.pieces.layers), len(question.hardware.rooms))
        search = points.search(given)
        found = valued(search, current.settings, placing, split)
        if found:
            now = Pricing(given.pieces, question.hardware._replace(pinned=current.pinned), question.goal.work)
            price = now.price(current.settings, found.placing, split, current.threads)
            price = Price(*(seconds * hindered for seconds in price))
            found = found._replace(threads=current.threads, price=price)
    if found is None:
        return None
    return points.point(given, found, found.settings.slot_context)


def _shortened(chosen: Chosen, best: Point) -> list[Point]:
    """A front that can be read: the best, and the others from the quickest on."""
    others = sorted((point for point in chosen.front if point is not best), key=lambda point: point.request_s)
    kept = _told_apart([best, *others])[:_MOST_SHOWN]
    return sorted(kept, key=lambda point: (point.context, point.request_s))


def _told_apart(points: Sequence[Point]) -> list[Point]:
    """The first of those that a reader would take for the same: by their names, or by all that a front is made of."""
    named = list({name_of(point): point for point in reversed(points)}.values())[::-1]
    return list({_figures(point): point for point in reversed(named)}.values())[::-1]


def _figures(point: Point) -> tuple[object, ...]:
    return point.variant.quant, point.context, point.increase, f"{point.request_s:.3g}"


def _left_out(chosen: Chosen, front: list[Point]) -> tuple[Point, ...]:
    """What was found and is not shown."""
    shown = {name_of(point) for point in front}
    return tuple(point for point in (*chosen.front, *chosen.others) if name_of(point) not in shown)


def _notes(points: Points, best: Point) -> tuple[str, ...]:
    notes, goal = [], points.question.goal
    if goal.aim == "context" and goal.least_tokens_per_s:
        full = f"{slowest(best, points):.3g} tok/s once {best.context:,} tokens are nearly full"
        notes.append(f"the floor of {goal.least_tokens_per_s:g} tok/s holds there too: {full}")
    if points.unguarded:
        notes.append("nothing keeps every other work within this context as quick as it is now")
    return tuple(notes)


def _memory_of(question: Question) -> str:
    """What there is, in words."""
    rooms, host = question.hardware.rooms, question.hardware.host_room
    on_gpus = f"{sum(room.usable_bytes for room in rooms) / GIB:.1f} GiB of {'GPUs' if len(rooms) > 1 else 'the GPU'}"
    of_host = f"{host.usable_bytes / GIB:.1f} GiB of the host" if host else ""
    return " and ".join(filter(None, (on_gpus if rooms else "", of_host))) or "this memory"


def _coarser(points: Points, every: Sequence[Point], quickest: float) -> str:
    """That less quality would be quick enough, where it would."""
    goal = points.question.goal
    least = goal.least_tokens_per_s or 0.0
    quick = [p for p in every if p.context >= goal.context and slowest(p, points) >= least > quickest]
    if not quick:
        return ""
    worse = min(point.increase for point in quick)
    return f", or allow less quality: --worst-perplexity {math.ceil(worse * 1000) / 10:g}%"


def _why_not(points: Points, chosen: Chosen) -> tuple[str, str]:
    """Why there is no recommendation, and what would help."""
    goal, question = points.question.goal, points.question
    if not chosen.front and not chosen.others:
        hint = "take a smaller quant or model, or a shorter context; `unslow fit` has sizes"
        return f"nothing fits in {_memory_of(question)}", hint
    every = [p for p in (*chosen.front, *chosen.others) if p.variant.at_hand]
    if not any(p.variant.given for p in every):
        finest = min((*chosen.front, *chosen.others), key=lambda p: p.increase).variant.quant
        return f"{question.given.quant} does not fit with this context", f"{finest} does, at a cost: --quant {finest}"
    good = [p for p in every if is_good_enough(p, goal, points)]
    quickest = max((p.found.price.decode_tokens_per_s for p in good), default=0.0)
    if good and goal.least_tokens_per_s:
        what = "nothing that is at hand" if goal.aim == "quality" else "nothing of this quality"
        where = " with a full context" if goal.aim == "context" else ""
        told = f"{what} keeps {goal.least_tokens_per_s:g} tok/s{where}: the most is {quickest:.3g}"
        hint = "lower --least-speed" + _coarser(points, every, quickest)
        return f"{told} at the work that was named", hint
    hint = "raise --worst-perplexity, or take a finer file"
    if goal.worst_perplexity_increase is None:
        return f"{question.given.quant} fits with this context only in a cache that costs quality", hint
    return "nothing keeps the floor of quality", hint
