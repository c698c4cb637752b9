"""Who may ask: the server's port and secrets, which requests are refused, and the headers of every answer."""

import secrets
import threading
import time
from collections.abc import Mapping
from hmac import compare_digest
from html import escape
from typing import NamedTuple
from urllib.parse import parse_qs, quote

from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

PAGE = "/"
TOKEN_HEADER = "x-unslow-token"  # noqa: S105 (the name of a header)
METHODS = ("GET", "POST", "DELETE")
NO_TOKEN = 401  # The status of the last refusal: all else is as it should be
LARGEST_BODY_BYTES = 16 * 1024  # The one body that is understood has three short fields
LONGEST_HEAD = 16 * 1024  # Characters of the address and all headers; a browser sends a tenth of it
LONGEST_PATH = 400  # Characters; the longest that means something ends with the name of a cause
_OWN_SITE = ("same-origin", "none")
"""What a browser says of a request by the page itself, and of an address that a user typed or opened."""
_OPEN = "open the address that `unslow serve` printed, including its token"
_POLICY = (
    "default-src 'none'; script-src 'nonce-{0}'; style-src 'nonce-{0}'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
"""Only the script and the style of the page itself; what a model or a process calls itself can run nothing."""
HEADERS = {
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-embedder-policy": "require-corp",
    "permissions-policy": "camera=(), microphone=(), geolocation=(), usb=()",
}
"""No cookies, which all ports of a host share, and no CORS: no other page has any business here."""
_REFUSED_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>unslow: refused</title><h1>{}</h1><p>{}.</p></html>
"""


class ServerIdentity(NamedTuple):
    """The port that is listened to, and the token that only the user's terminal was told."""

    port: int
    token: str

    @property
    def hosts(self) -> tuple[str, ...]:
        """What a Host header may say. A name that is rebound to loopback is not among them."""
        return tuple(f"{name}:{self.port}" for name in ("127.0.0.1", "localhost", "[::1]"))

    @property
    def origins(self) -> tuple[str, ...]:
        return tuple(f"http://{host}" for host in self.hosts)

    @property
    def base(self) -> str:
        """The address without the token."""
        return self.origins[0]

    @property
    def url(self) -> str:
        return f"{self.base}/?token={quote(self.token)}"


class Ticket:
    """Lets a browser in once. Its command line, which every user of the machine can read, has this and no token."""

    LASTS_S = 120.0  # Longer than any browser takes to start

    def __init__(self) -> None:
        self.text = secrets.token_urlsafe(32)
        self._until_s = time.monotonic() + self.LASTS_S
        self._lock = threading.Lock()

    def take(self, text: str) -> bool:
        """Whether it is this ticket and was not used before; from now on it is."""
        with self._lock:
            good = compare_digest(text.encode(), self.text.encode()) and time.monotonic() < self._until_s
            if good:
                self._until_s = 0.0
            return good

    def url(self, own: ServerIdentity) -> str:
        """What a browser is started with; it leads to the page's own address."""
        return f"{own.base}/?ticket={quote(self.text)}"


class AskedRequest(NamedTuple):
    """What of a request decides whether it is answered; names of headers in small letters."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]

    def parameter(self, name: str) -> str:
        """A parameter of the query; empty where there is none, or more than one."""
        try:
            values = parse_qs(self.query, max_num_fields=64).get(name, [])
        except ValueError:
            return ""
        return values[0] if len(values) == 1 else ""


class Refusal(NamedTuple):
    """Why a request is not answered."""

    status: int
    message: str
    hint: str = ""


class Guard:
    """An application that answers only whom it may."""

    def __init__(self, app: ASGIApp, own: ServerIdentity, ticket: Ticket) -> None:
        self._app, self._own, self._ticket = app, own, ticket

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or refuse."""
        if scope["type"] != "http":
            return  # no web sockets: uvicorn is told so too
        nonce = secrets.token_urlsafe(16)
        scope.setdefault("state", {})["nonce"] = nonce
        headers: dict[str, str] = {}
        for name, value in scope["headers"]:
            key = name.decode("latin-1").lower()
            # a header that comes twice is read differently by different programs: as both, it equals nothing
            headers[key] = f"{headers[key]}, {value.decode('latin-1')}" if key in headers else value.decode("latin-1")
        asked = AskedRequest(scope["method"], scope["path"], scope["query_string"].decode("latin-1"), headers)
        answer, why = self._app, refusal(asked, self._own)
        if why and why.status == NO_TOKEN and asked.path == PAGE and self._ticket.take(asked.parameter("ticket")):
            answer = RedirectResponse(self._own.url.removeprefix(self._own.base), 303)
        elif why:
            answer = _refusal_response(why, asked.path)
        await answer(scope, receive, _with_headers(send, nonce))


def _refusal_response(why: Refusal, path: str) -> Response:
    headers = {"allow": ", ".join(METHODS)} if why.status == 405 else {}  # noqa: PLR2004 (method not allowed)
    if why.status == NO_TOKEN:  # it must say what is needed to get in; browsers do not ask for this
        headers["www-authenticate"] = "Unslow-Token"
    headers["connection"] = "close"  # a body that is not read is not waited for
    if path == PAGE:
        page = _REFUSED_PAGE.format(escape(why.message.capitalize()), escape(why.hint))
        return HTMLResponse(page, why.status, headers)
    return JSONResponse({"error": {"message": why.message, "hint": why.hint}}, why.status, headers)


def _with_headers(send: Send, nonce: str) -> Send:
    headers = {**HEADERS, "content-security-policy": _POLICY.format(nonce)}
    extra = [(name.encode(), value.encode()) for name, value in headers.items()]

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), *extra]}
        await send(message)

    return sending


