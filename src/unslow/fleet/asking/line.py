"""The connection to one Prometheus, with what its user gave: credentials, certificates and the limit of an answer.

Nothing is followed: what is sent goes to the address that the user gave, and nowhere else.
"""

import http.client
import ssl
from typing import NamedTuple
from urllib.parse import urlsplit

from unslow.facts.errors import UserError
from unslow.fleet.asking.access import Access
from unslow.fleet.asking.tls import context_of, tls_error
from unslow.look.system import LookError
from unslow.look.system.door import ExchangeError
from unslow.look.system.http import Connection, is_loopback, look_error


class Reply(NamedTuple):
    """An answer, whatever its status."""

    status: int
    body: bytes
    headers: http.client.HTTPMessage

    def header(self, name: str) -> str:
        """A header, or an empty text."""
        return self.headers.get(name) or ""


class CutShortError(ExchangeError):
    """The answer began and did not end, or can't be unpacked: with this query or on this way it may do so again."""


class Line:
    """The connection to one server; LookError for whatever goes wrong on the way, UserError where TLS can't be."""

    def __init__(self, access: Access) -> None:
        parts = urlsplit(access.url)
        self._shown, self._most = access.shown_url, access.most_bytes
        tls = context_of(access) if parts.scheme == "https" else None
        self._connection = Connection(access.url, named=self._shown, tls=tls)
        # Packing takes a tenth more of the server's time, which a network is worth and this machine is not.
        encoding = "identity" if is_loopback(parts.hostname or "") else "gzip"
        self._headers = {"Accept": "application/json", "Accept-Encoding": encoding, **access.sent_headers}
        self._ended = False

    def exchange(self, method: str, path: str, form: bytes | None, deadline_s: float) -> Reply:
        """One question and its answer; a connection that was closed while nobody spoke is opened again."""
        was_open = self._connection.is_open
        try:
            return self._exchange(method, path, form, deadline_s)
        except ExchangeError as error:
            if not was_open or error.kind != "broke_off":
                raise
        return self._exchange(method, path, form, deadline_s)

    def end(self) -> None:
        """Hang up for good: whoever still waits for an answer, in whichever thread, is told so now."""
        self._ended = True
        self._connection.shut()
        self._connection.close()

    def _exchange(self, method: str, path: str, form: bytes | None, deadline_s: float) -> Reply:
        if self._ended:
            raise LookError(f"{self._shown} is not asked any more")
        kind = {"Content-Type": "application/x-www-form-urlencoded"} if form is not None else {}
        began = False
        try:
            response = self._connection.send(method, path, form, self._headers | kind, deadline_s)
            began = True
            return Reply(response.status, response.body(self._most, unpack=True), response.headers)
        except LookError as error:
            if began and isinstance(error, ExchangeError) and error.kind == "broke_off":
                raise CutShortError("error", error.why) from error
            raise self._failure(error) from error

    def _failure(self, error: LookError) -> LookError | UserError:
        """What went wrong, in the words of those who named certificates and a Prometheus."""
        cause = error.__cause__
        if not isinstance(cause, Exception) or isinstance(cause, TimeoutError):
            return error
        if told := tls_error(self._shown, cause):
            return told
        if isinstance(cause, ssl.SSLEOFError | ssl.SSLZeroReturnError):
            return look_error(self._shown, ConnectionResetError())
        if isinstance(cause, http.client.HTTPException) and not isinstance(cause, ConnectionError):
            return LookError(f"{self._shown} does not speak HTTP")
        return error
