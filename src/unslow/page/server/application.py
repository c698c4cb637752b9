"""The routes: every endpoint of the API below its prefix, the page, the streams, and the OpenAPI description."""

import re
import sys
import traceback
from collections.abc import AsyncIterator, Callable
from typing import Any

import anyio
import anyio.to_thread
import msgspec
from anyio import CapacityLimiter
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from unslow import __version__
from unslow.facts.errors import UserError
from unslow.page.server.endpoints import ENDPOINTS, PREFIX, Endpoint, Question, import_type
from unslow.page.server.guard import LARGEST_BODY_BYTES, PAGE, Guard, ServerIdentity, Ticket
from unslow.page.server.parameters import flags
from unslow.page.server.runs import BusyError, NotThereError, StartedRun
from unslow.page.server.state import ServerState
from unslow.show.console import without_controls

_AT_ONCE, _SLOW_AT_ONCE = 4, 2
"""Questions that are worked on together; more would only wait for each other. Slow ones have places of their own."""
_STATUS = {NotThereError: 404, BusyError: 409}
MOST_STREAMS = 8  # Pages that follow the same run
_PAUSE_S = 0.1
_QUIET_S = 15.0  # An empty line is sent after so long, so that a connection that has died is noticed
_MARK = re.compile(r"{(\w+)(?::(\w+))?}")
_TYPES: dict[str, dict[str, Any]] = {
    "text": {"type": "string"},
    "count": {"type": "string", "pattern": r"^-?\d+[kKmM]?$|^(auto|all)$"},
    "number": {"type": "number"},
    "switch": {"type": "boolean"},
    "list": {"type": "array", "items": {"type": "string"}},
    "names": {"type": "string"},
}
_SCHEMA_NAMES = {
    "ContradictionShown": "Contradicted",
    "ErrorResponse": "Failed",
    "Expectation": "Expected",
    "Known_TrialInTurns_": "Known_Tried_",
    "TrialInTurns": "Tried",
    "unslow.buy.cost.WayShown": "unslow.think.buy.cost_report.WayShown",
    "unslow.buy.offers.WayShown": "unslow.think.buy.choice_report.WayShown",
    "unslow.buy.report.SpeedShown": "unslow.think.buy.report.SpeedShown",
}
"""Of types that moved or got another name, as clients know them: a module may move, the name of a schema may not."""
_OWN = Endpoint("/openapi.json", "This description", "builtins:dict", lambda *_: openapi().rstrip("\n").encode())
ALL_ENDPOINTS = (*ENDPOINTS, _OWN)
_SECURITY = {"token": {"type": "apiKey", "in": "header", "name": "X-Unslow-Token"}}
_WORDS = (
    "The JSON API of `unslow serve`: loopback only, with a token. Requests that start or stop a run also need an "
    "`Origin` header with the server's own address. Within a version, fields are only added."
)


class ErrorShown(msgspec.Struct, frozen=True, kw_only=True):
    """What went wrong and what to try."""

    message: str
    hint: str = ""


class ErrorResponse(msgspec.Struct, frozen=True, kw_only=True):
    """Every response without a 2xx status."""

    error: ErrorShown


def application(state: ServerState, own: ServerIdentity, ticket: Ticket) -> ASGIApp:
    """The whole server, as ASGI has it."""
    quick, slow = CapacityLimiter(_AT_ONCE), CapacityLimiter(_SLOW_AT_ONCE)
    routes = [_route(state, one, slow if one.slow else quick) for one in ALL_ENDPOINTS]
    routes.append(Route(PAGE, _page(state, own), methods=["GET"]))
    handlers = dict.fromkeys((HTTPException, UserError, ClientDisconnect, Exception), _error_response)
    return Guard(Starlette(routes=routes, exception_handlers=handlers), own, ticket)


def _route(state: ServerState, one: Endpoint, limiter: CapacityLimiter) -> Route:
    async def answer(request: Request) -> Response:
        query = {name: request.query_params.getlist(name) for name in request.query_params}
        body = await _body(request, import_type(one.body)) if one.body else None
        question = Question(request.path_params, flags(one.parameters, query), body)
        if one.media == "application/x-ndjson":
            entry = state.runs.entry(question.path["run"])
            if entry.watchers >= MOST_STREAMS:
                raise BusyError("too many pages are following this run", "close some of them")
            return StreamingResponse(_lines(state, entry, int(question.flags.get("since", 0))), media_type=one.media)
        found = await anyio.to_thread.run_sync(one.handle, state, question, limiter=limiter)
        if isinstance(found, Response):
            return found
        if isinstance(found, str):
            return HTMLResponse(found)
        data = found if isinstance(found, bytes) else msgspec.json.encode(found)
        return Response(data, one.status, media_type=one.media)

    return Route(PREFIX + one.path, answer, methods=[one.method], name=f"{one.method} {one.path}")


