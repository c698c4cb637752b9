"""What the user asked of `unslow tune`, checked."""

from typing import Any, NamedTuple

from unslow.app.bench.request import check_writable
from unslow.app.plan.request import PlanRequest
from unslow.app.read_target import is_live
from unslow.facts.errors import UserError

SECONDS = 300.0
_LEAST_S, _MOST_S = 5, 86_400
_LEAST_ANSWER = 8
"""Tokens of an answer: fewer tell no speed."""


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
    def from_flags(cls, flags: dict[str, Any]) -> "Request":
        """From the parsed command line; UserError where a value can't be."""
        if not _LEAST_S <= flags["seconds"] <= _MOST_S:
            raise UserError(f"--seconds {flags['seconds']:g} makes no sense", f"it is from {_LEAST_S} to {_MOST_S:,}")
        plan = PlanRequest.from_flags({**flags, "model": flags["target"]})
        if plan.answer < _LEAST_ANSWER:
            raise UserError(f"--answer {plan.answer} is too short to measure", f"{_LEAST_ANSWER} tokens at least")
        check_writable("--output", flags["output"])
        request = cls(flags["target"], plan, flags["server"], flags["seconds"], flags["model"], flags["yes"])
        if is_live(request.target):
            raise UserError(f"{request.target} runs already, and tune starts servers of its own", "name its model")
        if request.model and not request.is_plan:
            raise UserError("--model names the file of a plan, and this is a model itself", "leave it out")
        return request
