"""Which point of a search serves the goal best."""

from collections.abc import Sequence

from unslow.think.plan.frontier import ranked
from unslow.think.plan.hf_quality import hf_cost, is_as_good
from unslow.think.plan.quality import Cost
from unslow.think.plan.report import GoalShown
from unslow.think.plan.vllm.question import Choice, Question
from unslow.think.plan.vllm.search import Point


def admitted(question: Question, points: Sequence[Point]) -> list[Point]:
    """Those that keep the floors of context, speed and quality."""
    goal = question.goal
    least = min(goal.context, question.trained)
    fast = (p for p in points if goal.least_tokens_per_s is None or felt_rate(goal, p) >= goal.least_tokens_per_s)
    return [p for p in fast if p.choice.context >= least and keeps_quality(question, p.choice)]


def felt_rate(goal: GoalShown, point: Point) -> float:
    """Tokens per second of one conversation, with the wait for a place spread over its answer."""
    return point.served.decode.mid * point.served.at_once / goal.users


def cost(question: Question, choice: Choice) -> Cost:
    """What the weights and the cache of a choice cost in answers."""
    of = question.checkpoints[choice.checkpoint]
    return hf_cost(of.quant, of.types, choice.kv, question.parameters, question.architecture)


def keeps_quality(question: Question, choice: Choice) -> bool:
    """Whether a published cost is within the floor; what nobody published is not, unless it is what was asked for."""
    floor = question.goal.worst_perplexity_increase
    if floor is None or (choice.checkpoint == 0 and choice.kv == "auto"):
        return True
    increase = cost(question, choice).perplexity_increase
    return increase is not None and increase <= floor


def best(question: Question, points: Sequence[Point]) -> Point | None:
    """What the goal wants most, of the least effort; without a floor of quality, as good as what was asked for."""
    return max(
        _as_good(question, points) or _same_weights(points) or points,
        key=lambda p: (ranked(question.goal, p.worth), p.worth.ease, p.worth.left),
        default=None,
    )


def _as_good(question: Question, points: Sequence[Point]) -> list[Point]:
    """With answers that nobody could tell from those of what runs, or of the model that was named; all with a floor."""
    if question.goal.worst_perplexity_increase is not None:
        return list(points)
    asked = cost(question, question.now)
    return [p for p in points if is_as_good(cost(question, p.choice), asked)]


def _same_weights(points: Sequence[Point]) -> list[Point]:
    """Where only a smaller cache has room: with the weights that were asked for."""
    return [p for p in points if p.choice.checkpoint == 0]
