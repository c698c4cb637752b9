"""The search for vLLM: every combination of knobs, the point that serves the goal best, and what it is held against."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from unslow.think.physics.placement import largest_fitting
from unslow.think.plan.pareto_front import SAME, Worth, goal_rank
from unslow.think.plan.quality import Cost, hf_cost, is_as_good, weight_bits
from unslow.think.plan.report import GoalShown, RejectedShown
from unslow.think.plan.vllm import choices
from unslow.think.plan.vllm.choices import LEAST_SHARE, STEP, Choice, Pool, VllmPlanQuestion
from unslow.think.plan.vllm.speed import Pace, ServedSpeed

WORTH_A_KNOB = 1.05
"""How many times as fast each setting of a running server that is changed must make requests: steps of many at once are
predicted 5 % off in the median even where they were measured (docs/explanation/engines.md), so that less may be
nothing."""
CACHE_BITS = {"auto": 16.0, "bfloat16": 16.0, "float16": 16.0, "nvfp4": 4.5}
OFFLOADED = RejectedShown(
    what="--cpu-offload-gb", because="weights in host memory cross PCIe for every token: a tenth of the speed or less"
)


class Point(NamedTuple):
    """A choice with what it gives."""

    choice: Choice
    served: ServedSpeed
    worth: Worth
    changed: tuple[str, ...]  # The knobs that differ from what is now


class Search:
    """One question with the sums that its choices share.

    Every combination of the discrete knobs is tried, and of the share of memory only the values that can matter. Why
    that is exact: with all other knobs fixed, a larger share never gives a smaller cache. So nothing gets worse with
    it: neither the conversations at once, nor what stays cached, nor the longest context. The largest share that the
    cards have free is therefore the best in all of these, and where it does not serve the goal no smaller one does. The
    least share that still gives the same speed is found by halving; every other one is as fast as one of the two, and
    gives up either memory or context for nothing. What is set now is kept where it is as good: a share between the two,
    a longer context. Context beyond the goal costs no time: vLLM hands out pages, the limit reserves nothing.
    """

    def __init__(self, question: VllmPlanQuestion) -> None:
        self.question = question
        self.pool = Pool(question)
        self.pace = Pace(question)

    def all_points(self) -> tuple[list[Point], int]:
        """The points that can be the best at something, and of how many combinations they are."""
        found: list[Point] = []
        combinations = 0
        for choice in choices.every_choice(self.question, self.pool):
            shares = shares_of(choice.share)
            combinations += max(1, len(shares))
            if shares and self.pool.serves(choice):
                found += self._points(choice, shares)
        return found, combinations

    def _points(self, choice: Choice, shares: list[float]) -> Iterator[Point]:
        """With the least share that is as fast as the largest, and with the largest and all the context that it has."""
        least = choice._replace(share=self.least_share(choice, shares))
        if self.question.exact_context:
            yield self.point(least)
            yield self.point(choice)
            return
        set_now = least._replace(context=max(choice.context, self.question.now.context))
        yield self.point(set_now if self.pool.serves(set_now) else least)
        yield self.point(choice._replace(context=self.pool.longest(choice)))

    def least_share(self, choice: Choice, shares: list[float]) -> float:
        """The least share with which the speed is that of the largest one; what is set now where that is enough."""
        wanted = self._places(choice)

        def lacking(number: int) -> float:
            less = choice._replace(share=shares[-1 - number])
            return 0.0 if self.pool.serves(less) and self._places(less) == wanted else -1.0

        steps = largest_fitting(0, len(shares) - 1, lacking) or 0
        now = self.question.now.share
        return max(shares[-1 - steps], min(now, choice.share))

    def point(self, choice: Choice) -> Point:
        """A choice priced."""
        at_once, keeps = self._places(choice)
        served = self.pace.serve(choice, at_once, self.question.goal.users, keeps=keeps)
        # The knobs that differ; a context is only counted as changed where it is another than what is set
        changed = tuple(name for name in Choice._fields if getattr(choice, name) != getattr(self.question.now, name))
        of = self.question.checkpoints[choice.checkpoint]
        most = max(1, min(self.pool.holds(choice), choice.sequences))
        full = self.pace.serve(choice, most, most, keeps=self.question.prefix_caching)
        worth = Worth(
            speed=1 / served.request_s.mid,
            context=float(choice.context),
            weight_bits=weight_bits(of.types),
            cache_bits=CACHE_BITS.get(choice.kv, 8.0),
            aggregate=most * self.question.goal.answer_tokens / full.request_s.mid,
            left=len(self.question.hardware.rooms) - choice.cards * choice.share,
            ease=-float(len(changed)),
        )
        return Point(choice, served, worth, changed)

    def _places(self, choice: Choice) -> tuple[int, bool]:
        """How many of the users find a place at once, and whether all that they said before stays cached."""
        holds, users = self.pool.holds(choice), self.question.goal.users
        return max(1, min(holds, choice.sequences, users)), holds >= users and self.question.prefix_caching


def shares_of(most: float) -> list[float]:
    """The shares that are looked at, in steps of a hundredth; where less than the least is free, that alone."""
    if most <= 0:
        return []
    count = max(0, round((most - LEAST_SHARE) / STEP))
    return [round(most - STEP * n, 2) for n in range(count, -1, -1)]


def admitted_points(question: VllmPlanQuestion, points: Sequence[Point]) -> list[Point]:
    """Those that keep the floors of context, speed and quality."""
    goal, floor, found = question.goal, question.goal.worst_perplexity_increase, []
    least = min(goal.context, question.trained_context)
    for point in points:
        fast = goal.least_tokens_per_s is None or felt_rate(goal, point) >= goal.least_tokens_per_s
        if not fast or point.choice.context < least:
            continue
        if floor is not None and (point.choice.checkpoint or point.choice.kv != "auto"):  # not what was asked for
            increase = choice_cost(question, point.choice).perplexity_increase
            if increase is None or increase > floor:  # an unpublished cost is not within the floor
                continue
        found.append(point)
    return found


def felt_rate(goal: GoalShown, point: Point) -> float:
    """Tokens per second of one conversation, with the wait for a place spread over its answer."""
    return point.served.decode.mid * point.served.at_once / goal.users


def best_point(question: VllmPlanQuestion, points: Sequence[Point]) -> Point | None:
    """What the goal wants most, of the least effort; without a floor of quality, as good as what was asked for."""
    good = list(points)
    if question.goal.worst_perplexity_increase is None:
        asked = choice_cost(question, question.now)
        good = [p for p in points if is_as_good(choice_cost(question, p.choice), asked)]
    # Where only a smaller cache has room: with the weights that were asked for
    good = good or [p for p in points if p.choice.checkpoint == 0] or list(points)
    return max(
        good,
        key=lambda p: (goal_rank(question.goal, _sure_worth(question, p)), p.worth.ease, p.worth.left),
        default=None,
    )


def _sure_worth(question: VllmPlanQuestion, point: Point) -> Worth:
    """What a point is worth if each setting of what runs that it changes brings no more than is needed to change it."""
    changed = len(point.changed) if question.current else 0  # where nothing runs yet, every choice is as little effort
    return point.worth._replace(speed=point.worth.speed / WORTH_A_KNOB**changed)


def choice_cost(question: VllmPlanQuestion, choice: Choice) -> Cost:
    """What the weights and the cache of a choice cost in answers."""
    of = question.checkpoints[choice.checkpoint]
    return hf_cost(of.quant, of.types, choice.kv, question.parameters, question.architecture)


def rejected_options(search: Search, chosen: Point) -> list[RejectedShown]:
    """What was tried in vain around the recommendation."""
    judged = (_judge_rejected(search, chosen, what, choice) for what, choice in _tries(search, chosen.choice))
    found = [rejected for rejected in judged if rejected]
    if search.pool.holds(chosen.choice) >= search.question.goal.users:
        because = "it frees nothing: KV cache blocks are allocated as requests grow, the limit reserves none"
        found.append(RejectedShown(what="a shorter --max-model-len", because=because))
    return [*found, OFFLOADED]


def _tries(search: Search, choice: Choice) -> Iterator[tuple[str, Choice]]:
    question = search.question
    if not choice.eager:
        yield "--enforce-eager", choice._replace(eager=True)
    if choice.kv == "auto" and "fp8" in choices.cache_types(question):
        yield "--kv-cache-dtype fp8", choice._replace(kv="fp8")
    most = search.pool.most(choice)
    if most > choice.share:
        yield f"--gpu-memory-utilization {most:g}", choice._replace(share=most)
    if larger := next((size for size in choices.batches(question) if size > choice.batched), None):
        yield f"--max-num-batched-tokens {larger}", choice._replace(batched=larger)
    for cards in range(1, len(question.hardware.rooms) + 1):
        if cards != choice.cards and choices.can_split(question, choice.checkpoint, cards):
            yield f"--tensor-parallel-size {cards}", choice._replace(tensor=cards, pipeline=1)
    if choice.tensor > 1:
        yield f"--pipeline-parallel-size {choice.tensor}", choice._replace(tensor=1, pipeline=choice.tensor)
    for number, of in enumerate(question.checkpoints):
        if number != choice.checkpoint:
            yield "--quantization fp8" if of.packed_at_load else of.name, choice._replace(checkpoint=number)


def _judge_rejected(search: Search, chosen: Point, what: str, choice: Choice) -> RejectedShown | None:
    """Why not; None where another goal would take it, and it stands on the front by itself."""
    question, pool = search.question, search.pool
    if not choices.loads(question, pool, choice.checkpoint, choice.tensor, choice.pipeline):
        return RejectedShown(what=what, because="its share of the weights does not fit on a card")
    shorter = choice._replace(context=question.goal.context)
    fewer = shorter._replace(sequences=question.goal.users)
    every = ((each, pool.most(each)) for each in (choice, shorter, fewer))
    # Each with as much of the memory as it needs
    sized = (each._replace(share=share) for each, most in every if most for share in (min(each.share, most), most))
    tried = next((each for each in sized if pool.serves(each)), None)
    if tried is None:
        return RejectedShown(what=what, because=f"no room left for a request of {shorter.context:,} tokens")
    point = search.point(tried)
    ratio = point.served.request_s.mid / chosen.served.request_s.mid
    seconds = f"{point.served.request_s.mid:.2f} s per request instead of {chosen.served.request_s.mid:.2f} s"
    if tried.context < choice.context:
        seconds += f", with room for {tried.context:,} tokens"
    if ratio > 1 + SAME:
        return RejectedShown(what=what, because=f"slower: {seconds}")
    if ratio >= 1 - SAME:
        return RejectedShown(what=what, because=f"as fast as without it ({seconds})")
    if point.worth.weight_bits < chosen.worth.weight_bits:
        return RejectedShown(what=what, because=f"faster ({seconds}), but output changes: a quality floor allows it")
    return None
