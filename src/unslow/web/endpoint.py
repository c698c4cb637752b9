"""One question of the API: where it is asked, with which parameters, and the type of its answer."""

import importlib
import types
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple

from unslow.web.desk import Desk
from unslow.web.parameters import Parameter

PREFIX = "/api/v1"
Media = Literal["application/json", "text/html", "application/x-ndjson"]


class Question(NamedTuple):
    """What was asked: the parts of the path, what the query means, and the body."""

    path: Mapping[str, Any]
    flags: Mapping[str, Any]
    body: Any = None


class Endpoint(NamedTuple):
    """A route and its description."""

    path: str
    """Below the prefix, with starlette's marks such as `{number:int}`."""
    summary: str
    answer: str
    """The type of the answer as `module:name`, imported only for the description; empty for HTML."""
    handle: Callable[[Desk, Question], Any]
    """Runs in a thread. UserError becomes an answer of status 400."""
    parameters: tuple[Parameter, ...] = ()
    method: Literal["GET", "POST", "DELETE"] = "GET"
    body: str = ""
    status: int = 200
    media: Media = "application/json"
    slow: bool = False
    """Whether it may take seconds; such ones never keep the others waiting."""

    @property
    def full_path(self) -> str:
        """With the prefix."""
        return PREFIX + self.path


def imported(name: str) -> Any:
    """What `module:name` names; `module:name[]` is a list of it."""
    module, _, attribute = name.removesuffix("[]").partition(":")
    found: Any = getattr(importlib.import_module(module), attribute)
    return types.GenericAlias(list, (found,)) if name.endswith("[]") else found
