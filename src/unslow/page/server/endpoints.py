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
from unslow.think.report import PageRoute

PREFIX = "/api/v1"
Media = Literal["application/json", "text/html", "application/x-ndjson"]
_PAGE = "unslow.page.server.endpoints:CausePage"
_RUN = "unslow.page.server.runs:RunShown"
_WANTED = "unslow.page.server.runs:RunWanted"
_OFFERS = "unslow.page.html.markup:Offer[]"
_REPORT = "The diagnosis, as `unslow diagnose --json` prints it"
_WHAT_IF = "/subjects/{number:int}/what-if"
KNOBS = (
    Parameter("context", "context length in tokens, per slot unless the slots share one", "count"),
    Parameter("gpu_layers", "GPU layers", "count"),
    Parameter("kv_type", "KV cache type, such as f16 or q8_0"),
    Parameter("quant", "quantization of the weights, such as Q4_K_M"),
    Parameter("slots", "parallel slots", "count"),
)
DEVICES = parameters_of(DevicesRequest, names={"names": "device"}, commas=("names", "price"))
CHOOSE = parameters_of(ChooseRequest, commas=("price", "among"))
COST = parameters_of(CostRequest, commas=("device", "price", "rent", "api"))
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
    """The documentation of a cause or verdict."""

    id: str
    title: str
    phase: str
    needs: tuple[str, ...]  # The facts that decide it
    routes: tuple[PageRoute, ...]  # The ways by which it is found or ruled out, in the order in which they decide
    explains: tuple[str, ...]
    text: str


def import_type(name: str) -> Any:
    """What `module:name` names; `module:name[]` is a list of it."""
    module, _, attribute = name.removesuffix("[]").partition(":")
    found: Any = getattr(importlib.import_module(module), attribute)
    return types.GenericAlias(list, (found,)) if name.endswith("[]") else found


def snapshot(state: ServerState, _question: Question) -> bytes:
    """What was seen, fit to be sent to a stranger."""
    from unslow.facts.masking import mask_snapshot
    from unslow.facts.snapshot import dump_snapshot

    return dump_snapshot(mask_snapshot(state.machine().snapshot))


def what_if_html(state: ServerState, question: Question) -> str:
    """The memory and the speed with other settings as a part of the page; those that are not named stay as they are."""
    from unslow.page.html.memory import render_answer

    number = question.path["number"]
    return str(render_answer(state.what_if(number, question.flags), number))


def panel_html(state: ServerState, question: Question) -> str:
    """One panel of the page; NotThereError where there is none."""
    from unslow.page.html.document import panel
    from unslow.page.server.live_run import offers_of

    number, name = question.path["number"], question.path["name"].removesuffix(".html")
    seen = state.machine()
    try:
        return str(panel(seen.view, number, name, offers_of(seen, state.wanted)))
    except UserError as error:
        raise NotThereError(error.message, error.hint) from error


_VIEWS = (
    Endpoint("/view", "Every number on the page", "unslow.page.view:View", lambda state, _: state.machine().view),
    Endpoint("/report", _REPORT, "unslow.think.report:Report", lambda state, _: state.machine().view.report),
    Endpoint("/snapshot", "The snapshot, masked", "unslow.facts.snapshot:Snapshot", snapshot),
    Endpoint(
        _WHAT_IF,
        "Memory and speed with other settings",
        "unslow.page.view:WhatIf",
        lambda state, asked: state.what_if(asked.path["number"], asked.flags),
        KNOBS,
    ),
    Endpoint(f"{_WHAT_IF}.html", "The same as HTML", "", what_if_html, KNOBS, media="text/html"),
    Endpoint("/subjects/{number:int}/panels/{name}", "A panel as HTML", "", panel_html, media="text/html"),
)


def command_handler(request: type[Request], answer: Callable[..., Any]) -> Callable[[ServerState, Question], Any]:
    """As the command of that request answers."""
    takes_progress = "progress" in inspect.signature(answer).parameters

    def handle(_state: ServerState, question: Question) -> Any:
        asked = request.from_flags(question.flags)
        return answer(asked, Silent()) if takes_progress else answer(asked)

    return handle


def plan(_state: ServerState, question: Question) -> Any:
    """As `unslow plan` answers, of this machine alone; nothing is changed."""
    from unslow.commands.plan.planner import make_plan
    from unslow.look.system.live import LiveSystem

    return make_plan(LiveSystem(), PlanRequest.from_flags(question.flags))


def models(_state: ServerState, _question: Question) -> Any:
    """As `unslow models` answers."""
    from unslow.commands.models.stored import list_models
    from unslow.look.system.live import LiveSystem

    return list_models(LiveSystem(), (), Silent())


