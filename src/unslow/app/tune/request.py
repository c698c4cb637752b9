"""What the user asked of `unslow tune`, checked."""

from typing import NamedTuple

from unslow.app.bench.request import check_writable
from unslow.app.read_target import is_live
from unslow.commands.plan import PlanRequest
from unslow.commands.tune import TuneRequest
from unslow.facts.errors import UserError

SECONDS = 300.0
_OF_PLANS = ("context", "prompt", "kept", "answer", "draft", "worst_perplexity_increase")


class Request(NamedTuple):
    """A model or a plan, the program to start, and for how long."""

    target: str
    plan: PlanRequest
    server: str = "llama-server"
    seconds: float = SECONDS
    model: str | None = None
    """The file that a plan in a file is for, where its commands don't say."""
    yes: bool = False
    """Whether it may measure beside others on the GPU."""

    @property
    def is_plan(self) -> bool:
        """Whether the target is a plan in a file."""
        return self.target.lower().endswith(".json")

    @classmethod
    def of(cls, asked: TuneRequest) -> "Request":
        """From the parsed command line; UserError where a value can't be."""
        own = {name: getattr(asked, name) for name in _OF_PLANS if name in asked.given}
        plan = PlanRequest(**own, model=asked.target, given=frozenset(own))
        check_writable("--output", asked.output)
        request = cls(asked.target, plan, asked.server, asked.seconds, asked.model, asked.yes)
        if is_live(request.target):
            raise UserError(f"{request.target} runs already, and tune starts servers of its own", "name its model")
        if request.model and not request.is_plan:
            raise UserError("--model names the file of a plan, and this is a model itself", "leave it out")
        return request
