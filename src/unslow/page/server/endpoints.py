"""The endpoints of the API: the path of each, its parameters, what answers it, and the type of its answer."""

import importlib
import inspect
import types
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

import msgspec

from unslow.commands import choose, cost, devices, fit, predict, tiers
from unslow.commands._output import Silent
from unslow.commands._request import Request
from unslow.commands.choose import ChooseRequest
from unslow.commands.cost import CostRequest
from unslow.commands.devices import DevicesRequest
from unslow.commands.plan import PlanRequest
from unslow.commands.tiers import TiersRequest
from unslow.facts.errors import UserError
from unslow.page.html.markup import Offer
from unslow.page.server.parameters import Parameter, parameters_of
from unslow.page.server.runs import NotThereError, RunShown
from unslow.page.server.state import ServerState

PREFIX = "/api/v1"
Media = Literal["application/json", "text/html", "application/x-ndjson"]
_PAGE = "unslow.page.server.endpoints:CausePage"
_RUN = "unslow.page.server.runs:RunShown"
KNOBS = (
    Parameter("context", "tokens of context of all slots", "count"),
    Parameter("gpu_layers", "layers on the GPUs", "count"),
    Parameter("kv_type", "of the cache: f16, q8_0"),
    Parameter("quant", "of the weights: Q4_K_M"),
    Parameter("slots", "conversations at a time", "count"),
)
_FILES = ("prices",)  # What names a file is for the command line
DEVICES = parameters_of(DevicesRequest, without=_FILES, names={"names": "device"}, commas=("names", "price"))
CHOOSE = parameters_of(ChooseRequest, without=_FILES, commas=("price", "among"))
COST = parameters_of(CostRequest, without=_FILES, commas=("device", "price", "rent", "api"))
TIERS = parameters_of(TiersRequest)


class Question(NamedTuple):
    """What was asked: the parts of the path, what the query means, and the body."""

    path: Mapping[str, Any]
    flags: Mapping[str, Any]
    body: Any = None


class Endpoint(NamedTuple):
    """A route and its description."""

    path: str  # Below the prefix, with starlette's marks such as `{number:int}`
    summary: str
    answer: str  # The type of the answer as `module:name`, imported only for the description; empty for HTML
    handle: Callable[[ServerState, Question], Any]  # Runs in a thread. UserError becomes an answer of status 400.
    parameters: tuple[Parameter, ...] = ()
    method: Literal["GET", "POST", "DELETE"] = "GET"
    body: str = ""
    status: int = 200
    media: Media = "application/json"
    slow: bool = False  # Whether it may take seconds; such ones never keep the others waiting


class CausePage(msgspec.Struct, frozen=True, kw_only=True):
    """A cause or verdict as documented."""

    id: str
    title: str
    phase: str
    needs: tuple[str, ...]
    """The facts that decide it."""
    explains: tuple[str, ...]
    text: str


def imported(name: str) -> Any:
    """What `module:name` names; `module:name[]` is a list of it."""
    module, _, attribute = name.removesuffix("[]").partition(":")
    found: Any = getattr(importlib.import_module(module), attribute)
    return types.GenericAlias(list, (found,)) if name.endswith("[]") else found


def snapshot(desk: ServerState, _question: Question) -> bytes:
    """What was seen, fit to be sent to a stranger."""
    from unslow.facts.masking import masked
    from unslow.facts.snapshot import dump_snapshot

    return dump_snapshot(masked(desk.seen().snapshot))


def what_if(desk: ServerState, question: Question) -> Any:
    """The memory and the speed with other settings; those that are not named stay as they are."""
    return desk.what_if(question.path["number"], dict(question.flags))


def what_if_html(desk: ServerState, question: Question) -> str:
    """The same as a part of the page."""
    from unslow.page.html.memory import render_answer

    number = question.path["number"]
    return str(render_answer(desk.what_if(number, dict(question.flags)), number))


def panel_html(desk: ServerState, question: Question) -> str:
    """One panel of the page; NotThereError where there is none."""
    from unslow.page.html.document import panel
    from unslow.page.server.live_run import offers_of

    number, name = question.path["number"], question.path["name"].removesuffix(".html")
    seen = desk.seen()
    try:
        return str(panel(seen.view, number, name, offers_of(seen, desk.wanted)))
    except UserError as error:
        raise NotThereError(error.message, error.hint) from error


VIEW_ENDPOINTS = (
    Endpoint("/view", "Every number of the page", "unslow.page.view:View", lambda desk, _: desk.seen().view),
    Endpoint(
        "/report",
        "The diagnosis, as `unslow diagnose --json` gives it",
        "unslow.think.report:Report",
        lambda desk, _: desk.seen().view.report,
    ),
    Endpoint("/snapshot", "What was seen, masked", "unslow.facts.snapshot:Snapshot", snapshot),
    Endpoint(
        "/subjects/{number:int}/what-if",
        "Memory and speed with other settings",
        "unslow.page.view:WhatIf",
        what_if,
        KNOBS,
    ),
    Endpoint("/subjects/{number:int}/what-if.html", "The same as HTML", "", what_if_html, KNOBS, media="text/html"),
    Endpoint("/subjects/{number:int}/panels/{name}", "A panel as HTML", "", panel_html, media="text/html"),
)