def causes(_state: ServerState, _question: Question) -> list[CausePage]:
    """Every cause that is known."""
    from unslow.commands.explain import causes as pages

    return [CausePage(**msgspec.structs.asdict(page)) for page in pages()]


def explain(_state: ServerState, question: Question) -> CausePage:
    """One of them."""
    from unslow.commands.explain import explain as page

    return CausePage(**msgspec.structs.asdict(page(question.path["cause"])))


_MANY = (
    Endpoint(
        "/fit", "Whether a model fits, to the byte", "unslow.think.fit.report:FitReport",
        command_handler(fit.FitRequest, fit.answer), parameters_of(fit.FitRequest),
    ),
    Endpoint(
        "/predict", "The expected speed of a model", "unslow.think.speed.report:PredictionReport",
        command_handler(predict.PredictRequest, predict.answer), parameters_of(predict.PredictRequest),
    ),
    Endpoint(
        "/plan", "The best settings; nothing is changed", "unslow.think.plan.report:PlanReport", plan,
        parameters_of(PlanRequest),
    ),
    Endpoint("/models", "The models on this machine", "unslow.facts.stored_model:Inventory", models),
    Endpoint("/causes", "Every known cause", f"{_PAGE}[]", causes),
    Endpoint("/explain/{cause}", "What a cause is, how to confirm it and how to fix it", _PAGE, explain),
)  # fmt: skip


def offers(state: ServerState, _question: Question) -> list[Offer]:
    """What could be started, and what it would send."""
    from unslow.page.server.live_run import offers_of

    return offers_of(state.machine(), state.wanted)


def start(state: ServerState, question: Question) -> RunShown:
    """Start one; UserError where it may not be."""
    from unslow.page.server.live_run import check_offered

    check_offered(state.machine(), state.wanted, question.body)
    return state.start(question.body).status()


def stop_run(state: ServerState, question: Question) -> RunShown:
    """End it early; what was measured until then is kept."""
    entry = state.runs.entry(question.path["run"])
    entry.stop()
    return entry.status()


def refuse_stream(_state: ServerState, _question: Question) -> None:
    """Streams are not answered in a thread: the application does."""
    raise UserError("this is a stream", "read it line by line")


_RUNS = (
    Endpoint("/offers", "What can be measured, and what that sends to which server", _OFFERS, offers),
    Endpoint(
        "/runs", "The last runs", f"{_RUN}[]", lambda state, _: [entry.status() for entry in state.runs.entries()]
    ),
    Endpoint("/runs", "Start a measurement listed by /offers", _RUN, start, method="POST", body=_WANTED, status=201),
    Endpoint(
        "/runs/{run}", "The progress of a run", _RUN, lambda state, asked: state.runs.entry(asked.path["run"]).status()
    ),
    Endpoint("/runs/{run}", "Stop a run; what was measured is kept", _RUN, stop_run, method="DELETE"),
    Endpoint(
        "/runs/{run}/events",
        "The events of a run, one JSON object per line",
        "unslow.page.server.runs:RunLine",
        refuse_stream,
        (Parameter("since", "only lines after this number", "number"),),
        media="application/x-ndjson",
    ),
)


def _html(name: str, answer: Callable[[ServerState, Question], Any]) -> Callable[[ServerState, Question], str]:
    def draw_answer(state: ServerState, question: Question) -> str:
        from unslow.page.server import buyer_answers
        from unslow.show.console import clean_report

        return str(getattr(buyer_answers, name)(clean_report(answer(state, question))))

    return draw_answer


_ASKED = (
    ("devices", "Devices side by side", "unslow.buy.report:DevicesReport", DevicesRequest, devices, DEVICES),
    ("choose", "Which hardware to buy for a model", "unslow.buy.offers:ChoiceReport", ChooseRequest, choose, CHOOSE),
    ("cost", "Own, rent or use an API", "unslow.buy.cost:CostReport", CostRequest, cost, COST),
    ("tiers", "What fits in which memory size", "unslow.buy.tiers:TiersReport", TiersRequest, tiers, TIERS),
)
_BUYERS = tuple(
    endpoint
    for name, words, kind, request, command, parameters in _ASKED
    for answer in [command_handler(request, command.answer)]
    for endpoint in (
        Endpoint(f"/{name}", words, kind, answer, parameters, slow=True),
        Endpoint(
            f"/{name}.html", f"{words}, as HTML", "", _html(name, answer), parameters, media="text/html", slow=True
        ),
    )
)
ENDPOINTS = (*_VIEWS, *_RUNS, *(endpoint._replace(slow=True) for endpoint in _MANY), *_BUYERS)
