"""JSON schemas of what tools take, from their requests; as short as they can be: every conversation pays for them."""

from typing import Any

from unslow.commands._request import Field, Request, fields_of

MORE = "more"
"""The argument for what is seldom needed."""
_TYPES: dict[Any, Any] = {bool: "boolean", int: ["integer", "string"], (int, float): "number", str: "string"}


def schema_of(request: type[Request]) -> dict[str, Any]:
    """What a tool takes: each option with its sentence, and those that are seldom needed by their names alone."""
    fields = [field for field in fields_of(request) if field.option.only != "cli"]
    told = {field.name: _property(field) for field in fields if not field.option.seldom}
    if seldom := [field.name for field in fields if field.option.seldom]:
        told[MORE] = {"type": "object", "description": f"seldom needed: {', '.join(seldom)}"}
    needed = [field.name for field in fields if field.is_needed]
    return {"type": "object", "properties": told, "required": needed, "additionalProperties": False}


def _property(field: Field) -> dict[str, Any]:
    kind: dict[str, Any] = {"type": "string"} if field.kind.takes is str else {"type": _TYPES[field.kind.of]}
    if field.kind.choices:
        kind = {"enum": list(field.kind.choices)}
    if field.several:
        kind = {"type": "array", "items": kind}
    return {**kind, "description": field.option.text}
