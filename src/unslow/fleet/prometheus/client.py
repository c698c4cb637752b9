"""One Prometheus, asked everything at one moment of its own clock; queries are sent again, refusals explained."""

import re
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from email.utils import parsedate_to_datetime
from itertools import chain, repeat
from threading import Event, RLock
from typing import Literal, NamedTuple
from urllib.parse import urlencode, urlsplit

from unslow.facts.errors import UserError
from unslow.fleet.prometheus import answers
from unslow.fleet.prometheus.answers import AnsweredCurves, BadAnswerError, DecodedAnswer, QueryAnswer
from unslow.fleet.prometheus.connection import Access, CutShortError, Line, Reply, StatementLog, plain_text
from unslow.fleet.report import Kind, Statement
from unslow.look.system import ExchangeError, LookError
from unslow.look.system.http import TooLargeError, is_loopback

_SERVER_SHARE = 0.9
"""Of our patience for one query: the server then gives up first, and its words tell more than silence."""
_PARTS = "try again when all of its stores respond"
PAUSES_S = (0.2, 0.5, 1.0, 2.0, 4.0)
"""The last one again and again: a server that comes back is asked soon, and one that struggles is left alone."""
NOBODY_S = 3.0  # How long an address where nothing ever answered is tried: a wrong port is likelier than a restart
TIRED_S = 0.3  # After all that waiting was in vain for the query before, for one more try
CUT_TRIES = 3  # Of an answer that breaks off: it may be long, and something on the way may not like long ones
AWAY_HINT = "is it running, and is the address correct?"
WANTS_CERTIFICATE = "Does it need a client certificate (--cert and --key)?"
MOST_SKEW_S = 5.0
"""Less than a scrape, and more than two synchronized clocks differ: no window of minutes is another for it."""
SLOWER = "raise --timeout, shorten --window, or select a part of the fleet with --match"
PREFIXES = (
    "the API may be below a path: /prometheus (Mimir), /select/0/prometheus (VictoriaMetrics in a cluster), "
    "/api/prom (Grafana Cloud)"
)
_WHO = "give --username and --password-file, or --token-file; for a tenant, --header 'X-Scope-OrgID: NAME'"
_NARROWER = "--match selects a part of the fleet"
_SHORTER = "shorten --window, or select a part of the fleet with --match"
Parse = Callable[[bytes, int], DecodedAnswer]


class Limit(NamedTuple):
    """What is limited, what to do about it here, and the setting there."""

    what: str
    hint: str
    words: re.Pattern[str]


# The limits that servers set to queries, by the words in which they refuse.
# Wordings of Prometheus (promql/engine.go, web/api/v1), Mimir (its global errors, `err-mimir-…`), Thanos and Cortex
# store gateways, and VictoriaMetrics (lib/storage, app/vmselect).
LIMITS = (
    Limit("samples in one query", f"{_SHORTER}; Prometheus sets it with --query.max-samples",
          re.compile(r"too many samples|maxSamplesPer|sample limit", re.IGNORECASE)),
    Limit("series in one query",
          f"{_NARROWER}; Mimir sets it with -querier.max-fetched-series-per-query, VictoriaMetrics with "
          "-search.maxUniqueTimeseries",
          re.compile(r"max-series-per-query|series limit|number of (?:matching )?(?:unique )?(?:time ?)?series|"
                     r"maxUniqueTimeseries|maxSeries|too many (?:time ?)?series", re.IGNORECASE)),
    Limit("the time range of one query", "shorten --window, or drop the comparison with --compare none",
          re.compile(r"query-length|time range exceeds|max-query-lookback|max_query_length", re.IGNORECASE)),
    Limit("points per series", "shorten --window",
          re.compile(r"maximum resolution|too many points|maxPointsPer", re.IGNORECASE)),
    Limit("data read for one query", _SHORTER,
          re.compile(r"max-chunks|chunks? (?:bytes )?limit|number of chunks|bytes limit|estimated-memory|"
                     r"maxMemoryPerQuery|ResourceExhausted|not enough memory", re.IGNORECASE)),
    Limit("concurrent queries", "try again when it is less busy",
          re.compile(r"outstanding requests|too many (?:concurrent )?(?:requests|queries)|concurrent|rate limit|"
                     r"maxConcurrentRequests|too_many_requests|query queue", re.IGNORECASE)),
)  # fmt: skip


class Refusal(NamedTuple):
    """Why one query has no answer."""

    kind: Kind
    why: str
    hint: str = ""
    again: Literal["", "nobody", "away", "busy", "cut"] = ""
    """Worth another try: nobody was ever there, the whole server is away, this query came at a bad time, or its answer
    was cut short."""


