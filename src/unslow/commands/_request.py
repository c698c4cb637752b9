"""A command's request: one frozen struct whose fields say once what everybody needs who fills it in.

    context: Annotated[int | None, Option("tokens of context", "-c", metavar="N", least=0, most=2**27)] = None

The command line (`_parser`), the Python function (`function_of`), the tool for agents (`unslow.mcp.tools`) and the
parameters of the web API (`unslow.page.server.parameters`) are made from `fields_of` such a struct; each hands what it
was given, by name, to `Request.from_flags`.
"""

import difflib
import functools
import inspect
import math
import re
import types
import typing
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from inspect import Parameter
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self, TypeVar, Union

import msgspec

from unslow.commands._output import Progress, Silent
from unslow.facts.errors import UserError
from unslow.facts.values import GB, GIB, KIB, MB, MIB

NEEDED = msgspec.NODEFAULT  # The default of an option that has none
R = TypeVar("R")
_LAST = ("format", "quiet")  # What every command has is listed after its own
_PROGRESS = "called with each progress message; None for none"
_COUNT = re.compile(r"(-?)(\d{1,12})([km]?)", re.IGNORECASE)
_SIZE = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)\s*([kmgt]i?b?|)", re.IGNORECASE)
_SIZE_UNITS = {"": MIB, "k": KIB, "m": MIB, "g": GIB, "t": 1024 * GIB}
"""A memory of 24 GB has 24 GiB, whatever a disk of 24 GB has; a bare number is MiB, as llama.cpp counts margins."""
_SPEED = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)\s*([mgt]i?b?|)(?:/s|ps)?", re.IGNORECASE)
_SPEED_UNITS = {"": GB, "gb": GB, "g": GB, "gib": GIB, "mb": MB, "mib": MIB, "tb": 1000 * GB, "t": 1000 * GB,
                "tib": 1024 * GIB}  # fmt: skip
_PERCENT = re.compile(r"(\d{1,3}(?:\.\d{1,6})?)\s*%?")
_SWITCHES = {"true": True, "1": True, "on": True, "false": False, "0": False, "off": False}


class Kind(NamedTuple):
    """What values of an option look like."""

    form: str  # Completes "must be ..."
    parse: Callable[[str], Any]  # From a text; ValueError where it has not this form
    takes: Any  # The type that a Python program may give
    of: type | tuple[type, ...] = str  # Values of these types need no parsing
    choices: tuple[str, ...] = ()

    def value(self, given: Any) -> Any:
        """The value; ValueError where it can't be one."""
        if isinstance(given, self.of) and isinstance(given, bool) == (self.of is bool) and self.of is not str:
            return given
        if isinstance(given, str | int | float | Path) and not isinstance(given, bool):
            return self.parse(str(given))
        raise ValueError


def whole_match(pattern: re.Pattern[str], text: str) -> re.Match[str]:
    """The match of a whole text; ValueError where it has not this form."""
    match = pattern.fullmatch(text.strip())
    if not match:
        raise ValueError
    return match


def parse_count(text: str) -> int:
    """A whole number, from `8192` or `128k`, which is 128 times 1024; ValueError where it is none."""
    match = whole_match(_COUNT, text)
    return int(f"{match[1]}{match[2]}") * {"": 1, "k": KIB, "m": MIB}[match[3].lower()]


