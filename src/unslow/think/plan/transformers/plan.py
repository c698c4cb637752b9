"""The plan for Transformers: the front, the recommendation, and why not the others."""

from typing import NamedTuple

from unslow.facts.units import GIB
from unslow.think.plan.frontier import Worth, front, ranked, thinned
from unslow.think.plan.hf_quality import hf_cost, is_as_good
from unslow.think.plan.planned import Planned
from unslow.think.plan.quality import Cost
from unslow.think.plan.report import OptionShown
from unslow.think.plan.transformers.memory import laid_out
from unslow.think.plan.transformers.question import Question
from unslow.think.plan.transformers.search import Point, priced, search
from unslow.think.plan.transformers.shown import rejected, shown
from unslow.think.plan.transformers.speed import Pace


class TransformersPlan(NamedTuple):
    """What was found, and what runs now as an option."""

    planned: Planned
    current: OptionShown | None = None


def transformers_options(question: Question) -> TransformersPlan:
    """Every combination looked at, the front of them, and the best for the goal."""
    found = search(question)
    before = priced(question, Pace(question), question.current) if question.current else None
    current = shown(question, before, before) if before else None
    fine = [point for point in found.points if _is_fine(question, point)]
    if not fine:
        reason, hint = _why_nothing(question, found.points)
        return TransformersPlan(Planned((), None, (), found.seen, (), reason, hint), current)
    points = front(fine, _worth, _effort)
    chosen = max(_as_good(question, points) or points, key=lambda p: (ranked(question.goal, p.worth), p.worth.ease))
    options = [p for p in thinned(points, _worth, chosen) if p is chosen or p.worth.ease or not before]
    planned = Planned(
        tuple(shown(question, point, before) for point in options),
        options.index(chosen),
        tuple(rejected(question, chosen, found.points)),
        found.seen,
    )
    return TransformersPlan(planned, current)


def _worth(point: Point) -> Worth:
    return point.worth


def _effort(point: Point) -> tuple[float, ...]:
    return (-point.worth.ease,)


def _is_fine(question: Question, point: Point) -> bool:
    """Whether it keeps the floors; what nobody published the cost of does not keep one of quality."""
    goal = question.goal
    if goal.least_tokens_per_s is not None and point.paced.decode.mid < goal.least_tokens_per_s:
        return False
    if goal.worst_perplexity_increase is None or point.choice.cache != "quantized":
        return True
    increase = _cost(question, point).perplexity_increase
    return increase is not None and increase <= goal.worst_perplexity_increase


def _cost(question: Question, point: Point) -> Cost:
    return hf_cost(question.quant, question.types, point.choice.cache, question.parameters, question.architecture)


def _as_good(question: Question, points: list[Point]) -> list[Point]:
    """Without a floor of quality, those whose answers nobody could tell from the plain ones."""
    if question.goal.worst_perplexity_increase is not None:
        return points
    plain = hf_cost(question.quant, question.types, "dynamic", question.parameters, question.architecture)
    return [point for point in points if is_as_good(_cost(question, point), plain)]


def _why_nothing(question: Question, points: tuple[Point, ...]) -> tuple[str, str]:
    goal = question.goal
    if points and goal.least_tokens_per_s is not None:
        fastest = max(point.paced.decode.mid for point in points)
        return f"the fastest combination gives {fastest:.1f} tok/s to each conversation", "ask for less speed"
    tried = question.now._replace(cache="dynamic")
    laid = laid_out(question, tried, min(goal.context, question.trained))
    needs = max((held.total.high for held in laid.devices), default=0) / GIB
    free = max((room.usable_bytes for room in question.hardware.rooms), default=0) / GIB
    reason = f"a card needs {needs:.1f} GiB for {goal.context:,} tokens of {goal.users} at a time, and has {free:.1f}"
    return (
        reason,
        "take a shorter context, fewer at a time, a quantised checkpoint, or less weights on the card with max_memory",
    )
