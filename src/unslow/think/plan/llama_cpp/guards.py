"""What the user may also do within a context: none of it may get slower than it is by default."""

from math import inf
from typing import NamedTuple

from unslow.think.plan.goal import Work
from unslow.think.plan.llama_cpp.found import Found
from unslow.think.plan.llama_cpp.price import Price, Pricing
from unslow.think.plan.llama_cpp.question import Question
from unslow.think.plan.llama_cpp.variants import Variant

LONG_PROMPT = 4096
SHORT_PROMPT = 64
GUARDED = 1.02
"""Other work may take so many times what it takes now: predictions of the same machine are no finer than that."""


class Guard(NamedTuple):
    """Work within the context that must not get slower than it is now, or than the user wants it."""

    pricing: Pricing
    most_s: float = inf
    most_step_s: float = inf
    """Of one token of the answer."""

    def allows(self, price: Price) -> bool:
        """Whether it is quick enough."""
        return price.request_s <= self.most_s and price.step_s <= self.most_step_s


def guards_of(question: Question, variant: Variant, context: int, now: Found) -> tuple[Guard, ...]:
    """A long prompt, and a long conversation: both no slower than with what is now."""
    guards = []
    for work in other_work(question.goal.work, context):
        default = Pricing(question.given.pieces, question.hardware._replace(pinned=False), work)
        price = default.price(now.settings, now.placing, now.split, now.threads)
        guards.append(Guard(Pricing(variant.pieces, question.hardware, work), GUARDED * price.request_s))
    return tuple(guards)


def floor_of(question: Question, variant: Variant, context: int) -> tuple[Guard, ...]:
    """The speed that the user wants at least: at the usual work, or in a full context where that is the aim."""
    goal = question.goal
    if not goal.least_tokens_per_s:
        return ()
    work = other_work(goal.work, context)[1] if goal.aim == "context" else goal.work
    return (Guard(Pricing(variant.pieces, question.hardware, work), most_step_s=1 / goal.least_tokens_per_s),)


def other_work(work: Work, context: int) -> tuple[Work, Work]:
    """A long prompt in an empty context, and a short one in a full one."""
    answer = min(work.answer, context // 4)
    long = min(LONG_PROMPT, context - answer)
    deep = max(0, context - answer - SHORT_PROMPT)
    return (
        work._replace(prompt=long, kept=0, answer=answer),
        work._replace(prompt=min(SHORT_PROMPT, long), kept=deep, answer=answer),
    )
