"""What a plan is for: the work that it is judged at, and the floors that it must not fall below."""

from typing import NamedTuple

from unslow.think.plan.report import Aim, GoalShown


class Work(NamedTuple):
    """A usual request: what is kept of the conversation, what is new, and how long the answer gets."""

    prompt: int = 512
    kept: int = 0
    answer: int = 256
    users: int = 1
    """Conversations at a time."""

    @property
    def depth(self) -> float:
        """How deep in the context the answer is, on average."""
        return self.kept + self.prompt + self.answer / 2

    @property
    def tokens(self) -> int:
        """What one conversation holds at the end of the answer."""
        return self.kept + self.prompt + self.answer


class Goal(NamedTuple):
    """What there shall be most of, and floors for the rest."""

    context: int
    """Tokens that one conversation must have room for."""
    work: Work = Work()
    aim: Aim = "speed"
    least_tokens_per_s: float | None = None
    """Of one conversation while it is answered."""
    worst_perplexity_increase: float | None = None
    """None: as good as the model that was given, for which a cache of q8_0 counts too."""
    alone: bool = False
    """Whether this work is all that is ever done: otherwise no other within the context may get slower than it is."""

    def shown(self) -> GoalShown:
        """As the report has it."""
        return GoalShown(
            aim=self.aim,
            context=self.context,
            prompt_tokens=self.work.prompt,
            kept_tokens=self.work.kept,
            answer_tokens=self.work.answer,
            users=self.work.users,
            least_tokens_per_s=self.least_tokens_per_s,
            worst_perplexity_increase=self.worst_perplexity_increase,
        )