def parse_number(text: str) -> float:
    """A number that is finite; ValueError where it is none."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError
    return number


def parse_size(text: str) -> int:
    """Bytes, from `512`, which is MiB, `24GB` or `24GiB`; ValueError where it is neither."""
    match = whole_match(_SIZE, text)
    return int(float(match[1]) * _SIZE_UNITS[match[2].lower()[:1]])


def parse_speed(text: str) -> float:
    """Bytes per second, from `80`, which is GB/s, `80GB/s` or `1.8TB/s`; ValueError where it is none."""
    match = whole_match(_SPEED, text)
    speed = float(match[1]) * _SPEED_UNITS.get(match[2].lower(), 0)
    if not speed:
        raise ValueError
    return speed


def parse_switch(text: str) -> bool:
    """Yes or no; ValueError where it is neither."""
    if text.lower() not in _SWITCHES:
        raise ValueError
    return _SWITCHES[text.lower()]


def size_of(text: str) -> int:
    """Bytes, as `parse_size`; UserError where the text is no size."""
    try:
        return parse_size(text)
    except ValueError:
        raise UserError(f"{text!r} is not a memory size", "for example: 24GB, 512MiB or 1TB") from None


def one_of(choices: tuple[str, ...], words: Mapping[str, str] | None = None) -> Kind:
    """One of a few words; `words` has what else people call them, in small letters and digits alone."""

    def parse(text: str) -> str:
        plain = re.sub(r"[^a-z0-9]", "", text.lower())
        meant = (words or {}).get(plain) or next((one for one in choices if re.sub(r"\W|_", "", one) == plain), "")
        if not meant:
            raise ValueError
        return meant

    return Kind(f"one of {', '.join(choices)}", parse, str, choices=choices)


TEXT = Kind("a text", str, str)
PATH = Kind("a text", str, str | Path)
TARGET = Kind("a text", str, str | int | Path)
COUNT = Kind("a whole number such as 8192 or 128k", parse_count, int | str, int)
NUMBER = Kind("a number", parse_number, float, (int, float))
SIZE = Kind("a memory size such as 24GB, 512MiB or 1TB", parse_size, str)
SPEED = Kind("a memory bandwidth such as 80GB/s", parse_speed, str)
PERCENT = Kind("a percentage such as 1% or 0.5%", lambda text: float(whole_match(_PERCENT, text)[1]) / 100, str)
"""A share of one."""
SWITCH = Kind("true or false", parse_switch, bool, bool)
_KINDS = {int: COUNT, float: NUMBER, bool: SWITCH, str: TEXT}


class Option(NamedTuple):
    """What there is to know about a field of a request, beside its type and its default."""

    text: str  # One sentence, for --help, the Python reference, agents and the web API alike
    flags: str = ""  # Other flags than the one of its name, with blanks between: "-c --depth"
    name: str = ""  # How people write it, where the program calls it otherwise
    metavar: str = ""
    kind: Kind | None = None  # How its values are read, where the type of the field does not say it
    least: float | None = None
    most: float | None = None
    group: str = ""  # The heading below which --help lists it
    positional: bool = False
    only: Literal["", "cli"] = ""  # "cli" is what only a command line has: where output goes, and how it looks
    needed: bool = False  # Whether a program must give it, though a command line may do without
    seldom: bool = False  # Whether agents are told no more than its name: every conversation pays for each word
    apart: str = ""  # Of the options with the same word here, only one may be given
    required: bool = False  # Whether a command line must have it, though it has a default for programs
    bare: str | None = None  # What the flag means without a value
    off: str = ""  # A further flag that switches it off
    short: tuple[str, str] | None = None  # A flag that stands for one value, such as --json for --format json


Quant = Annotated[
    str | None, Option("quant, for a model name without a file (default: as published, else Q4_K_M)", metavar="NAME")
]


class Field(NamedTuple):
    """A field of a request with its option."""

    attribute: str
    option: Option
    kind: Kind
    default: Any
    several: bool  # Whether it may be given several times: a tuple

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
        hint = f"{self.flag}: {self.option.text}"
        try:
            value = self.kind.value(given)
        except ValueError:
            raise UserError(f"{self.flag} must be {self.kind.form} (got {given!r})", hint) from None
        least, most = self.option.least, self.option.most
        if value is None or ((least is None or value >= least) and (most is None or value <= most)):
            return value
        within = f"between {_number(least)} and {_number(most)}" if most is not None else f"at least {_number(least)}"
        raise UserError(f"{self.flag} must be {within} (got {given})", hint)


def _number(value: float | None) -> str:
    return f"{value:,.0f}" if value is not None and float(value).is_integer() else f"{value:g}"


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What a user asks, checked."""

    given: frozenset[str] = frozenset()  # The fields that the user wrote; the others may be filled in by what was seen

    @classmethod
    def from_flags(cls, flags: Mapping[str, Any]) -> Self:
        """The request that these values mean, by the names of options or fields; UserError where one can't be."""
        known = {name: field for field in fields_of(cls) for name in (field.attribute, field.name)}
        written = {name: value for name, value in flags.items() if value is not None}
        if unknown := [name for name in written if name not in known]:
            raise unknown_option(unknown[0], {field.name for field in known.values()})
        values = {known[name].attribute: known[name].value(value) for name, value in written.items()}
        seen: dict[str, Field] = {}
        for field in [known[name] for name, value in written.items() if value is not False]:
            first = seen.setdefault(field.option.apart or field.name, field)
            if first is not field:
                raise UserError(f"{first.flag} and {field.flag} are mutually exclusive", "give only one of them")
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


