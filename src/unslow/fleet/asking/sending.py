"""A query is sent, and sent again where the server is only away for a moment."""

import time
from collections.abc import Callable, Mapping
from itertools import chain, repeat
from threading import Event
from urllib.parse import urlencode, urlsplit

from unslow.facts.errors import UserError
from unslow.fleet.asking.access import Access
from unslow.fleet.asking.clock import span
from unslow.fleet.asking.line import CutShortError, Line, Reply
from unslow.fleet.asking.refusals import SLOWER, Refusal, refusal_of
from unslow.look.system import LookError
from unslow.look.system.door import ExchangeError
from unslow.look.system.http import TooLargeError

PAUSES_S = (0.2, 0.5, 1.0, 2.0, 4.0)
"""The last one again and again: a server that comes back is asked soon, and one that struggles is left alone."""
NOBODY_S = 3.0
"""How long an address where nothing ever answered is tried: a wrong port is likelier than a restart."""
TIRED_S = 0.3
"""After all that waiting was in vain for the query before, for one more try."""
CUT_TRIES = 3
"""Of an answer that breaks off: it may be long, and something on the way may not like long ones."""
AWAY_HINT = "is it running, and is the address right?"
WANTS_CERTIFICATE = "Does it ask for a certificate of the client (--cert and --key)?"
_NOT_ALLOWED = (405, 501)


class RefusedError(Exception):
    """This query has no answer; others may."""

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.why)
        self.refusal = refusal


class Sending:
    """Sends forms to the API of one server; RefusedError for one query, UserError where none can be asked."""

    def __init__(self, access: Access, say: Callable[[str], None]) -> None:
        self._access, self._say, self._line = access, say, Line(access)
        parts = urlsplit(access.url)
        self._path, self._more = parts.path, parts.query
        self._method, self._answers, self._tired = "POST", 0, False
        self._end_s: float | None = None
        self._ended = Event()
        self.sent = 0

    def ask(self, endpoint: str, form: Mapping[str, str]) -> Reply:
        """The answer with status 200."""
        if self._end_s is None:
            self._end_s = time.monotonic() + self._access.whole_s
        since_s, refusal = time.monotonic(), Refusal("partial", "")
        for tries, pause_s in enumerate(chain(PAUSES_S, repeat(PAUSES_S[-1])), 1):
            reply = self._tried(endpoint, form)
            if isinstance(reply, Reply):
                self._answers, self._tired = self._answers + 1, False
                return reply
            refusal = reply
            if not refusal.again or (refusal.again == "cut" and tries >= CUT_TRIES):
                break
            if not self._waits(since_s, pause_s, refusal, first=tries == 1):
                break
        self._tired = bool(refusal.again)
        if refusal.again in ("nobody", "away"):
            raise UserError(f"{self._access.shown_url}: {refusal.why}", refusal.hint)
        raise RefusedError(refusal)

    def close(self) -> None:
        """Hang up, and ask nothing more, whatever another thread is waiting for."""
        self._ended.set()
        self._line.end()

    def _waits(self, since_s: float, pause_s: float, refusal: Refusal, *, first: bool) -> bool:
        """A pause before the next try; False where there is no time left for one."""
        most_s = TIRED_S if self._tired else NOBODY_S if refusal.again == "nobody" else self._access.restart_s
        left_s = min(since_s + min(most_s, self._access.restart_s), self._end_s or 0.0) - time.monotonic()
        if left_s <= pause_s:
            return False
        if first:
            self._say(f"{self._access.shown_url}: {refusal.why}; trying again for {span(left_s)} at most")
        return not self._ended.wait(pause_s)

    def _tried(self, endpoint: str, form: Mapping[str, str]) -> Reply | Refusal:
        now_s, end_s = time.monotonic(), self._end_s or 0.0
        if now_s >= end_s:
            why = f"the {span(self._access.whole_s)} for all queries together were over"
            return Refusal("partial", why, SLOWER)
        try:
            reply = self._exchanged(endpoint, form, min(now_s + self._access.timeout_s, end_s))
        except TooLargeError:
            why = f"its answer has more than {self._access.most_bytes / 1e6:,.0f} MB"
            return Refusal("limit", why, "--match reads a part of the fleet at a time")
        except LookError as error:
            return self._failed(error)
        return reply if reply.status == 200 else refusal_of(reply, self._access)  # noqa: PLR2004 (OK)

    def _exchanged(self, endpoint: str, form: Mapping[str, str], deadline_s: float) -> Reply:
        coded, path = urlencode(form), f"{self._path}/api/v1/{endpoint}"
        if self._method == "POST":
            reply = self._sent("POST", f"{path}?{self._more}" if self._more else path, coded.encode(), deadline_s)
            if reply.status not in _NOT_ALLOWED:
                return reply
            self._method = "GET"
        return self._sent("GET", f"{path}?{'&'.join(filter(None, (self._more, coded)))}", None, deadline_s)

    def _sent(self, method: str, path: str, form: bytes | None, deadline_s: float) -> Reply:
        self.sent += 1
        return self._line.exchange(method, path, form, deadline_s)

    def _failed(self, error: LookError) -> Refusal:
        """What went wrong on the way; without an answer so far, that is the server and not the query."""
        why = error.why.removeprefix(f"{self._access.shown_url}: ").removeprefix(f"{self._access.shown_url} ")
        if isinstance(error, CutShortError):
            return Refusal("partial", why, "a proxy on the way may cut long answers; --match asks for less", "cut")
        if isinstance(error, ExchangeError) and error.kind in ("refused", "broke_off"):
            nobody = error.kind == "refused" and not self._answers
            return Refusal("partial", why, self._away_hint(error), "nobody" if nobody else "away")
        if isinstance(error, ExchangeError) and error.kind == "silent":
            return Refusal("partial", f"it did not answer within {span(self._access.timeout_s)}", SLOWER)
        raise UserError(f"{self._access.shown_url}: {why}", error.how_to_get or "is the address right?") from error

    def _away_hint(self, error: ExchangeError) -> str:
        alone = self._access.url.startswith("https://") and not self._access.certificate
        return AWAY_HINT + (f" {WANTS_CERTIFICATE}" if alone and error.kind == "broke_off" else "")