class Prometheus(AbstractContextManager["Prometheus"]):
    """Asks one query after the other over one connection; it may be used by several threads.

    A query that fails has its `failure` set and is told of in `statements`, so that nobody takes absence for a fact. A
    server that is away, refuses us or is no Prometheus is a UserError, whichever query finds out.
    """

    def __init__(
        self, access: Access, say: Callable[[str], None] = lambda _: None, step: Callable[[int], None] = lambda _: None
    ) -> None:
        """`step` is told after each instant query how many were sent."""
        self._access, self._step = access.plain(), step
        self.shown_url = self._access.shown_url
        self._sending, self._said, self._lock = QuerySender(self._access, say), StatementLog(), RLock()
        self._now_s: float | None = None
        self._info = ""
        # What the user asked for and a reader of the report should know
        parts = urlsplit(self._access.url)
        tls = parts.scheme == "https"
        if tls and not self._access.check_certificate:
            self._said.say("note", f"the certificate of {self.shown_url} was not verified (--insecure)")
        if not tls and self._access.secrets and not is_loopback(parts.hostname or ""):
            self._said.say("note", "the password or token was sent unencrypted", "use https://")

    @property
    def queries_sent(self) -> int:
        """How many queries were sent, those that were sent again among them."""
        return self._sending.sent

    @property
    def now_s(self) -> float:
        """The moment of every instant query: the server's clock when it was first asked."""
        with self._lock:
            if self._now_s is None:
                self._now_s = self._first_moment()
            return self._now_s

    def instant(self, query: str, at: float | None = None, about: str = "") -> QueryAnswer:
        """The series at one moment, `now_s` unless told; `about` names the query in statements."""
        form = {"query": query, "time": f"{self.now_s if at is None else at:.3f}"}
        got = self._decode_answer("query", form, answers.parse_series, about or query)
        self._step(self.queries_sent)
        return QueryAnswer([], got.why, got.hint) if isinstance(got, Refusal) else QueryAnswer(got.series)

    def curves(self, query: str, start_s: float, end_s: float, step_s: float, about: str = "") -> AnsweredCurves:
        _ = self.now_s
        form = {"query": query, "start": f"{start_s:.3f}", "end": f"{end_s:.3f}", "step": f"{step_s:.3f}"}
        got = self._decode_answer("query_range", form, answers.parse_curves, about or query)
        return AnsweredCurves([], got.why) if isinstance(got, Refusal) else AnsweredCurves(got.curves)

    def statements(self) -> tuple[Statement, ...]:
        """What a reader must know of the answers so far: every failure and every doubt once."""
        return self._said.statements()

    def close(self) -> None:
        self._sending.close()

    def __exit__(self, *_: object) -> None:
        """Hang up."""
        self.close()

    def _decode_answer(self, endpoint: str, form: dict[str, str], parse: Parse, about: str) -> DecodedAnswer | Refusal:
        about = plain_text(about)[:60]
        with self._lock:
            reply = self._send(endpoint, form)
        try:
            got = reply if isinstance(reply, Refusal) else parse(reply.body, self._access.most_series)
        except BadAnswerError as error:
            hint = _NARROWER if error.limit else "is there a proxy in between?"
            got = Refusal("limit" if error.limit else "partial", self._access.mask_secrets(str(error)), hint)
        if isinstance(got, Refusal):
            self._said.say(got.kind, f"query failed: {got.why}", got.hint, about)
            return got
        told = [self._access.mask_secrets(warning) for warning in (got.head.warnings or ())[:20]]
        for warning in told or ["some storage nodes did not respond"] * got.head.is_partial:
            self._said.say("partial", f"partial response: {warning}", _PARTS, about)
        if got.head.infos:
            self._info = self._info or self._access.mask_secrets(got.head.infos[0])
            self._said.say("note", f"Prometheus notes on queries, such as: {self._info}", "", about)
        if got.duplicates:
            text = "duplicate series with the same labels: the first one is used"
            self._said.say("duplicates", text, "are two replicas queried as one?", about)
        return got

    def _send(self, endpoint: str, form: dict[str, str]) -> Reply | Refusal:
        patience_s = max(1, int(self._access.timeout_s * _SERVER_SHARE))
        # Thanos then answers with what it has and a warning, where it would refuse for one store that is away.
        return self._sending.ask(endpoint, {**form, "timeout": f"{patience_s}s", "partial_response": "true"})

    def _first_moment(self) -> float:
        """The server's clock, by the cheapest of all queries; UserError where not even that is answered."""
        before_s = time.time()
        reply = self._send("query", {"query": "time()"})
        if isinstance(reply, Refusal):
            raise UserError(f"{self.shown_url}: {reply.why}", reply.hint)
        try:
            got = answers.parse_series(reply.body, self._access.most_series)
        except BadAnswerError as error:
            why = self._access.mask_secrets(str(error))
            hint = f"is there a login page in front? {PREFIXES}"
            raise UserError(f"{self.shown_url} is not a Prometheus API: {why}", hint) from error
        took_s = time.time() - before_s
        # Not the value, which VictoriaMetrics computes for half a minute ago (-search.latencyOffset).
        server_s = got.at_s if got.at_s is not None else parse_date_s(reply.header("Date"))
        if server_s is None:
            self._said.say("skew", "the server reports no time; the window follows this machine's clock")
            return before_s
        if text := skew_text(server_s, before_s + took_s / 2, took_s):
            self._said.say("skew", text, "synchronize the clocks of both machines")
        return server_s