def unknown_option(name: str, known: Iterable[str]) -> UserError:
    """What is said of an option that there is not."""
    near = difflib.get_close_matches(name, known, 1)
    if near:
        return UserError(f"unknown option {name}; did you mean {near[0]}?", "")
    return UserError(f"unknown option {name}", f"available: {', '.join(known)}")


@functools.cache
def fields_of(request: type[Request]) -> tuple[Field, ...]:
    """The fields of a request that have an option, in their order."""
    hints = typing.get_type_hints(request, include_extras=True)
    defaults = {field.name: field.default for field in msgspec.structs.fields(request)}
    fields = []
    for name, hint in hints.items():
        if typing.get_origin(hint) is Annotated:
            kind, option = typing.get_args(hint)[:2]
            if typing.get_origin(kind) in (Union, types.UnionType):
                kind = next(one for one in typing.get_args(kind) if one is not types.NoneType)
            several = typing.get_origin(kind) is tuple
            if several:
                kind = typing.get_args(kind)[0]
            fields.append(Field(name, option, option.kind or _kind_of(kind), defaults[name], several))
    return tuple(sorted(fields, key=lambda field: field.attribute in _LAST))


def _kind_of(kind: Any) -> Kind:
    if typing.get_origin(kind) is not Literal:
        return _KINDS[kind]
    choices = typing.get_args(kind)

    def parse(text: str) -> str:
        if text.lower() not in choices:
            raise ValueError
        return text.lower()

    return Kind(f"one of {', '.join(choices)}", parse, kind, choices=choices)


class ShownRequest(Request, frozen=True, kw_only=True):
    """A request whose answer is shown."""

    format: Annotated[
        str, Option("terminal (default), json", metavar="FORMAT", only="cli", short=("--json", "json"))
    ] = "terminal"


class LongRequest(ShownRequest, frozen=True, kw_only=True):
    """One that takes a while and says what is being done."""

    quiet: Annotated[bool, Option("do not print progress", "-q", only="cli")] = False


def function_of(
    request: type[Request], answer: Callable[..., R], *, name: str = "", first: str = "", without: Collection[str] = ()
) -> Callable[..., R]:
    """What a program calls: keywords as the options are named; what is needed, and `first`, may be given by its place.

    Its docstring is that of the request, or of `answer` where it has a name of its own, with a line for each option.
    """
    fields = [field for field in fields_of(request) if field.option.only != "cli" and field.name not in without]
    leading = {f.name for f in fields if f.is_needed or f.option.positional or f.name == first}
    fields.sort(key=lambda field: field.name not in leading)
    parameters = [_parameter(field, by_place=field.name in leading) for field in fields]
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
    function.__annotations__ = {one.name: one.annotation for one in parameters}
    function.__annotations__["return"] = signature.return_annotation
    function.__signature__ = signature  # type: ignore[attr-defined]  # where `inspect` looks for it
    return function


def _parameter(field: Field, *, by_place: bool) -> Parameter:
    default, takes = field.default, field.kind.takes
    if isinstance(default, tuple) and len(default) == 1:
        default = default[0]
    if takes is str and isinstance(default, int | float):  # it is written with its unit
        default = None
    if field.several:
        takes = str | Sequence[str] if takes is str else types.GenericAlias(Sequence, (takes,))
    annotation = takes if field.is_needed or (takes is bool and field.default is not None) else takes | None
    default = Parameter.empty if field.is_needed else default
    kind = Parameter.POSITIONAL_OR_KEYWORD if by_place else Parameter.KEYWORD_ONLY
    return Parameter(field.name, kind, default=default, annotation=annotation)
