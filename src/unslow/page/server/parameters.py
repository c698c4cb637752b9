"""Parameters of the API: those of a command, named as in the command line, and what a query means by them."""

import typing
from collections.abc import Collection, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from unslow.commands._request import NUMBER, SWITCH, TEXT, Request, fields_of
from unslow.facts.errors import UserError

Kind = Literal["text", "count", "number", "switch", "list", "names"]
LONGEST_VALUE = 500  # Longer than any path or name that means something
MOST_VALUES = 32  # Of a parameter that may be repeated
_KINDS: dict[Any, Kind] = {NUMBER: "number", SWITCH: "switch"}
_FILES = ("prices",)  # What names a file is for the command line
_SWITCHES = {"true": True, "1": True, "on": True, "false": False, "0": False, "off": False}


class Parameter(NamedTuple):
    """One of them."""

    name: str
    words: str
    kind: Kind = "text"
    field: str = ""  # What the request of `app` calls it, where that is another name
    needed: bool = False
    choices: tuple[str, ...] = ()  # All values that it can have, where they are few

    def parse(self, values: Sequence[str]) -> Any:
        """The value of this kind; UserError where it is none. Counts stay text: `128k` is one."""
        if self.kind == "list":
            return list(values)
        if self.kind == "names":
            return [name.strip() for value in values for name in value.split(",") if name.strip()][:MOST_VALUES]
        text = values[0]
        if self.kind == "number":
            try:
                number = float(text)
            except ValueError:
                raise UserError(f"{self.name} must be a number (got {text[:60]!r})", "for example 0.5") from None
            if not abs(number) < 1e15:  # noqa: PLR2004 (also refuses nan)
                raise UserError(f"{self.name} must be between -1e15 and 1e15 (got {text[:60]!r})", "for example 0.5")
            return number
        if self.kind == "switch":
            if text.lower() not in _SWITCHES:
                raise UserError(f"{self.name} must be true or false (got {text[:60]!r})", self.words)
            return _SWITCHES[text.lower()]
        return text


def parameters_of(
    request: type[Request], *, names: Mapping[str, str] | None = None, commas: Collection[str] = ()
) -> tuple[Parameter, ...]:
    """The parameters of a command's request; some by other names, some as lists with commas between."""
    parameters = []
    for field in fields_of(request):
        if field.option.only == "cli" or field.name in _FILES:
            continue
        kind: Kind = _KINDS.get(field.kind, "count" if field.kind.of is int and not field.several else "text")
        if field.name in commas:
            kind = "names"
        elif field.several and field.kind is TEXT:
            kind = "list"
        name = (names or {}).get(field.name, field.name)
        choices = field.kind.choices if typing.get_origin(field.kind.takes) is Literal else ()
        parameters.append(Parameter(name, field.option.text, kind, field.attribute, field.is_needed, choices))
    return tuple(parameters)


def flags(parameters: Sequence[Parameter], query: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """What a query means, by the fields of a request; UserError names what is unknown or not possible."""
    known = {parameter.name: parameter for parameter in parameters}
    for name, values in query.items():
        if name not in known:
            raise UserError(f"unknown parameter {name[:60]!r}", f"parameters: {', '.join(known) or 'none'}")
        parameter = known[name]
        most = MOST_VALUES if parameter.kind in ("list", "names") else 1
        if len(values) > most:
            raise UserError(f"{name} is given {len(values)} times", f"at most {most}")
        if any(len(value) > LONGEST_VALUE or "\0" in value for value in values):
            raise UserError(f"{name} is too long or contains a null character", f"at most {LONGEST_VALUE} characters")
        if parameter.choices and values[0] not in parameter.choices:
            choices = ", ".join(parameter.choices)
            raise UserError(f"{name} must be one of {choices} (got {values[0][:60]!r})", parameter.words)
    for parameter in parameters:
        if parameter.needed and parameter.name not in query:
            raise UserError(f"{parameter.name} is required", parameter.words)
    return {known[name].field or name: known[name].parse(values) for name, values in query.items()}
