"""One Prometheus that is asked everything at one moment of its own clock."""

import time
from collections.abc import Callable
from threading import RLock
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from unslow.facts.errors import UserError
from unslow.fleet.answered import Answered, AnsweredCurves
from unslow.fleet.asking.access import Access
from unslow.fleet.asking.clock import parse_date_s, skew_text
from unslow.fleet.asking.decoding import BadAnswerError, Decoded, Head, parse_curves, parse_series
from unslow.fleet.asking.line import Reply
from unslow.fleet.asking.refusals import PREFIXES, Refusal
from unslow.fleet.asking.said import Said, plain_text
from unslow.fleet.asking.sending import RefusedError, Sending
from unslow.look.system.http import is_loopback
from unslow.think.fleet.report import Statement

_LONGEST_NAME = 60
_MOST_WARNINGS = 20
_SERVER_SHARE = 0.9
"""Of our patience for one query: the server then gives up first, and its words tell more than silence."""
_PARTS = "ask again when all of its parts answer"
Parse = Callable[[bytes, int], Decoded]


class Prometheus:
    """Asks one query after the other over one connection; it may be used by several threads.

    A query that fails has its `failure` set and is told of in `statements`, so that nobody takes absence for a fact. A
    server that is away, refuses us or is no Prometheus is a UserError, whichever query finds out.
    """

    def __init__(self, access: Access, say: Callable[[str], None] = lambda _: None) -> None:
        self._access = access.plain()
        self.shown_url = self._access.shown_url
        self._sending, self._said, self._lock = Sending(self._access, say), Said(), RLock()
        self._now_s: float | None = None
        self._info = ""
        self._state_manners()

    @property
    def asked(self) -> int:
        """How many queries were sent, those that were sent again among them."""
        return self._sending.sent

    @property
    def now_s(self) -> float:
        """The moment of every instant query: the server's clock when it was first asked."""
        with self._lock:
            if self._now_s is None:
                self._now_s = self._first_moment()
            return self._now_s

    def instant(self, query: str, at: float | None = None, about: str = "") -> Answered:
        """The series at one moment, `now_s` unless told; `about` names the query in statements."""
        moment_s = self.now_s if at is None else at
        form = {"query": query, "time": f"{moment_s:.3f}"}
        got = self._decoded("query", form, parse_series, about or query)
        if isinstance(got, Refusal):
            return Answered([], failure=got.why, hint=got.hint)
        return Answered(got.series, self._warnings(got.head), valueless=got.valueless)

    def curves(self, query: str, start_s: float, end_s: float, step_s: float, about: str = "") -> AnsweredCurves:
        """The series over time."""
        _ = self.now_s
        form = {"query": query, "start": f"{start_s:.3f}", "end": f"{end_s:.3f}", "step": f"{step_s:.3f}"}
        got = self._decoded("query_range", form, parse_curves, about or query)
        if isinstance(got, Refusal):
            return AnsweredCurves([], failure=got.why, hint=got.hint)
        return AnsweredCurves(got.curves, self._warnings(got.head))

    def statements(self) -> tuple[Statement, ...]:
        """What a reader must know of the answers so far: every failure and every doubt once."""
        return self._said.statements()

    def close(self) -> None:
        """Hang up."""
        self._sending.close()

    def __enter__(self) -> Self:
        """For as long as it is asked."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Hang up."""
        self.close()

    def _decoded(self, endpoint: str, form: dict[str, str], parse: Parse, about: str) -> Decoded | Refusal:
        """The answer, or why there is none."""
        about = plain_text(about)[:_LONGEST_NAME]
        try:
            with self._lock:
                reply = self._send(endpoint, form)
            got = parse(reply.body, self._access.most_series)
        except RefusedError as error:
            refusal = error.refusal
        except BadAnswerError as error:
            why = self._access.quoted(str(error))
            refusal = Refusal("limit" if error.limit else "partial", why, error.hint)
        else:
            self._state(got, about)
            return got
        self._said.say(refusal.kind, f"not answered: {refusal.why}", refusal.hint, about)
        return refusal

    def _send(self, endpoint: str, form: dict[str, str]) -> Reply:
        patience_s = max(1, int(self._access.timeout_s * _SERVER_SHARE))
        # Thanos then answers with what it has and a warning, where it would refuse for one store that is away.
        return self._sending.ask(endpoint, {**form, "timeout": f"{patience_s}s", "partial_response": "true"})

    def _state(self, got: Decoded, about: str) -> None:
        for warning in self._warnings(got.head):
            self._said.say("partial", f"the answer is partial: {warning}", _PARTS, about)
        if got.head.infos:
            self._info = self._info or self._access.quoted(got.head.infos[0])
            self._said.say("note", f"it has remarks on queries, such as: {self._info}", "", about)
        if got.duplicates:
            text = "series came twice with the same labels, and the first of each is kept"
            self._said.say("duplicates", text, "are two replicas asked as one?", about)

    def _warnings(self, head: Head) -> tuple[str, ...]:
        told = tuple(self._access.quoted(warning) for warning in (head.warnings or ())[:_MOST_WARNINGS])
        return told or (("a part of the storage did not answer",) if head.is_partial else ())

    def _first_moment(self) -> float:
        """The server's clock, by the cheapest of all queries; UserError where not even that is answered."""
        before_s = time.time()
        try:
            reply = self._send("query", {"query": "time()"})
            got = parse_series(reply.body, self._access.most_series)
        except RefusedError as error:
            raise UserError(f"{self.shown_url}: {error.refusal.why}", error.refusal.hint) from error
        except BadAnswerError as error:
            why = self._access.quoted(str(error))
            hint = f"is there a login before it? {PREFIXES}"
            raise UserError(f"{self.shown_url} does not answer as a Prometheus does: {why}", hint) from error
        took_s = time.time() - before_s
        # Not the value, which VictoriaMetrics computes for half a minute ago (-search.latencyOffset).
        server_s = got.at_s if got.at_s is not None else parse_date_s(reply.header("Date"))
        if server_s is None:
            self._said.say("skew", "it does not tell the time; the window is taken by this machine's clock")
            return before_s
        if text := skew_text(server_s, before_s + took_s / 2, took_s):
            self._said.say("skew", text, "synchronize the clocks of both machines")
        return server_s

    def _state_manners(self) -> None:
        """What the user asked for and a reader of the report should know."""
        parts = urlsplit(self._access.url)
        tls = parts.scheme == "https"
        if tls and not self._access.check_certificate:
            self._said.say("note", f"the certificate of {self.shown_url} was not checked, as asked for")
        if not tls and self._access.secrets and not is_loopback(parts.hostname or ""):
            self._said.say("note", "the password or token went over the network unencrypted", "use https://")
