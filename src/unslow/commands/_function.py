"""The Python function of a command, from its request: `unslow.fit("qwen3-8b", device="RTX 4090")`."""

import inspect
import types
from collections.abc import Callable, Collection, Sequence
from inspect import Parameter
from typing import Any, TypeVar

from unslow.app.progress import Progress, Silent
from unslow.commands._request import Field, Request, fields_of

R = TypeVar("R")
_PROGRESS = "is told what is being done; None for silence"


def function_of(
    request: type[Request], answer: Callable[..., R], *, name: str = "", first: str = "", without: Collection[str] = ()
) -> Callable[..., R]:
    """What a program calls: keywords as the options are named; what is needed, and `first`, may be given by its place.

    Its docstring is that of the request, or of `answer` where it has a name of its own, with a line for each option.
    """
    fields = [field for field in fields_of(request) if field.option.only != "cli" and field.name not in without]
    fields.sort(key=lambda field: not _leads(field, first))
    parameters = [_parameter(field, first) for field in fields]
    takes_progress = "progress" in inspect.signature(answer).parameters
    if takes_progress:
        parameters.append(Parameter("progress", Parameter.KEYWORD_ONLY, default=None, annotation=Progress | None))
    signature = inspect.Signature(parameters, return_annotation=answer.__annotations__["return"])

    def function(*args: Any, **keywords: Any) -> R:
        given = dict(signature.bind(*args, **keywords).arguments)
        progress = given.pop("progress", None) or Silent()
        asked = request.from_flags(given)
        return answer(asked, progress) if takes_progress else answer(asked)

    words = [f"{field.name}: {field.option.text}" for field in fields]
    words += [f"progress: {_PROGRESS}"] if takes_progress else []
    function.__name__ = function.__qualname__ = name or answer.__module__.rpartition(".")[2]
    function.__module__ = answer.__module__
    function.__doc__ = "\n".join([inspect.getdoc(answer if name and answer.__doc__ else request) or "", "", *words])
    function.__annotations__ = {one.name: one.annotation for one in parameters} | {
        "return": signature.return_annotation
    }
    function.__signature__ = signature  # type: ignore[attr-defined]  # where `inspect` looks for it
    return function


def _leads(field: Field, first: str) -> bool:
    return field.is_needed or field.option.positional or field.name == first


def _parameter(field: Field, first: str) -> Parameter:
    by_place = Parameter.POSITIONAL_OR_KEYWORD if _leads(field, first) else Parameter.KEYWORD_ONLY
    default = field.default
    if isinstance(default, tuple) and len(default) == 1:
        default = default[0]
    if field.kind.takes is str and isinstance(default, int | float):  # it is written with its unit
        default = None
    return Parameter(
        field.name, by_place, default=Parameter.empty if field.is_needed else default, annotation=_annotation(field)
    )


def _annotation(field: Field) -> Any:
    takes = field.kind.takes
    if field.several:
        takes = str | Sequence[str] if takes is str else types.GenericAlias(Sequence, (takes,))
    return takes if field.is_needed or (takes is bool and field.default is not None) else takes | None
