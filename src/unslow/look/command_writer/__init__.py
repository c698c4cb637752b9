"""Writes the command line of any program that is told its settings by flags: one change or many, the same words.

A runtime says by a table what each knob does (`Words`, `Advice`, or why not), and by a `Program` how its command line
is read and started; everything that a user copies is written here.
"""

import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeGuard, TypeVar

import msgspec

from unslow.facts.commands import Commands, by_hand
from unslow.facts.knob import Change, Knob, Setting
from unslow.facts.model import Model
from unslow.facts.runtime import Runtime
from unslow.facts.values import Known
from unslow.look.command_line import Flags
from unslow.look.command_writer.starters import NO_UNIT, Unit, starting_lines

_OF_HUB = re.compile(r"[\w.-]{1,96}/[\w.-]{1,96}")


class AtHand(NamedTuple):
    """Everything that is not in the runtime's own facts; empty where not looked at."""

    model: Model = Model()
    unit: Unit = NO_UNIT
    options: Mapping[str, str] = {}  # The flags of the program at hand by its own help, each with what is written there
    listed: frozenset[str] = frozenset()
    """Models that were seen: by the names that the runtime lists, or by their paths."""
    program: str = ""  # The program to start where nothing runs yet, as the user named it
    anew: bool = False
    """Whether the changes are all that there is to say, so that a command is written anew where none is known."""

    @property
    def checkpoint(self) -> str:
        """The model for an engine that takes folders and names of a hub; empty of a name that only we have for it."""
        name = self.model.name.value_or("")
        return self.model.path.value_or("") or (name if _OF_HUB.fullmatch(name) else "")


NOTHING_AT_HAND = AtHand()
PLACE = "N"  # Stands for a number that is for the reader to choose
NO_NUMBER = "the number is unknown"
DRAFT_PLACE = "DRAFT_MODEL"  # Stands for a model that shall draft, which is for the reader to choose


class Words(NamedTuple):
    """What one change does: settings that it takes out, words that it puts in, variables that it sets or unsets."""

    names: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    environment: Mapping[str, str | None] = {}
    missing: str = ""
    """What the reader has to fill in first: the words are shown by themselves, and are in no whole command."""
    edit: Callable[[list[str]], list[str]] | None = None
    """Any other change of the command line, such as another model where that has no flag."""


class Advice(NamedTuple):
    """What a person does where no setting makes the change, and why none does."""

    lines: Sequence[str]
    why: str = ""


Answer = Words | Advice | str  # What a change comes to, or the reason why this program cannot have it


class ChangeRequest(NamedTuple):
    """All changes by their knob, what they are for, and what is at hand there."""

    changes: Mapping[Knob, Setting]
    runtime: Runtime
    at_hand: AtHand


Turn = Callable[[Setting, ChangeRequest], Answer]


def is_integer(value: Setting) -> TypeGuard[int]:
    """Whether a value is a whole number; a switch is not."""
    return isinstance(value, int) and not isinstance(value, bool)


def missing_draft(value: Setting) -> str:
    """What the reader has to fill in, where the draft model is for the reader to choose."""
    return "the draft model is unknown" if value == DRAFT_PLACE else ""


def advice(*lines: str) -> Callable[[Setting, ChangeRequest], Advice]:
    """What is done by hand, whatever the value."""
    return lambda _value, _wanted: Advice(lines)


def restart(without_secrets: Callable[[Sequence[str]], list[str]]) -> Turn:
    """Once memory is free, a restart takes it."""

    def turn(_value: Setting, wanted: ChangeRequest) -> Answer:
        command, unit = without_secrets(wanted.runtime.process.command.value_or([])), wanted.at_hand.unit
        service = f"{'systemctl --user' if unit.of_user else 'sudo systemctl'} restart {unit.service}"
        return Advice([service if unit.name else shlex.join(command)] if command else [])

    return turn


def quant_by_file(flag: str) -> Turn:
    """A quant is another file, which this flag names."""

    def turn(value: Setting, wanted: ChangeRequest) -> Answer:
        if Knob.MODEL_FILE in wanted.changes:
            return Words()
        kind = value or "a smaller quant"
        line = by_hand(f"give `{flag}` the file of this model as {kind}")
        return Advice([line], f"no file of this model as {kind} is known")

    return turn


class _Words(Protocol):
    @property
    def missing(self) -> str: ...


_T = TypeVar("_T", bound=_Words)


def answer_changes(
    program: str,
    turns: Mapping[Knob, Callable[[Setting, ChangeRequest], _T | Advice | str]],
    changes: Iterable[Change],
    runtime: Runtime,
    at_hand: AtHand,
) -> tuple[list[_T], tuple[str, ...], tuple[tuple[Change, str], ...]]:
    """What the changes put in, the lines of all advice, and each change that is left out with the reason."""
    asked = {change.knob: change for change in changes}  # the last word on a knob counts
    wanted = ChangeRequest({knob: change.value for knob, change in asked.items()}, runtime, at_hand)
    added: list[_T] = []
    lines: list[str] = []
    left: list[tuple[Change, str]] = []
    for change in asked.values():
        turn = turns.get(change.knob)
        answer = turn(change.value, wanted) if turn else ""
        if isinstance(answer, Advice):
            lines += answer.lines
            why = answer.why or f"{program} has no setting for it"
        elif isinstance(answer, str):
            why = answer or f"{program} has no setting for it"
        else:
            added.append(answer)
            why = answer.missing
        if why:
            left.append((change, why))
    return added, tuple(lines), tuple(left)


