"""The routes: every endpoint of the API below its prefix, the page at the root, all behind the guard."""

import sys
import traceback
from collections.abc import Callable
from typing import Any

import anyio.to_thread
import msgspec
from anyio import CapacityLimiter
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp

from unslow.facts.errors import UserError
from unslow.show._clean import without_controls
from unslow.web import buyers, panels, questions, runs
from unslow.web.book import BusyError, NotThereError
from unslow.web.desk import Desk
from unslow.web.endpoint import Endpoint, Question, imported
from unslow.web.guard import Guard
from unslow.web.openapi import document_json
from unslow.web.own import Own, Ticket
from unslow.web.parameters import flags
from unslow.web.refusals import LARGEST_BODY_BYTES, PAGE
from unslow.web.stream import events

_AT_ONCE, _SLOW_AT_ONCE = 4, 2
"""Questions that are worked on together; more would only wait for each other. Slow ones have places of their own."""
_STATUS = {NotThereError: 404, BusyError: 409}


def _described(_desk: Desk, _question: Question) -> Response:
    return Response(document_json(endpoints()), media_type="application/json")


def endpoints() -> tuple[Endpoint, ...]:
    """Everything that can be asked."""
    own = Endpoint("/openapi.json", "This description", "builtins:dict", _described)
    return (*panels.ENDPOINTS, *runs.ENDPOINTS, *questions.ENDPOINTS, *buyers.ENDPOINTS, own)


def openapi() -> str:
    """The description of the API, for the reference."""
    return document_json(endpoints()) + "\n"


def application(desk: Desk, own: Own, ticket: Ticket) -> ASGIApp:
    """The whole server, as ASGI has it."""
    quick, slow = CapacityLimiter(_AT_ONCE), CapacityLimiter(_SLOW_AT_ONCE)
    routes = [_route(desk, one, slow if one.slow else quick) for one in endpoints()]
    routes.append(Route(PAGE, _page(desk, own), methods=["GET"]))
    handlers = {HTTPException: _http_failed, UserError: _failed, ClientDisconnect: _left, Exception: _bug}
    return Guard(Starlette(routes=routes, exception_handlers=handlers), own, ticket)  # type: ignore[arg-type]


def _route(desk: Desk, one: Endpoint, limiter: CapacityLimiter) -> Route:
    async def answer(request: Request) -> Response:
        question = await _question(one, request)
        if one.media == "application/x-ndjson":
            return events(desk, question)
        found = await anyio.to_thread.run_sync(one.handle, desk, question, limiter=limiter)
        return _response(found, one)

    return Route(one.full_path, answer, methods=[one.method], name=f"{one.method} {one.path}")


async def _question(one: Endpoint, request: Request) -> Question:
    query = {name: request.query_params.getlist(name) for name in request.query_params}
    body = await _body(request, imported(one.body)) if one.body else None
    return Question(request.path_params, flags(one.parameters, query), body)


async def _body(request: Request, kind: Any) -> Any:
    """The body as its type; however long it says it is, only so much is read."""
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        if len(data) > LARGEST_BODY_BYTES:
            raise HTTPException(413, f"more than {LARGEST_BODY_BYTES} bytes")
    try:
        return msgspec.json.decode(bytes(data), type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UserError(f"the body can't be understood: {error}", "see /api/v1/openapi.json") from error


def _response(found: Any, one: Endpoint) -> Response:
    if isinstance(found, Response):
        return found
    if isinstance(found, str):
        return HTMLResponse(found)
    data = found if isinstance(found, bytes) else msgspec.json.encode(found)
    return Response(data, one.status, media_type=one.media)


def _page(desk: Desk, own: Own) -> Callable[[Request], Any]:
    async def page(request: Request) -> Response:
        wanted = request.query_params.get("view", "")
        html = await anyio.to_thread.run_sync(_drawn, desk, wanted, request.state.nonce, own.token)
        return HTMLResponse(html)

    return page


def _drawn(desk: Desk, wanted: str, nonce: str, token: str) -> str:
    from unslow.show._html.frame import Serving  # noqa: PLC0415 (imported while the machine is looked at)
    from unslow.web.pages import page_of  # noqa: PLC0415

    return page_of(desk, wanted, Serving(nonce, token))


def _failed(_request: Request, error: UserError) -> Response:
    status = _STATUS.get(type(error), 400)
    return JSONResponse({"error": {"message": error.message, "hint": error.hint}}, status)


def _http_failed(_request: Request, error: HTTPException) -> Response:
    hint = "see /api/v1/openapi.json" if error.status_code in (404, 405) else ""
    return JSONResponse({"error": {"message": error.detail, "hint": hint}}, error.status_code)


def _left(_request: Request, _error: ClientDisconnect) -> Response:
    """For a client that went away within its request: nobody reads it, and it is no bug."""
    return Response(status_code=400)


def _bug(_request: Request, error: Exception) -> Response:
    sys.stderr.write(without_controls("".join(traceback.format_exception(error))))
    return JSONResponse({"error": {"message": "a bug in unslow", "hint": "the terminal says more"}}, 500)