class QuerySender:
    """Sends forms to the API of one server; UserError where none can be asked."""

    def __init__(self, access: Access, say: Callable[[str], None]) -> None:
        self._access, self._say, self._line = access, say, Line(access)
        parts = urlsplit(access.url)
        self._path, self._more = parts.path, parts.query
        self._method, self._answers, self._tired = "POST", 0, False
        self._end_s: float | None = None
        self._ended = Event()
        self.sent = 0

    def ask(self, endpoint: str, form: Mapping[str, str]) -> Reply | Refusal:
        """The answer with status 200, or why this query has none; others may."""
        if self._end_s is None:
            self._end_s = time.monotonic() + self._access.whole_s
        since_s, refusal = time.monotonic(), Refusal("partial", "")
        for tries, pause_s in enumerate(chain(PAUSES_S, repeat(PAUSES_S[-1])), 1):
            reply = self._try_once(endpoint, form)
            if isinstance(reply, Reply):
                self._answers, self._tired = self._answers + 1, False
                return reply
            refusal = reply
            if not refusal.again or (refusal.again == "cut" and tries >= CUT_TRIES):
                break
            if not self._wait_before_retry(since_s, pause_s, refusal, first=tries == 1):
                break
        self._tired = bool(refusal.again)
        if refusal.again in ("nobody", "away"):
            raise UserError(f"{self._access.shown_url}: {refusal.why}", refusal.hint)
        return refusal

    def close(self) -> None:
        """Hang up, and ask nothing more, whatever another thread is waiting for."""
        self._ended.set()
        self._line.end()

    def _wait_before_retry(self, since_s: float, pause_s: float, refusal: Refusal, *, first: bool) -> bool:
        """A pause before the next try; False where there is no time left for one."""
        most_s = TIRED_S if self._tired else NOBODY_S if refusal.again == "nobody" else self._access.restart_s
        left_s = min(since_s + min(most_s, self._access.restart_s), self._end_s or 0.0) - time.monotonic()
        if left_s <= pause_s:
            return False
        if first:
            self._say(f"{self._access.shown_url}: {refusal.why}; retrying for up to {span(left_s)}")
        return not self._ended.wait(pause_s)

    def _try_once(self, endpoint: str, form: Mapping[str, str]) -> Reply | Refusal:
        now_s, end_s = time.monotonic(), self._end_s or 0.0
        if now_s >= end_s:
            why = f"the time limit of {span(self._access.whole_s)} for all queries is over"
            return Refusal("partial", why, SLOWER)
        try:
            reply = self._post_or_get(endpoint, form, min(now_s + self._access.timeout_s, end_s))
        except TooLargeError:
            why = f"its response is larger than {self._access.most_bytes / 1e6:,.0f} MB"
            return Refusal("limit", why, "--match selects a part of the fleet")
        except LookError as error:
            why = error.why.removeprefix(f"{self._access.shown_url}: ").removeprefix(f"{self._access.shown_url} ")
            if isinstance(error, CutShortError):
                hint = "a proxy may truncate long responses; --match selects a part of the fleet"
                return Refusal("partial", why, hint, "cut")
            if isinstance(error, ExchangeError) and error.kind in ("refused", "broke_off"):
                nobody = error.kind == "refused" and not self._answers
                alone = self._access.url.startswith("https://") and not self._access.certificate
                away_hint = AWAY_HINT + (f" {WANTS_CERTIFICATE}" if alone and error.kind == "broke_off" else "")
                return Refusal("partial", why, away_hint, "nobody" if nobody else "away")
            if isinstance(error, ExchangeError) and error.kind == "silent":
                return Refusal("partial", f"no response within {span(self._access.timeout_s)}", SLOWER)
            hint = error.how_to_get or "is the address correct?"
            raise UserError(f"{self._access.shown_url}: {why}", hint) from error
        return reply if reply.status == 200 else refusal_of(reply, self._access)  # noqa: PLR2004 (OK)

    def _post_or_get(self, endpoint: str, form: Mapping[str, str], deadline_s: float) -> Reply:
        coded, path = urlencode(form), f"{self._path}/api/v1/{endpoint}"
        if self._method == "POST":
            self.sent += 1
            here = f"{path}?{self._more}" if self._more else path
            reply = self._line.exchange("POST", here, coded.encode(), deadline_s)
            if reply.status not in (405, 501):
                return reply
            self._method = "GET"
        self.sent += 1
        asked = "&".join(filter(None, (self._more, coded)))
        return self._line.exchange("GET", f"{path}?{asked}", None, deadline_s)