def _variables(flags: Flags, names: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    return [variable for name in names for variable in flags[name].variables if variable in environment]


class Program(NamedTuple):
    """How a program is told its settings."""

    name: str
    turns: Mapping[Knob, Turn]  # What each knob does
    flags: Flags
    bare: Callable[[AtHand], list[str]]  # What starts the model at hand, where nothing runs yet
    no_model: str  # What to say where the model is unknown
    model_flags: tuple[str, ...] = ("model",)
    has_model: Callable[[Sequence[str]], bool] = lambda _command: False  # Whether it is there without a flag
    removal: Callable[[Flags, Sequence[str], Sequence[str]], str] = lambda flags, names, command: (
        "" if command else f"remove {flags[names[0]].spellings[0]}"
    )
    """How to say that settings shall go which the command line does not show; empty where there is nothing to do."""
    variables: Callable[[Flags, Sequence[str], Mapping[str, str]], list[str]] = _variables
    """Variables of an environment that give these settings."""
    ordered: bool = False  # Whether words stand on the command line in the order of `turns`, not in that of the changes

    def commands_for(self, changes: Sequence[Change], runtime: Runtime, at_hand: AtHand = NOTHING_AT_HAND) -> Commands:
        """One command line with all changes, and the way to start it by whoever starts it now.

        Of a server whose command line is unknown, only the words of the changes: what else it was told must stay.
        """
        if self.ordered:
            order = list(self.turns)
            changes = sorted(changes, key=lambda c: order.index(c.knob) if c.knob in order else len(order))
        words, advised, left = answer_changes(self.name, self.turns, changes, runtime, at_hand)
        short = tuple(dict.fromkeys(filter(None, (_short(self, each, runtime) for each in words))))
        turned = [each for each in words if not each.missing]
        if not turned or not (runtime.process.command.value_or([]) or at_hand.anew):
            return Commands(lines=(*short, *advised), left_out=left, environment=_environment(self, turned, runtime))
        whole = _changed_command(self, turned, runtime, at_hand)
        if not whole.lines:  # all is there already, or stands elsewhere, such as in a file that the command line names
            elsewhere = tuple(_short(self, each, runtime) for each in words if each.missing or not each.words)
            return msgspec.structs.replace(whole, lines=(*filter(None, elsewhere), *advised), left_out=left)
        return msgspec.structs.replace(whole, short=short, lines=(*whole.lines, *advised), left_out=left)


def _short(program: Program, words: Words, runtime: Runtime) -> str:
    command, there = runtime.process.command.value_or([]), runtime.process.environment.value_or({})
    set_to = [f"{name}={value}" for name, value in words.environment.items() if value is not None]
    if words.words or set_to:
        return " ".join([*set_to, *([shlex.join(words.words)] if words.words else [])])
    flags = program.flags.find_flags(command)
    given = [shlex.join(command[flag.start : flag.end]) for flag in flags if flag.name in words.names]
    unset = [name for name in words.environment if name in there or not isinstance(runtime.process.environment, Known)]
    variables = [*program.variables(program.flags, words.names, there), *unset]
    if given:
        return f"remove {' '.join((*given, *variables))}"
    if variables:
        return f"unset {' '.join(variables)}"
    return program.removal(program.flags, words.names, command) if words.names else ""


def _changed_command(program: Program, turned: Sequence[Words], runtime: Runtime, at_hand: AtHand) -> Commands:
    command, there = runtime.process.command.value_or([]), runtime.process.environment.value_or({})
    argv = list(command) or program.bare(at_hand)
    names = {name for words in turned for name in words.names}
    argv = program.flags.without(argv, names)
    for words in turned:
        argv = words.edit(argv) if words.edit else argv
    put_in = dict.fromkeys(words.words for words in turned)  # two knobs of one switch say it once
    argv += [word for words in put_in for word in words]
    environment = _environment(program, turned, runtime)
    if command and argv == list(command) and all(there.get(name) == value for name, value in environment.items()):
        return Commands(argv=tuple(argv), environment=environment)
    lines = starting_lines(
        program.flags.without_secrets(argv),
        environment,
        runtime.process.container.value_or(""),
        at_hand.unit,
        runtime.process.front.value_or(""),
    )
    has_flag = any(flag.name in program.model_flags for flag in program.flags.find_flags(argv))
    if command or has_flag or program.has_model(argv):
        return Commands(lines=lines, argv=tuple(argv), environment=environment)
    return Commands(lines=(by_hand(program.no_model), *lines), environment=environment)


def _environment(program: Program, turned: Sequence[Words], runtime: Runtime) -> dict[str, str | None]:
    """Variables that are needed, and None for those that would set the same again: only such as are there."""
    there = runtime.process.environment.value_or({})
    names = list(dict.fromkeys(name for words in turned for name in words.names))
    away: dict[str, str | None] = dict.fromkeys(program.variables(program.flags, names, there))
    needed = {name: value for words in turned for name, value in words.environment.items()}
    return away | {name: value for name, value in needed.items() if value is not None or name in there}
