"""The command line of one command, from its request."""

import argparse
from collections.abc import Mapping
from typing import Any, Never

from unslow.commands._request import NEEDED, Field, Request, fields_of, unknown_option
from unslow.facts.errors import UserError

STATUSES = """exit status of every command: 0 fine (normal, fits, possible, done); 1 something was found (slow, failed,
fits only partly or not at all, impossible, declined); 2 could not run; 3 cannot tell; 130 stopped by Ctrl-C"""


class CommandParser(argparse.ArgumentParser):
    """A parser whose errors are UserErrors with the nearest option."""

    def __init__(self, prog: str, description: str) -> None:
        super().__init__(
            prog=prog,
            description=description,
            epilog=STATUSES,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,  # a later option would break scripts that shorten an earlier one
            argument_default=argparse.SUPPRESS,
        )

    def error(self, message: str) -> Never:
        """Complain."""
        raise UserError(message, f"`{self.prog} --help` lists the options")

    def parse_args(self, args: Any = None, namespace: Any = None) -> Any:  # argparse has no narrower type for it
        """What the words mean; UserError with the nearest option for one that there is not."""
        found, rest = self.parse_known_args(args, namespace)
        if strange := next((word.partition("=")[0] for word in rest if word.startswith("-")), None):
            options = [word for action in self._actions for word in action.option_strings]
            self.error(unknown_option(strange, options).message)
        if rest:
            self.error(f"{rest[0]!r} is an extra argument")
        return found


def parser_of(name: str, description: str, request: type[Request]) -> CommandParser:
    """The parser of a command."""
    parser = CommandParser(f"unslow {name}", description.strip())
    places: dict[str, Any] = {"": parser}
    for field in fields_of(request):
        option, text = field.option, field.option.text.replace("%", "%%")
        place = places[option.group] = places.get(option.group) or parser.add_argument_group(option.group)
        if option.apart:
            apart = f"apart {option.apart}"
            place = places[apart] = places.get(apart) or place.add_mutually_exclusive_group()
        if option.positional:
            number = "*" if field.several else None if field.default is NEEDED else "?"
            place.add_argument(field.name, nargs=number, metavar=option.metavar, help=text)
            continue
        if option.short:
            flag, value = option.short
            same = f"same as {field.flag} {value}"
            place.add_argument(flag, dest=field.name, action="store_const", const=value, help=same)
        further = option.flags.split()
        flags = [*(one for one in further if not one.startswith("--")), field.flag]
        flags += [one for one in further if one.startswith("--")]
        place.add_argument(*flags, dest=field.name, help=text, **_action(field))
        if option.off:
            place.add_argument(*option.off.split(), dest=field.name, action="store_false", help=argparse.SUPPRESS)
    return parser


def _action(field: Field) -> Mapping[str, Any]:
    option = field.option
    if field.kind.of is bool:
        return {"action": "store_true" if field.default is False else argparse.BooleanOptionalAction}
    choices = f"{{{','.join(field.kind.choices)}}}" if field.kind.choices else None
    found: dict[str, Any] = {"metavar": option.metavar or choices}
    if option.bare is not None:
        return {**found, "nargs": "?", "const": option.bare}
    if field.several:
        return {**found, "action": "append"}
    return {**found, "required": option.required or field.default is NEEDED}