def answered(request: type[Request], answer: Callable[..., Any]) -> Callable[[ServerState, Question], Any]:
    """As the command of that request answers."""
    takes_progress = "progress" in inspect.signature(answer).parameters

    def handle(_desk: ServerState, question: Question) -> Any:
        asked = request.from_flags(question.flags)
        return answer(asked, Silent()) if takes_progress else answer(asked)

    return handle


def plan(_desk: ServerState, question: Question) -> Any:
    """As `unslow plan` answers, of this machine alone; nothing is changed."""
    from unslow.commands.plan.planner import planned
    from unslow.look.system.live import LiveSystem

    return planned(LiveSystem(), PlanRequest.from_flags(question.flags))


def models(_desk: ServerState, _question: Question) -> Any:
    """As `unslow models` answers."""
    from unslow.commands.models.stored import list_models
    from unslow.look.system.live import LiveSystem

    return list_models(LiveSystem(), (), Silent())


def causes(_desk: ServerState, _question: Question) -> list[CausePage]:
    """Every cause that is known."""
    from unslow.commands.explain import causes as pages

    return [CausePage(**msgspec.structs.asdict(page)) for page in pages()]


def explain(_desk: ServerState, question: Question) -> CausePage:
    """One of them."""
    from unslow.commands.explain import explain as page

    return CausePage(**msgspec.structs.asdict(page(question.path["cause"])))


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
QUESTION_ENDPOINTS = tuple(endpoint._replace(slow=True) for endpoint in _MANY)


def offers(desk: ServerState, _question: Question) -> list[Offer]:
    """What could be started, and what it would send."""
    from unslow.page.server.live_run import offers_of

    return offers_of(desk.seen(), desk.wanted)


def start(desk: ServerState, question: Question) -> RunShown:
    """Start one; UserError where it may not be."""
    from unslow.page.server.live_run import check_offered

    check_offered(desk.seen(), desk.wanted, question.body)
    return desk.start(question.body).shown()


def stopped(desk: ServerState, question: Question) -> RunShown:
    """End it early; what was measured until then is kept."""
    entry = desk.book.entry(question.path["run"])
    entry.stop()
    return entry.shown()


def followed(_desk: ServerState, _question: Question) -> None:
    """Streams are not answered in a thread: `stream.events` does."""
    raise UserError("this is a stream", "read it line by line")


RUN_ENDPOINTS = (
    Endpoint(
        "/offers", "What could be measured, and what that sends to whom", "unslow.page.html.markup:Offer[]", offers
    ),
    Endpoint("/runs", "The last runs", f"{_RUN}[]", lambda desk, _: [entry.shown() for entry in desk.book.entries()]),
    Endpoint(
        "/runs",
        "Start a measurement, as /offers tells it",
        _RUN,
        start,
        method="POST",
        body="unslow.page.server.runs:RunWanted",
        status=201,
    ),
    Endpoint("/runs/{run}", "How far a run is", _RUN, lambda desk, asked: desk.book.entry(asked.path["run"]).shown()),
    Endpoint("/runs/{run}", "Stop a run; what was measured is kept", _RUN, stopped, method="DELETE"),
    Endpoint(
        "/runs/{run}/events",
        "The run as it goes, a JSON object a line",
        "unslow.page.server.runs:RunLine",
        followed,
        (Parameter("since", "only lines after this number", "number"),),
        media="application/x-ndjson",
    ),
)


def _html(name: str, answer: Callable[[ServerState, Question], Any]) -> Callable[[ServerState, Question], str]:
    def drawn(desk: ServerState, question: Question) -> str:
        from unslow.page.server import buyer_answers
        from unslow.show.clean import cleaned

        return str(getattr(buyer_answers, name)(cleaned(answer(desk, question))))

    return drawn


_ASKED = (
    ("devices", "Devices side by side", "unslow.buy.report:DevicesReport", DevicesRequest, devices, DEVICES),
    ("choose", "What to buy for a model", "unslow.buy.offers:ChoiceReport", ChooseRequest, choose, CHOOSE),
    ("cost", "Own, rent or an API", "unslow.buy.cost:CostReport", CostRequest, cost, COST),
    ("tiers", "What fits which memory", "unslow.buy.tiers:TiersReport", TiersRequest, tiers, TIERS),
)
BUYER_ENDPOINTS = tuple(
    endpoint
    for name, words, kind, request, command, parameters in _ASKED
    for answer in [answered(request, command.answer)]
    for endpoint in (
        Endpoint(f"/{name}", words, kind, answer, parameters, slow=True),
        Endpoint(
            f"/{name}.html", f"{words}, as HTML", "", _html(name, answer), parameters, media="text/html", slow=True
        ),
    )
)
