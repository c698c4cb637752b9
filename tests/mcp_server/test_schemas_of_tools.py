from typing import Annotated, Literal

import pytest

from unslow.commands._request import Option, Request
from unslow.facts.errors import UserError
from unslow.mcp.tools import Tool, schema_of


class Asked(Request, frozen=True, kw_only=True):
    """What it does.

    And more of it.
    """

    name: Annotated[str, Option("of it")]
    devices: Annotated[tuple[str, ...], Option("one or more", name="device")] = ()
    how: Annotated[Literal["a", "b"] | None, Option("which way")] = None
    tokens: Annotated[int, Option("how many", least=1)] = 8
    share: Annotated[float, Option("hardly used", seldom=True)] = 0.5
    json: Annotated[bool, Option("as JSON", only="cli")] = False


TOOL = Tool("asked", "Asked?", Asked, lambda _asked, _progress: None)


def test_request_struct_becomes_the_json_schema_of_a_tool():
    schema = schema_of(Asked)
    assert schema["required"] == ["name"]
    assert schema["properties"] == {
        "name": {"type": "string", "description": "of it"},
        "device": {"type": "array", "items": {"type": "string"}, "description": "one or more"},
        "how": {"enum": ["a", "b"], "description": "which way"},
        "tokens": {"type": ["integer", "string"], "description": "how many"},
        "more": {"type": "object", "description": "rarely used: share"},
    }
    assert TOOL.description == "What it does. And more of it."


def test_arguments_inside_more_are_accepted():
    asked = TOOL.read_request({"name": "x", "tokens": "8k", "device": "one", "how": None, "more": {"share": "0.25"}})
    assert asked == Asked(
        name="x", tokens=8192, devices=("one",), share=0.25, given=frozenset({"name", "tokens", "devices", "share"})
    )


@pytest.mark.parametrize(
    ("arguments", "tells"),
    [
        ({"name": "x", "tokns": 1}, ("tokns", "tokens")),
        ({"name": "x", "tokens": 0}, ("--tokens", "1", "0")),
        ({"name": 3, "tokens": [1]}, "--tokens"),
        ({"tokens": 1}, "--name"),
        ({"name": "x", "more": 3}, "more"),
    ],
    ids=["misspelled", "too small", "wrong type", "missing", "no object"],
)
def test_invalid_arguments_raise_user_error(arguments, tells, wording):
    with pytest.raises(UserError) as caught:
        TOOL.read_request(arguments)
    wording(caught.value.message, tells=tells)
