"""How long a benchmark will still take, from what its requests took so far."""

from collections.abc import Sequence

from unslow.app.bench.bencher import Wanted
from unslow.app.progress import Progress
from unslow.facts.bench import Failure, Pass

_MINUTE_S = 60.0
_LONG_S = 300.0


def work_of(wanted: Wanted, like: Pass) -> float:
    """About how long a request takes, by one that was answered."""
    step = like.client_last_token_s - like.client_first_token_s
    token = step / max(1, like.generated_tokens - 1)
    prompt_token = like.client_first_token_s / max(1, like.prompt_tokens)
    return wanted.tokens * token + (wanted.prompt_tokens or like.prompt_tokens) * min(prompt_token, token)


def about(seconds: float) -> str:
    """A duration in words."""
    if seconds < _MINUTE_S:
        return f"about {max(1.0, seconds):.0f} s"
    return f"about {seconds / _MINUTE_S:.0f} min" if seconds >= 2 * _MINUTE_S else "about a minute or two"


class Remaining:
    """Says what is being done and how much is left; the share is of the time, not of the requests."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._seconds: dict[tuple[str, int], float] = {}
        self._like: Pass | None = None
        self._plan: list[Wanted] = []
        self._spent = 0.0

    def announce(self, plan: Sequence[Wanted], *, quick: bool = False) -> None:
        """What is to be asked; a long benchmark is said to be one before it starts."""
        self._plan = list(plan)
        left = self._left()
        if left > _LONG_S:
            shorter = "" if quick else ", and --quick is shorter"
            self._progress.say(f"this takes {about(left)}; Ctrl-C keeps what was measured{shorter}")

    def say(self, text: str) -> None:
        """Something whose length is not known."""
        self._progress.step(text, 0.0)

    def step(self, text: str, wanted: Wanted) -> None:
        """The next request."""
        if not self._plan:
            self._plan = [wanted]  # a round that was not planned
        left = self._left()
        self._progress.step(f"{text}, {about(left)} left", self._spent / max(self._spent + left, 1e-9))

    def done(self, wanted: Wanted, outcome: Pass | Failure) -> None:
        """What came of it."""
        took = outcome.client_total_s if isinstance(outcome, Pass) else outcome.lasted_s
        if isinstance(outcome, Pass):
            self._like = outcome
            self._seconds[wanted.case, wanted.prompt_tokens] = took
        if self._plan:
            self._plan.pop(0)
            self._spent += took

    def finish(self) -> None:
        """All is done."""
        self._progress.step("measured", 1.0)

    def _left(self) -> float:
        return sum(self._takes(wanted) for wanted in self._plan)

    def _takes(self, wanted: Wanted) -> float:
        known = self._seconds.get((wanted.case, wanted.prompt_tokens))
        if known is not None:
            return known
        return work_of(wanted, self._like) if self._like else 0.0
