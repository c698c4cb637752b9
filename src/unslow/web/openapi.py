"""The description of the API, OpenAPI 3.1, made from the endpoints and from the types of their answers."""

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from unslow import __version__
from unslow.web.endpoint import Endpoint, imported
from unslow.web.parameters import Parameter

_MARK = re.compile(r"{(\w+)(?::(\w+))?}")
_TYPES: dict[str, dict[str, Any]] = {
    "text": {"type": "string"},
    "count": {"type": "string", "pattern": r"^-?\d+[kKmM]?$|^(auto|all)$"},
    "number": {"type": "number"},
    "switch": {"type": "boolean"},
    "list": {"type": "array", "items": {"type": "string"}},
    "names": {"type": "string"},
}
_SECURITY = {"token": {"type": "apiKey", "in": "header", "name": "X-Unslow-Token"}}
_WORDS = (
    "The JSON API of `unslow serve`: on loopback only, for whoever knows the token. What starts or stops a run also "
    "needs an `Origin` header with the server's own address. Fields are only added within a version."
)


class ErrorShown(msgspec.Struct, frozen=True, kw_only=True):
    """What went wrong and what to try."""

    message: str
    hint: str = ""


class Failed(msgspec.Struct, frozen=True, kw_only=True):
    """Every answer that is not of the 2xx kind."""

    error: ErrorShown


def document(endpoints: Iterable[Endpoint]) -> dict[str, Any]:
    """The whole description."""
    listed = sorted(endpoints, key=lambda one: one.path)
    names = {name for one in listed for name in (one.answer, one.body) if name}
    types = {name: imported(name) for name in sorted(names)}
    schemas, components = msgspec.json.schema_components(
        [Failed, *types.values()], ref_template="#/components/schemas/{name}"
    )
    schema = dict(zip(types, schemas[1:], strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for one in listed:
        paths.setdefault(_MARK.sub(r"{\1}", one.full_path), {})[one.method.lower()] = _operation(one, schema)
    return {
        "openapi": "3.1.0",
        "info": {"title": "unslow serve", "version": __version__, "description": _WORDS},
        "security": [{"token": []}],
        "paths": paths,
        "components": {"schemas": components, "securitySchemes": _SECURITY},
    }


def document_json(endpoints: Iterable[Endpoint]) -> str:
    """The description as it is written into the reference."""
    return msgspec.json.format(msgspec.json.encode(document(endpoints), order="deterministic"), indent=2).decode()


def _operation(one: Endpoint, schema: dict[str, Any]) -> dict[str, Any]:
    content = {"schema": schema[one.answer] if one.answer else {"type": "string"}}
    failed = {"application/json": {"schema": {"$ref": "#/components/schemas/Failed"}}}
    found: dict[str, Any] = {
        "operationId": _identity(one),
        "summary": one.summary,
        "responses": {
            str(one.status): {"description": one.summary, "content": {one.media: content}},
            "400": {"description": "What was asked can't be answered", "content": failed},
            "401": {"description": "The token is missing or wrong", "content": failed},
            "403": {"description": "It comes from another page", "content": failed},
            "default": {"description": "Anything else that went wrong", "content": failed},
        },
    }
    if parameters := [*_of_path(one), *map(_of_query, one.parameters)]:
        found["parameters"] = parameters
    if one.body:
        found["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema[one.body]}}}
    return found


def _identity(one: Endpoint) -> str:
    words = re.findall(r"[a-z]+", _MARK.sub("", one.path).replace(".html", "_html"))
    return "_".join([one.method.lower(), *words, *(name for name, _ in _MARK.findall(one.path))])


def _of_path(one: Endpoint) -> Iterable[dict[str, Any]]:
    for name, kind in _MARK.findall(one.path):
        yield {"name": name, "in": "path", "required": True, "schema": {"type": "integer" if kind else "string"}}


def _of_query(parameter: Parameter) -> dict[str, Any]:
    kind = _TYPES[parameter.kind] | ({"enum": list(parameter.choices)} if parameter.choices else {})
    shown = {"name": parameter.name, "in": "query", "description": parameter.words, "schema": kind}
    return shown | ({"required": True} if parameter.needed else {})
