"""Runs: what can be measured and what that sends, starting one, following it, stopping it."""

from unslow.facts.errors import UserError
from unslow.web.book import stop
from unslow.web.desk import Desk
from unslow.web.endpoint import Endpoint, Question
from unslow.web.events import Offer, RunShown
from unslow.web.parameters import Parameter


def offers(desk: Desk, _question: Question) -> list[Offer]:
    """What could be started, and what it would send."""
    from unslow.web.offers import offers_of  # noqa: PLC0415 (imported when asked)

    return offers_of(desk.seen(), desk.wanted)


def start(desk: Desk, question: Question) -> RunShown:
    """Start one; UserError where it may not be."""
    from unslow.web.offers import check_offered  # noqa: PLC0415
    from unslow.web.performing import perform  # noqa: PLC0415

    wanted = question.body
    seen = desk.seen()
    check_offered(seen, desk.wanted, wanted)
    return desk.book.start(wanted, lambda entry: perform(desk, entry)).shown()


def listed(desk: Desk, _question: Question) -> list[RunShown]:
    """Those that are kept."""
    return [entry.shown() for entry in desk.book.entries()]


def shown(desk: Desk, question: Question) -> RunShown:
    """One of them."""
    return desk.book.entry(question.path["run"]).shown()


def stopped(desk: Desk, question: Question) -> RunShown:
    """End it early; what was measured until then is kept."""
    entry = desk.book.entry(question.path["run"])
    stop(entry)
    return entry.shown()


def followed(_desk: Desk, _question: Question) -> None:
    """Streams are not answered in a thread: `stream.events` does."""
    raise UserError("this is a stream", "read it line by line")


_RUN = "unslow.web.events:RunShown"
ENDPOINTS = (
    Endpoint("/offers", "What could be measured, and what that sends to whom", "unslow.web.events:Offer[]", offers),
    Endpoint("/runs", "The last runs", f"{_RUN}[]", listed),
    Endpoint(
        "/runs",
        "Start a measurement, as /offers tells it",
        _RUN,
        start,
        method="POST",
        body="unslow.web.events:RunWanted",
        status=201,
    ),
    Endpoint("/runs/{run}", "How far a run is", _RUN, shown),
    Endpoint("/runs/{run}", "Stop a run; what was measured is kept", _RUN, stopped, method="DELETE"),
    Endpoint(
        "/runs/{run}/events",
        "The run as it goes, a JSON object a line",
        "unslow.web.events:RunLine",
        followed,
        (Parameter("since", "only lines after this number", "number"),),
        media="application/x-ndjson",
    ),
)
