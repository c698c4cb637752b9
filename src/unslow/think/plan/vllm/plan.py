"""The plan for vLLM: the front, the recommendation, and why not the others."""

from typing import NamedTuple

from unslow.facts.units import GIB
from unslow.think.plan.frontier import Worth, front, thinned
from unslow.think.plan.planned import Planned
from unslow.think.plan.report import OptionShown, RejectedShown, SearchedShown
from unslow.think.plan.vllm.question import Question
from unslow.think.plan.vllm.recommend import admitted, best, felt_rate
from unslow.think.plan.vllm.rejected import rejected
from unslow.think.plan.vllm.search import Point, Search
from unslow.think.plan.vllm.shown import shown
from unslow.think.plan.vllm.space import refused
from unslow.think.plan.vllm.speed import fetching
from unslow.think.speed.question import USUAL_LINK


class VllmPlan(NamedTuple):
    """What was found, and what runs now as an option."""

    planned: Planned
    current: OptionShown | None = None


def vllm_options(question: Question) -> VllmPlan:
    """Every combination looked at, the front of them, and the best for the goal."""
    search = Search(question)
    found = search.all_points()
    before = _running(search)
    current = shown(question, before, before) if before else None
    fine = admitted(question, found.points)
    refusals = refused(question, search.pool)
    if not fine:
        reason, hint = _why_nothing(search, found.points)
        return VllmPlan(Planned((), None, tuple(refusals), found.seen, (), reason, hint), current)
    points = front(fine, _worth, _effort)
    chosen = best(question, points)
    options = [p for p in thinned(points, _worth, chosen) if p is chosen or p.changed or not before]
    count = _counted(found.seen, len(options))
    reasons: list[RejectedShown] = [*refusals, *(rejected(search, chosen) if chosen else [])]
    planned = Planned(
        tuple(shown(question, point, before) for point in options),
        options.index(chosen) if chosen else None,
        tuple(reasons),
        count,
        _notes(search, chosen) if chosen else (),
    )
    return VllmPlan(planned, current)


def _running(search: Search) -> Point | None:
    """What runs now: by its own count of the cache where it has one, since it started with it."""
    question = search.question
    if question.current is None:
        return None
    point = search.point(question.current)
    served, users = point.served, question.goal.users
    if question.measured_pool:
        holds = question.measured_pool // max(1, question.conversation)
        places = max(1, min(holds, question.current.sequences, users))
        served = search.pace.served(question.current, places, users, keeps=holds >= users and question.prefix_caching)
    if question.offloaded_bytes:
        served = fetching(served, question.offloaded_bytes / USUAL_LINK, question.goal)
    return point._replace(served=served, worth=point.worth._replace(speed=1 / served.request_s.mid))


def _worth(point: Point) -> Worth:
    return point.worth


def _effort(point: Point) -> tuple[float, ...]:
    return -point.worth.ease, -point.worth.left


def _counted(count: SearchedShown, laid_out: int) -> SearchedShown:
    return SearchedShown(combinations=count.combinations, priced=count.priced, laid_out=laid_out)


def _notes(search: Search, chosen: Point) -> tuple[str, ...]:
    """What the cache of the recommendation holds."""
    holds, question = search.pool.holds(chosen.choice), search.question
    found = [f"the cache holds {holds:,} conversations of {question.conversation:,} tokens at least"]
    if question.goal.context > question.trained:
        found.append(f"the model was made for {question.trained:,} tokens: no longer context is planned")
    if len(question.hardware.rooms) > chosen.choice.cards:
        found.append(f"{len(question.hardware.rooms) - chosen.choice.cards} of the cards stay free for a second copy")
    return tuple(found)


def _why_nothing(search: Search, points: tuple[Point, ...]) -> tuple[str, str]:
    """Why no combination serves the goal, and what would."""
    question, goal = search.question, search.question.goal
    if not points:
        weights = sum(part.bytes for part in question.checkpoints[0].parts) / GIB
        free = sum(room.usable_bytes for room in question.hardware.rooms) / GIB
        reason = (
            f"vLLM does not start with {goal.context:,} tokens: the weights take {weights:.1f} GiB, "
            f"the cards have {free:.1f} GiB free"
        )
        return reason, "take a smaller format (--quant AWQ), a shorter context, or more cards"
    fastest = max(felt_rate(goal, p) for p in points)
    if goal.least_tokens_per_s is not None and fastest < goal.least_tokens_per_s:
        reason = f"the fastest combination gives {fastest:.1f} tok/s to each conversation"
        return reason, "ask for less speed or fewer users at a time"
    return "no combination keeps the quality that was asked for", "allow a little more loss, or serve finer weights"
