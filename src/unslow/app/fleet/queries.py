"""Every query that a fleet is read with, to be read or tried by hand."""

import json

from unslow.app.fleet.request import options_of
from unslow.commands.fleet import FleetRequest
from unslow.facts.errors import UserError
from unslow.fleet.curves import WINDOW_S
from unslow.fleet.curves_queries import curve_queries
from unslow.fleet.queries import Query, all_queries

FORMATS = ("terminal", "json", "markdown")


def queries_text(asked: FleetRequest) -> str:
    """The queries, each with what it is for."""
    form = asked.format
    if form not in FORMATS:
        raise UserError(f"there is no format {form!r} of queries", f"try one of {', '.join(FORMATS)}")
    options = options_of(asked)
    ranges = (Query(one.name, "capacity", one.promql, one.why) for one in curve_queries(options, WINDOW_S))
    queries = (*all_queries(options), *ranges)
    if form == "json":
        return json.dumps([query._asdict() for query in queries], indent=1)
    return "\n\n".join(_marked(query) if form == "markdown" else _plain(query) for query in queries)


def _plain(query: Query) -> str:
    return f"# {query.of}: {query.name}: {query.why}\n{query.promql}"


def _marked(query: Query) -> str:
    return f"### {query.of}: {query.name}\n{query.why}\n```promql\n{query.promql}\n```"