def refusal_of(reply: Reply, access: Access) -> Refusal:
    """Why there is no answer; UserError where no other query would have one either."""
    head = answers.parse_head(reply.body)
    start = reply.body[:400].decode("utf-8", "replace").strip()
    readable = "" if start.startswith("<") else start  # of an answer that is not JSON, unless it is a page
    text = access.mask_secrets((head.error if head else "") or readable)
    _raise_if_unusable(reply, text, access)
    told = f": {text}" if text else ""
    if (head and head.error_type in ("timeout", "canceled")) or reply.status in (408, 504):
        return Refusal("partial", f"timed out{told}", SLOWER)
    limit = limit_in(text)
    if reply.status == 429:  # noqa: PLR2004 (too many requests)
        what, hint = (limit.what, limit.hint) if limit else ("concurrent queries", "try again when it is less busy")
        return Refusal("limit", f"exceeds the server's limit of {what}{told}", hint, "busy")
    if limit:
        return Refusal("limit", f"exceeds the server's limit of {limit.what}{told}", limit.hint)
    if reply.status in (502, 503):
        again: Literal["away", "busy"] = "busy" if head else "away"
        return Refusal("partial", f"HTTP status {reply.status}{told}", "is it starting or overloaded?", again)
    hint = "PromQL not fully supported, or --match is not a list of matchers" if reply.status < 500 else "see its log"  # noqa: PLR2004
    return Refusal("partial", f"HTTP status {reply.status}{told}", hint)


def _raise_if_unusable(reply: Reply, text: str, access: Access) -> None:
    shown, status = access.shown_url, reply.status
    told = f": {text}" if text else ""
    if 300 <= status < 400:  # noqa: PLR2004 (the 3xx class)
        raise _redirect(reply, access)
    if status in (401, 407):
        raise UserError(f"{shown} requires authentication ({status}){told}", _WHO)
    if status == 403:  # noqa: PLR2004 (forbidden)
        raise UserError(f"{shown} denies access (403){told}", _WHO)
    if status in (404, 410):
        path = urlsplit(access.url).path
        without = f"leave out {path}, or: " if path else ""
        raise UserError(f"no Prometheus API at {shown} ({status})", without + PREFIXES)
    if status == 405:  # noqa: PLR2004 (method not allowed, for POST and GET alike)
        raise UserError(f"{shown} does not accept queries (405){told}", PREFIXES)
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
    told = access.mask_secrets(where + path) or "nowhere"
    if where and to.hostname == here.hostname and to.scheme == "https" and here.scheme == "http":
        hint = f"use https://{plain_text(to.netloc.rpartition('@')[2])}"
        return UserError(f"{access.shown_url} redirects to {told}", hint)
    hint = "redirects are not followed; is it a login page? " + _WHO
    return UserError(f"{access.shown_url} redirects to {told}, which is not followed", hint)


def limit_in(text: str) -> Limit | None:
    """The limit that a refusal speaks of."""
    return next((limit for limit in LIMITS if limit.words.search(text)), None)


def parse_date_s(header: str) -> float | None:
    """The moment of a Date header, in seconds of the epoch."""
    try:
        return parsedate_to_datetime(header).timestamp()
    except (ValueError, TypeError, OverflowError):
        return None


def skew_text(server_s: float, here_s: float, took_s: float) -> str:
    """How far the clocks are apart; nothing where that can't be told from the time that the answer took."""
    ahead_s = server_s - here_s
    if abs(ahead_s) <= MOST_SKEW_S + took_s / 2:
        return ""
    which = "ahead of" if ahead_s > 0 else "behind"
    return f"its clock is {span(abs(ahead_s))} {which} this machine's; the window follows its clock"


def span(seconds: float) -> str:
    """A time in one unit that a person would choose."""
    for unit, size in (("days", 86_400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s" if seconds >= 2 else f"{seconds:.2g} s"  # noqa: PLR2004 (a whole one says enough)
