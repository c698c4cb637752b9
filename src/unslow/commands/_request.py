"""A command's request: one frozen struct, whose fields say once what everybody needs who fills it in.

    context: Annotated[int | None, Option("tokens of context", "-c", metavar="N", least=0, most=2**27)] = None

The command line (`_parser`), the Python function (`_function`), the tool for agents (`mcp_server.schemas`) and the
parameters of the web API (`web.parameters`) are made from `fields_of` such a struct; each hands what it was given, by
name, to `Request.from_flags`.
"""

import difflib
import functools
import types
import typing
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, NamedTuple, Self, Union

import msgspec

from unslow.commands._values import COUNT, NUMBER, SWITCH, TEXT, Kind
from unslow.facts.errors import UserError

NEEDED = msgspec.NODEFAULT
"""The default of an option that has none."""
_LAST = ("format", "quiet")
"""What every command has is listed after its own."""
_KINDS = {int: COUNT, float: NUMBER, bool: SWITCH, str: TEXT}


class Option(NamedTuple):
    """What there is to know about a field of a request, beside its type and its default."""

    text: str
    """One sentence, for --help, the Python reference, agents and the web API alike."""
    flags: str = ""
    """Other flags than the one of its name, with blanks between: "-c --depth"."""
    name: str = ""
    """How people write it, where the program calls it otherwise."""
    metavar: str = ""
    kind: Kind | None = None
    """How its values are read, where the type of the field does not say it."""
    least: float | None = None
    most: float | None = None
    group: str = ""
    """The heading below which --help lists it."""
    positional: bool = False
    only: Literal["", "cli"] = ""
    """"cli" is what only a command line has: where output goes, and how it looks."""
    needed: bool = False
    """Whether a program must give it, though a command line may do without."""
    seldom: bool = False
    """Whether agents are told no more than its name: every conversation pays for each word."""
    apart: str = ""
    """Of the options with the same word here, only one may be given."""
    required: bool = False
    """Whether a command line must have it, though it has a default for programs."""
    bare: str | None = None
    """What the flag means without a value."""
    off: str = ""
    """A further flag that switches it off."""
    short: tuple[str, str] | None = None
    """A flag that stands for one value, such as --json for --format json."""


class Field(NamedTuple):
    """A field of a request with its option."""

    attribute: str
    option: Option
    kind: Kind
    default: Any
    several: bool
    """Whether it may be given several times: a tuple."""

    @property
    def name(self) -> str:
        """How programs call it."""
        return self.option.name or self.attribute

    @property
    def flag(self) -> str:
        """How a message calls it."""
        return self.option.metavar if self.option.positional else f"--{self.name.replace('_', '-')}"

    @property
    def is_needed(self) -> bool:
        """Whether a program must give it."""
        return self.option.needed or self.default is NEEDED

    def value(self, given: Any) -> Any:
        """The value of what was given as a text, or as Python or JSON have it; UserError where it can't be."""
        if not self.several:
            return self._one(given)
        several = [given] if isinstance(given, str) else given
        if self.kind.of is not str:  # a name may have a comma, a number may not
            several = [part for one in several for part in (one.split(",") if isinstance(one, str) else [one])]
        return tuple(self._one(one) for one in several)

    def _one(self, given: Any) -> Any:
        try:
            value = self.kind.value(given)
        except ValueError:
            raise UserError(f"{self.flag} must be {self.kind.form} (got {given!r})", self._hint) from None
        least, most = self.option.least, self.option.most
        if value is None or ((least is None or value >= least) and (most is None or value <= most)):
            return value
        within = f"between {_number(least)} and {_number(most)}" if most is not None else f"at least {_number(least)}"
        raise UserError(f"{self.flag} must be {within} (got {given})", self._hint)

    @property
    def _hint(self) -> str:
        return f"{self.flag}: {self.option.text}"


def _number(value: float | None) -> str:
    return f"{value:,.0f}" if value is not None and float(value).is_integer() else f"{value:g}"


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What a user asks, checked."""

    given: frozenset[str] = frozenset()
    """The fields that the user wrote; the others may be filled in by what was seen."""

    @classmethod
    def from_flags(cls, flags: Mapping[str, Any]) -> Self:
        """The request that these values mean, by the names of options or fields; UserError where one can't be."""
        known = {name: field for field in fields_of(cls) for name in (field.attribute, field.name)}
        written = {name: value for name, value in flags.items() if value is not None}
        if unknown := [name for name in written if name not in known]:
            raise unknown_option(unknown[0], {field.name for field in known.values()})
        values = {known[name].attribute: known[name].value(value) for name, value in written.items()}
        _check_apart([known[name] for name, value in written.items() if value is not False])
        if missing := [f for f in fields_of(cls) if f.default is NEEDED and f.attribute not in values]:
            raise UserError(f"{missing[0].flag} is missing", missing[0].option.text)
        request = cls(**values, given=frozenset(values))
        request.check()
        return request

    def check(self) -> None:
        """UserError where fields don't go together."""

    def _replace(self, **changes: Any) -> Self:
        """Itself with other values."""
        return msgspec.structs.replace(self, **changes)


def _check_apart(given: Iterable[Field]) -> None:
    seen: dict[str, Field] = {}
    for field in given:
        first = seen.setdefault(field.option.apart or field.name, field)
        if first is not field:
            raise UserError(f"{first.flag} and {field.flag} exclude each other", "give one of them")


def unknown_option(name: str, known: Iterable[str]) -> UserError:
    """What is said of an option that there is not."""
    near = difflib.get_close_matches(name, known, 1)
    return UserError(
        f"unknown option {name}" + (f"; did you mean {near[0]}?" if near else ""),
        "" if near else f"there are {', '.join(known)}",
    )


@functools.cache
def fields_of(request: type[Request]) -> tuple[Field, ...]:
    """The fields of a request that have an option, in their order."""
    hints = typing.get_type_hints(request, include_extras=True)
    defaults = {field.name: field.default for field in msgspec.structs.fields(request)}
    fields = [
        _field(name, hint, defaults[name]) for name, hint in hints.items() if typing.get_origin(hint) is Annotated
    ]
    return tuple(sorted(fields, key=lambda field: field.attribute in _LAST))


def _field(name: str, hint: Any, default: Any) -> Field:
    kind, option = typing.get_args(hint)[:2]
    if typing.get_origin(kind) in (Union, types.UnionType):
        kind = next(one for one in typing.get_args(kind) if one is not types.NoneType)
    several = typing.get_origin(kind) is tuple
    if several:
        kind = typing.get_args(kind)[0]
    return Field(name, option, option.kind or _kind_of(kind), default, several)


def _kind_of(kind: Any) -> Kind:
    if typing.get_origin(kind) is not Literal:
        return _KINDS[kind]
    choices = typing.get_args(kind)

    def parse(text: str) -> str:
        if text.lower() not in choices:
            raise ValueError
        return text.lower()

    return Kind(f"one of {', '.join(choices)}", parse, kind, choices=choices)


class Shown(Request, frozen=True, kw_only=True):
    """A request whose answer is shown."""

    format: Annotated[
        str, Option("terminal (default), json", metavar="FORMAT", only="cli", short=("--json", "json"))
    ] = "terminal"


class Told(Shown, frozen=True, kw_only=True):
    """One that takes a while and says what is being done."""

    quiet: Annotated[bool, Option("don't say what is being done", "-q", only="cli")] = False
