"""What a plan is for: the work that it is judged at, as asked or as seen in requests, and the floors it must keep."""

from statistics import median
from typing import NamedTuple

from unslow.facts.values import Known
from unslow.think.case.view import CaseView
from unslow.think.plan.report import Aim, GoalShown

_FEWEST = 2  # one request alone may be anything


class Work(NamedTuple):
    """A usual request: what is kept of the conversation, what is new, and how long the answer gets."""

    prompt: int = 512
    kept: int = 0
    answer: int = 256
    users: int = 1  # Conversations at a time

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

    context: int  # Tokens that one conversation must have room for
    work: Work = Work()
    aim: Aim = "speed"
    least_tokens_per_s: float | None = None  # Of one conversation while it is answered
    worst_perplexity_increase: float | None = None
    """None: as good as the model that was given, for which a cache of q8_0 counts too."""
    alone: bool = False
    """Whether this work is all that is ever done: otherwise no other within the context may get slower than it is."""

    def goal_shown(self) -> GoalShown:
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


class SeenWork(NamedTuple):
    """Numbers of a usual request; None where nothing was seen."""

    prompt: int | None = None
    kept: int | None = None
    answer: int | None = None
    said: str = ""  # Where they are from, for the reader


def work_seen(case: CaseView) -> SeenWork:
    """From requests in work while the server was watched, else from its log; what this program sent does not count."""
    traffic = case.run.traffic
    answer = None  # the length of one that a client asked for, with what was thought before it
    if isinstance(case.run.answer_tokens, Known) and not isinstance(case.run.completions, Known):
        answer = max(1, int(case.run.answer_tokens.value + case.run.thinking_tokens.value_or(0)))
    prompts = traffic.value.prompts.value_or(()) if isinstance(traffic, Known) else ()
    if prompts:
        kept = int(median(min(one.tokens, one.cached_tokens) for one in prompts))
        new = max(1, int(median(max(0, one.tokens - one.cached_tokens) for one in prompts)))
        said = f"prompts as in {len(prompts)} observed requests: {new:,} new tokens after {kept:,} cached"
        return SeenWork(new, kept, answer, said)
    logged = case.run.logged_prompts.value_or(())
    if len(logged) >= _FEWEST and not isinstance(case.run.completions, Known):
        said = f"prompts as in the server's log: {int(median(logged)):,} tokens computed at the median"
        return SeenWork(max(1, int(median(logged))), None, answer, said)
    return SeenWork(answer=answer)
