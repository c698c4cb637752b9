"""Stands before every answer: refuses what is not the user's own, and sends the headers that keep others out.

There are no cookies, which all ports of a host share, and no CORS headers: no other page has any business here.
"""

import secrets
from html import escape

from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from unslow.web.own import Own, Ticket
from unslow.web.refusals import METHODS, NO_TOKEN, PAGE, Asked, Refusal, refusal

_NONCE_BYTES = 16
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
_REFUSED_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>unslow: refused</title><h1>{}</h1><p>{}.</p></html>
"""


class Guard:
    """An application that answers only whom it may."""

    def __init__(self, app: ASGIApp, own: Own, ticket: Ticket) -> None:
        self._app, self._own, self._ticket = app, own, ticket

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, or refuse."""
        if scope["type"] != "http":
            return  # no web sockets: uvicorn is told so too
        nonce = secrets.token_urlsafe(_NONCE_BYTES)
        scope.setdefault("state", {})["nonce"] = nonce
        await self._answer(_asked(scope))(scope, receive, _with_headers(send, nonce))

    def _answer(self, asked: Asked) -> ASGIApp:
        why = refusal(asked, self._own)
        if why is None:
            return self._app
        if why.status == NO_TOKEN and asked.path == PAGE and self._ticket.take(asked.parameter("ticket")):
            return RedirectResponse(self._own.url.removeprefix(self._own.base), 303)
        return _refused(why, asked.path)


def _asked(scope: Scope) -> Asked:
    headers: dict[str, str] = {}
    for name, value in scope["headers"]:
        key = name.decode("latin-1").lower()
        # a header that comes twice is read differently by different programs: as both, it equals nothing
        headers[key] = f"{headers[key]}, {value.decode('latin-1')}" if key in headers else value.decode("latin-1")
    return Asked(scope["method"], scope["path"], scope["query_string"].decode("latin-1"), headers)


def _refused(why: Refusal, path: str) -> Response:
    headers = {"allow": ", ".join(METHODS)} if why.status == 405 else {}  # noqa: PLR2004 (method not allowed)
    if why.status == NO_TOKEN:  # it must say by what one gets in; browsers ask nobody for this
        headers["www-authenticate"] = "Unslow-Token"
    headers["connection"] = "close"  # a body that nobody reads is not waited for
    if path == PAGE:
        return HTMLResponse(
            _REFUSED_PAGE.format(escape(why.message.capitalize()), escape(why.hint)), why.status, headers
        )
    return JSONResponse({"error": {"message": why.message, "hint": why.hint}}, why.status, headers)


def _with_headers(send: Send, nonce: str) -> Send:
    policy = _POLICY.format(nonce)
    extra = [(name.encode(), value.encode()) for name, value in HEADERS.items()]
    extra.append((b"content-security-policy", policy.encode()))

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message.get("headers", ()), *extra]}
        await send(message)

    return sending
