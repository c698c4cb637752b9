"""What any program may ask: does a model fit, how fast is it, what is the best plan, what is a cause."""

import inspect
from collections.abc import Callable
from typing import Any

import msgspec

from unslow.app.progress import Silent
from unslow.commands import fit, predict
from unslow.commands._request import Request
from unslow.commands.plan import PlanRequest
from unslow.web.desk import Desk
from unslow.web.endpoint import Endpoint, Question
from unslow.web.parameters import parameters_of


class CausePage(msgspec.Struct, frozen=True, kw_only=True):
    """A cause or verdict as documented."""

    id: str
    title: str
    phase: str
    needs: tuple[str, ...]
    """The facts that decide it."""
    explains: tuple[str, ...]
    text: str


def answered(request: type[Request], answer: Callable[..., Any]) -> Callable[[Desk, Question], Any]:
    """As the command of that request answers."""
    takes_progress = "progress" in inspect.signature(answer).parameters

    def handle(_desk: Desk, question: Question) -> Any:
        asked = request.from_flags(question.flags)
        return answer(asked, Silent()) if takes_progress else answer(asked)

    return handle


def plan(_desk: Desk, question: Question) -> Any:
    """As `unslow plan` answers, of this machine alone; nothing is changed."""
    from unslow.app.plan.answer import planned  # noqa: PLC0415 (imported when asked: the page is there sooner)
    from unslow.look.system.live import LiveSystem  # noqa: PLC0415

    return planned(LiveSystem(), PlanRequest.from_flags(question.flags))


def models(_desk: Desk, _question: Question) -> Any:
    """As `unslow models` answers."""
    from unslow.app.models import list_models  # noqa: PLC0415
    from unslow.look.system.live import LiveSystem  # noqa: PLC0415

    return list_models(LiveSystem(), (), Silent())


def causes(_desk: Desk, _question: Question) -> list[CausePage]:
    """Every cause that is known."""
    from unslow.app.explain import pages  # noqa: PLC0415

    return [CausePage(**page._asdict()) for page in pages()]


def explain(_desk: Desk, question: Question) -> CausePage:
    """One of them."""
    from unslow.app.explain import page  # noqa: PLC0415

    return CausePage(**page(question.path["cause"])._asdict())


_PAGE = "unslow.web.questions:CausePage"
_MANY = (
    Endpoint(
        "/fit", "Does a model fit, byte by byte", "unslow.think.fit.report:FitReport",
        answered(fit.FitRequest, fit.answer), parameters_of(fit.FitRequest),
    ),
    Endpoint(
        "/predict", "How fast a model should be", "unslow.think.speed.report:PredictionReport",
        answered(predict.PredictRequest, predict.answer), parameters_of(predict.PredictRequest),
    ),
    Endpoint(
        "/plan", "The best settings; nothing is changed", "unslow.think.plan.report:PlanReport", plan,
        parameters_of(PlanRequest),
    ),
    Endpoint("/models", "The models on this machine", "unslow.facts.stored_model:Inventory", models),
    Endpoint("/causes", "Every cause that is known", f"{_PAGE}[]", causes),
    Endpoint("/explain/{cause}", "What a cause is, how to confirm and to fix it", _PAGE, explain),
)  # fmt: skip
ENDPOINTS = tuple(endpoint._replace(slow=True) for endpoint in _MANY)
