"""What an answer that is no answer means: try again, this query failed, or nothing can be asked."""

from typing import Literal, NamedTuple
from urllib.parse import urlsplit

from unslow.facts.errors import UserError
from unslow.fleet.asking.access import Access
from unslow.fleet.asking.decoding import parse_head
from unslow.fleet.asking.limits import limit_in
from unslow.fleet.asking.line import Reply
from unslow.fleet.asking.said import plain_text
from unslow.think.fleet.report import Kind

SLOWER = "give it longer with --timeout, take a shorter --window, or a part of the fleet with --match"
PREFIXES = (
    "the API may be below a path: /prometheus (Mimir), /select/0/prometheus (VictoriaMetrics in a cluster), "
    "/api/prom (Grafana Cloud)"
)
_WHO = "give --username with --password-file, or --token-file; a tenant with --header 'X-Scope-OrgID: NAME'"
_TIMED_OUT = ("timeout", "canceled")


class Refusal(NamedTuple):
    """Why one query has no answer."""

    kind: Kind
    why: str
    hint: str = ""
    again: Literal["", "nobody", "away", "busy", "cut"] = ""
    """Worth another try: nobody was ever there, the whole server is away, this query came at a bad time, or its answer
    was cut short."""


def refusal_of(reply: Reply, access: Access) -> Refusal:
    """Why there is no answer; UserError where no other query would have one either."""
    head = parse_head(reply.body)
    text = access.quoted((head.error if head else "") or _readable(reply.body))
    _check_whole(reply, text, access)
    told = f": {text}" if text else ""
    if (head and head.error_type in _TIMED_OUT) or reply.status in (408, 504):
        return Refusal("partial", f"it took too long{told}", SLOWER)
    limit = limit_in(text)
    if reply.status == 429:  # noqa: PLR2004 (too many requests)
        what, hint = (limit.what, limit.hint) if limit else ("queries at a time", "ask again when it is less busy")
        return Refusal("limit", f"it is over the server's limit of {what}{told}", hint, "busy")
    if limit:
        return Refusal("limit", f"it is over the server's limit of {limit.what}{told}", limit.hint)
    if reply.status in (502, 503):
        again: Literal["away", "busy"] = "busy" if head else "away"
        return Refusal("partial", f"the server answered {reply.status}{told}", "is it starting or overloaded?", again)
    hint = "it may not know all of PromQL, or --match holds no label matchers" if reply.status < 500 else "see its log"  # noqa: PLR2004
    return Refusal("partial", f"the server answered {reply.status}{told}", hint)


def _check_whole(reply: Reply, text: str, access: Access) -> None:
    shown, status = access.shown_url, reply.status
    told = f": {text}" if text else ""
    if 300 <= status < 400:  # noqa: PLR2004 (the 3xx class)
        raise _redirect(reply, access)
    if status in (401, 407):
        raise UserError(f"{shown} does not know who asks ({status}){told}", _WHO)
    if status == 403:  # noqa: PLR2004 (forbidden)
        raise UserError(f"{shown} does not let us ask (403){told}", _WHO)
    if status in (404, 410):
        path = urlsplit(access.url).path
        without = f"leave out {path}, or: " if path else ""
        raise UserError(f"there is no Prometheus API at {shown} ({status})", without + PREFIXES)
    if status == 405:  # noqa: PLR2004 (method not allowed, for POST and GET alike)
        raise UserError(f"{shown} takes no queries (405){told}", PREFIXES)
    if status == 400 and "HTTPS server" in text:  # noqa: PLR2004 (as Go's server says it)
        raise UserError(f"{shown} speaks TLS only", f"try https://{shown.partition('://')[2]}")


def _redirect(reply: Reply, access: Access) -> UserError:
    """Nothing is followed: credentials would go where the user did not send them."""
    try:
        to = urlsplit(reply.header("Location"))
        where = f"{to.scheme}://{to.hostname or ''}{f':{to.port}' if to.port else ''}" if to.hostname else ""
    except ValueError:
        to, where = urlsplit(""), ""
    here = urlsplit(access.url)
    path = to.path[:80] if where or reply.header("Location").startswith("/") else ""
    told = access.quoted(where + path) or "nowhere"
    if where and to.hostname == here.hostname and to.scheme == "https" and here.scheme == "http":
        hint = f"give https://{plain_text(to.netloc.rpartition('@')[2])} itself"
        return UserError(f"{access.shown_url} sends us to {told}", hint)
    hint = "nothing is sent to another address than the one given; a page to log in on? " + _WHO
    return UserError(f"{access.shown_url} sends us to {told}, which is not followed", hint)


def _readable(body: bytes) -> str:
    """The text of an answer that is not JSON, unless it is a page."""
    start = body[:400].decode("utf-8", "replace").strip()
    return "" if start.startswith("<") else start
