from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec
import pytest

from unslow.app.progress import Progress
from unslow.mcp_server.schemas import arguments_of, plain, schema_of


class Inner(msgspec.Struct):
    """Inside."""

    number: int


class Outer(msgspec.Struct):
    """Around."""

    inner: Inner


def asked(
    name: str | Path,
    *,
    devices: str | Sequence[str] = "auto",
    where: Sequence[str | Path] = (),
    how: Literal["a", "b"] | None = None,
    seldom: int = 1,
    progress: Progress | None = None,
) -> None:
    """A function.

    name: of it
    devices: one or more
    where: folders
    how: None for neither; None is none
    seldom: hardly used
    progress: told
    """


def test_a_function_says_what_a_tool_takes():
    schema = schema_of(arguments_of(asked, without=("seldom",)))
    assert set(schema["properties"]) == {"name", "devices", "where", "how"}
    assert schema["required"] == ["name"]
    assert schema["properties"]["name"] == {"type": "string", "description": "of it"}
    assert schema["properties"]["where"] == {"type": "array", "items": {"type": "string"}, "description": "folders"}
    assert schema["properties"]["how"] == {"enum": ["a", "b"], "description": "by default neither; null is none"}


def test_what_a_program_alone_can_give_is_left_out():
    assert plain(str | int | Path | None) == str | int
    assert plain(int) is int


def test_a_schema_has_an_object_at_its_root():
    schema = schema_of(Outer, {"more": {"type": "string"}})
    assert schema["type"] == "object"
    assert schema["properties"]["inner"] == {"$ref": "#/$defs/Inner"}
    assert schema["properties"]["more"] == {"type": "string"}
    assert "number" in schema["$defs"]["Inner"]["properties"]


def test_only_what_is_known_is_taken():
    takes = arguments_of(asked)
    with pytest.raises(msgspec.ValidationError, match="unknown field"):
        msgspec.convert({"name": "x", "progress": 1}, takes)