async def _body(request: Request, kind: Any) -> Any:
    """The decoded body; reads no more than the limit, whatever its length header says."""
    data = bytearray()
    async for chunk in request.stream():
        data += chunk
        if len(data) > LARGEST_BODY_BYTES:
            raise HTTPException(413, f"the body exceeds {LARGEST_BODY_BYTES} bytes")
    try:
        return msgspec.json.decode(bytes(data), type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UserError(f"invalid body: {error}", "see /api/v1/openapi.json") from error


async def _lines(state: ServerState, entry: StartedRun, since: int) -> AsyncIterator[bytes]:
    entry.watchers += 1
    quiet_s = 0.0
    try:
        while True:
            over = entry.is_over or state.closing  # asked before the lines: the last one is not missed
            new = entry.lines(since)
            for line in new:
                since = line.number
                yield msgspec.json.encode(line) + b"\n"
            if over:
                return
            quiet_s = 0.0 if new else quiet_s + _PAUSE_S
            if quiet_s >= _QUIET_S:
                quiet_s = 0.0
                yield b"\n"
            await anyio.sleep(_PAUSE_S)
    finally:
        entry.watchers -= 1


def _page(state: ServerState, own: ServerIdentity) -> Callable[[Request], Any]:
    def draw_page(wanted: str, nonce: str) -> str:
        from unslow.page.html.document import Serving
        from unslow.page.server.pages import page_of

        return page_of(state, wanted, Serving(nonce, own.token))

    async def page(request: Request) -> Response:
        wanted = request.query_params.get("view", "")
        return HTMLResponse(await anyio.to_thread.run_sync(draw_page, wanted, request.state.nonce))

    return page


def _error_response(_request: Request, error: Exception) -> Response:
    if isinstance(error, UserError):
        status, message, hint = _STATUS.get(type(error), 400), error.message, error.hint
    elif isinstance(error, HTTPException):
        status, message = error.status_code, error.detail
        hint = "see /api/v1/openapi.json" if status in (404, 405) else ""
    elif isinstance(error, ClientDisconnect):  # within its request: the answer is not read, and it is not a bug
        return Response(status_code=400)
    else:
        sys.stderr.write(without_controls("".join(traceback.format_exception(error))))
        status, message, hint = 500, "a bug in unslow", "see the terminal for details"
    return JSONResponse({"error": {"message": message, "hint": hint}}, status)


def openapi() -> str:
    """The description of the API, as it is written into the reference."""
    listed = sorted(ALL_ENDPOINTS, key=lambda one: one.path)
    names = {name for one in listed for name in (one.answer, one.body) if name}
    types = {name: import_type(name) for name in sorted(names)}
    shown, template = [ErrorResponse, *types.values()], "#/components/schemas/{name}"
    text = msgspec.json.encode(msgspec.json.schema_components(shown, ref_template=template)).decode()
    for name, known in _SCHEMA_NAMES.items():
        text = text.replace(f'{name}"', f'{known}"')
    schemas, components = msgspec.json.decode(text)
    schema = dict(zip(types, schemas[1:], strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for one in listed:
        paths.setdefault(_MARK.sub(r"{\1}", PREFIX + one.path), {})[one.method.lower()] = _operation(one, schema)
    whole = {
        "openapi": "3.1.0",
        "info": {"title": "unslow serve", "version": __version__, "description": _WORDS},
        "security": [{"token": []}],
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": _SECURITY},
    }
    return msgspec.json.format(msgspec.json.encode(whole, order="deterministic"), indent=2).decode() + "\n"


def _operation(one: Endpoint, schema: dict[str, Any]) -> dict[str, Any]:
    content = {"schema": schema[one.answer] if one.answer else {"type": "string"}}
    failed = {"application/json": {"schema": {"$ref": "#/components/schemas/Failed"}}}
    words = re.findall(r"[a-z]+", _MARK.sub("", one.path).replace(".html", "_html"))
    identity = "_".join([one.method.lower(), *words, *(name for name, _ in _MARK.findall(one.path))])
    found: dict[str, Any] = {
        "operationId": identity,
        "summary": one.summary,
        "responses": {
            str(one.status): {"description": one.summary, "content": {one.media: content}},
            "400": {"description": "Invalid request", "content": failed},
            "401": {"description": "The token is missing or wrong", "content": failed},
            "403": {"description": "Request from another site", "content": failed},
            "default": {"description": "Any other error", "content": failed},
        },
    }
    parameters: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "integer" if kind else "string"}}
        for name, kind in _MARK.findall(one.path)
    ]
    for asked in one.parameters:
        kind = _TYPES[asked.kind] | ({"enum": list(asked.choices)} if asked.choices else {})
        shown = {"name": asked.name, "in": "query", "description": asked.words, "schema": kind}
        parameters.append(shown | ({"required": True} if asked.needed else {}))
    if parameters:
        found["parameters"] = parameters
    if one.body:
        found["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema[one.body]}}}
    return found
