"""What the groups of a case view have in common: the facts, the view itself, and answers that are kept."""

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from unslow.facts.values import MissingFactError, not_found
from unslow.think.report import Evidence

if TYPE_CHECKING:
    from unslow.think.case.view import CaseView

Answer = TypeVar("Answer")
Asked = ParamSpec("Asked")
G = TypeVar("G", bound="Group")
Citations = tuple[Evidence, ...]  # The facts that show something, as they are shown themselves


class Group:
    """Questions about one side of a case. A missing fact raises MissingFactError, unless the answer may be None."""

    def __init__(self, case: "CaseView") -> None:
        self.case = case
        self.machine, self.runtime, self.model = case.machine, case.runtime, case.model
        self.run, self.account = case.run, case.account
        self.answers: dict[Any, Any] = {}


def remember(method: Callable[Concatenate[G, Asked], Answer]) -> Callable[Concatenate[G, Asked], Answer]:
    """The method, which works out each answer once; whoever gets it shares it and must not change it."""

    @wraps(method)
    def answer(self: G, /, *asked: Asked.args, **named: Asked.kwargs) -> Answer:
        key = (method, asked, *named.items())
        if key not in self.answers:
            self.answers[key] = method(self, *asked, **named)
        known: Answer = self.answers[key]
        return known

    return answer


def missing(what: str, how_to_get: str = "") -> MissingFactError:
    """The error of a value that no single fact is."""
    return MissingFactError(not_found(what, how_to_get))


def if_known(ask: Callable[[], Answer]) -> Answer | None:
    """The answer; None where it lacks a fact."""
    try:
        return ask()
    except MissingFactError:
        return None
