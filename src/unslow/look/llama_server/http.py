"""llama-server's own answers: /health, /props, /v1/models, /slots, /metrics.

Each may be missing, locked, switched off, cut short or of another shape; then it is unknown, with the reason. None of
them holds the layers, the split of memory, the cache type or the threads: those are in the command line and the log.
"""

from typing import Any, NamedTuple

from unslow.facts.values import Absence, Unknown, failed, not_found, not_supported
from unslow.look.openai_api.server import LOCKED, Server
from unslow.look.system import LookError, System, unknown

OK = 200
LOADING = failed("the model is still loading", "ask again once it is loaded")
KEY_REFUSED = failed("the server refuses the key that was given", "give the right one with --api-key")
_REASONS = {
    401: failed("the server wants an API key", "give the key"),
    403: failed("the server refuses this key", "give the right key"),
    404: not_found("the server does not know this address"),
    501: not_supported("switched off in this server", "start llama-server with --metrics and without --no-slots"),
    503: LOADING,
}


class Answers(NamedTuple):
    """What the server said to each question: JSON, text for the metrics, or why not."""

    health: Any
    props: Any
    models: Any
    slots: Any
    metrics: Any


def read_answers(system: System, url: str, api_key: str = "", query: str = "") -> Answers:
    """Ask a server everything that costs it nothing; `query` goes with each question, as a router wants it."""
    server = Server(system, url, api_key)
    health = _ask(server, "/health")
    if isinstance(health, Unknown) and health not in (*_REASONS.values(), KEY_REFUSED):
        return Answers(health, health, health, health, health)  # nobody there: one wait is enough
    props = _ask(server, f"/props{query}")
    models = _ask(server, "/v1/models")
    quiet = _must_not_ask(props)
    if quiet:
        return Answers(health, props, models, quiet, quiet)
    slots = _ask(server, f"/slots{query}")
    # reading /metrics resets the gauges that other scrapers average; counters, which are used here, are not touched
    metrics = _ask(server, f"/metrics{query}", text=True)
    return Answers(health, props, models, slots, metrics)


def _must_not_ask(props: Any) -> Unknown | None:
    """Some questions would wake a sleeping server, which loads its model again; a router has no slots of its own."""
    if isinstance(props, dict) and props.get("is_sleeping") is True:
        return Unknown("the server sleeps, and asking would wake it", absence=Absence.NOT_LOOKED)
    if is_router(props):
        return not_supported("this is a router: its models run in servers of their own")
    return None


def is_router(props: Any) -> bool:
    """Whether /props is that of a router, which has no model of its own."""
    return isinstance(props, dict) and props.get("role") == "router"


def _ask(server: Server, path: str, *, text: bool = False) -> Any:
    try:
        answer = server.ask(path)
        if answer.status in LOCKED and server.api_key:
            return KEY_REFUSED
        if answer.status != OK:
            return _REASONS.get(answer.status, failed(f"{path} answered {answer.status}"))
        return answer.body.decode("utf-8", "replace") if text else answer.json()
    except LookError as error:
        return unknown(error)