def refusal(asked: AskedRequest, own: ServerIdentity) -> Refusal | None:
    """Why this request is refused; None where it may be answered."""
    if len(asked.path) > LONGEST_PATH:
        return Refusal(414, "the path is too long", "see /api/v1/openapi.json")
    if len(asked.path) + len(asked.query) + sum(len(k) + len(v) for k, v in asked.headers.items()) > LONGEST_HEAD:
        return Refusal(431, "the URL and headers are too long", "shorten the request")
    if asked.headers.get("host", "").lower() not in own.hosts:
        return Refusal(421, "this server does not answer to that host name", f"use {own.base}")
    return _wrong_sender(asked, own) or _wrong_form(asked)


def _wrong_sender(asked: AskedRequest, own: ServerIdentity) -> Refusal | None:
    origin, site = asked.headers.get("origin"), asked.headers.get("sec-fetch-site", "none")
    if asked.method not in METHODS:
        return Refusal(405, f"{asked.method[:20]} is not supported", f"use {', '.join(METHODS)}")
    if (origin is not None and origin not in own.origins) or site not in _OWN_SITE:
        return Refusal(403, "requests from other sites are refused", _OPEN)
    if asked.method != "GET" and origin is None:
        return Refusal(403, "starting or stopping a run needs an Origin header", f"send Origin: {own.base}")
    # The page has it in its address, for a browser can open it in no other way; all else sends it as a header
    token = asked.parameter("token") if asked.path == PAGE else asked.headers.get(TOKEN_HEADER, "")
    is_right = compare_digest(token.encode(), own.token.encode())  # in a time that tells nothing
    return None if is_right else Refusal(NO_TOKEN, "the token is missing or wrong", _OPEN)


def _wrong_form(asked: AskedRequest) -> Refusal | None:
    kind = asked.headers.get("content-type", "").partition(";")[0].strip().lower()
    if asked.method == "POST" and kind != "application/json":
        return Refusal(415, "a POST body must be JSON", "send Content-Type: application/json")
    length = asked.headers.get("content-length", "0")
    if not length.isdecimal() or int(length[:12]) > LARGEST_BODY_BYTES:
        return Refusal(413, f"the body exceeds {LARGEST_BODY_BYTES} bytes", "a run request has a few short fields")
    return None
