"""Writes the command line of any program that is told its settings by flags: one change or many, the same words.

A runtime says by a table what each knob does (`Words`, `Advice`, or why not), and by a `Program` how its command line
is read and started; everything that a user copies is written here.
"""

import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from unslow.facts.commands import Commands
from unslow.facts.knob import Change, Knob, Setting
from unslow.facts.placed import Place, labelled
from unslow.facts.runtime import Runtime
from unslow.facts.values import Known
from unslow.look.at_hand import AtHand
from unslow.look.command_line import taken_out
from unslow.look.supervised import started

PLACE = "N"
"""Stands for a number that is for the reader to choose."""
NO_NUMBER = "it needs a number, which is not known"
DRAFT_PLACE = "DRAFT_MODEL"
"""Stands for a model that shall draft, which is for the reader to choose."""
NO_DRAFT = "which model shall draft is not known"


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


Answer = Words | Advice | str
"""What a change comes to, or the reason why this program can't have it."""


class Wanted(NamedTuple):
    """All changes by their knob, what they are for, and what is at hand there."""

    changes: Mapping[Knob, Setting]
    runtime: Runtime
    at_hand: AtHand


Turn = Callable[[Setting, Wanted], Answer]


class Program(NamedTuple):
    """How a program is told its settings."""

    name: str
    turns: Mapping[Knob, Turn]
    """What each knob does."""
    flags: Callable[[Sequence[str]], Sequence[Any]]
    """The known flags of a command line, each with `name`, `start` and `end`."""
    without_secrets: Callable[[Sequence[str]], list[str]]
    bare: Callable[[AtHand], list[str]]
    """What starts the model at hand, where nothing runs yet."""
    no_model: str
    """What to say where nobody knows which model that is."""
    has_model: Callable[[Sequence[str]], bool]
    removal: Callable[[Sequence[str], Sequence[str]], str]
    """How to say that settings shall go which the command line does not show; empty where there is nothing to do."""
    variables: Callable[[Sequence[str], Mapping[str, str]], list[str]] = lambda _names, _environment: []
    """Variables of an environment that give these settings."""
    ordered: bool = False
    """Whether words stand on the command line in the order of `turns`, not in that of the changes."""


def write_commands(program: Program, changes: Sequence[Change], runtime: Runtime, at_hand: AtHand) -> Commands:
    """One command line with all changes, and the way to start it by whoever starts it now.

    Of a server whose command line nobody saw, only the words of the changes: what else it was told must not get lost.
    """
    answers = _answers(program, changes, Wanted({c.knob: c.value for c in changes}, runtime, at_hand))
    words = [answer for _, answer in answers if isinstance(answer, Words)]
    short = tuple(dict.fromkeys(filter(None, (_short(program, each, runtime) for each in words))))
    advice = tuple(line for _, answer in answers if isinstance(answer, Advice) for line in answer.lines)
    left = tuple((change, why) for change, answer in answers if (why := _why_not(program, answer)))
    turned = [each for each in words if not each.missing]
    if not turned or not (runtime.command.value_or([]) or at_hand.anew):
        return Commands(lines=(*short, *advice), left_out=left, environment=_environment(program, turned, runtime))
    whole = _whole(program, turned, runtime, at_hand)
    if not whole.lines:  # all is there already, or stands elsewhere, such as in a file that the command line names
        elsewhere = tuple(_short(program, each, runtime) for each in words if each.missing or not each.words)
        return msgspec.structs.replace(whole, lines=(*filter(None, elsewhere), *advice), left_out=left)
    return msgspec.structs.replace(whole, short=short, lines=(*whole.lines, *advice), left_out=left)


def _answers(program: Program, changes: Sequence[Change], wanted: Wanted) -> list[tuple[Change, Answer]]:
    by_knob = {change.knob: change for change in changes}  # the last word on a knob counts
    order = [*(knob for knob in program.turns if program.ordered), *by_knob]
    asked = [by_knob[knob] for knob in dict.fromkeys(order) if knob in by_knob]
    return [(change, _answer(program, change, wanted)) for change in asked]


def _answer(program: Program, change: Change, wanted: Wanted) -> Answer:
    turn = program.turns.get(change.knob)
    return turn(change.value, wanted) if turn else ""


def _why_not(program: Program, answer: Answer) -> str:
    """Why a change is not in the command line; empty where it is."""
    if isinstance(answer, Words):
        return answer.missing
    return (answer.why if isinstance(answer, Advice) else answer) or f"{program.name} has no setting for it"


def _short(program: Program, words: Words, runtime: Runtime) -> str:
    """What a change puts in; where it puts nothing in, what stands in its way."""
    command, there = runtime.command.value_or([]), runtime.environment.value_or({})
    set_to = [f"{name}={value}" for name, value in words.environment.items() if value is not None]
    if words.words or set_to:
        return " ".join([*set_to, *([shlex.join(words.words)] if words.words else [])])
    given = [shlex.join(command[f.start : f.end]) for f in program.flags(command) if f.name in words.names]
    unset = [name for name in words.environment if name in there or not isinstance(runtime.environment, Known)]
    variables = [*program.variables(words.names, there), *unset]
    if given:
        return f"remove {' '.join((*given, *variables))}"
    if variables:
        return f"unset {' '.join(variables)}"
    return program.removal(words.names, command) if words.names else ""


def _whole(program: Program, turned: Sequence[Words], runtime: Runtime, at_hand: AtHand) -> Commands:
    """The command line that there is, changed; no line where nothing in it changes."""
    command, there = runtime.command.value_or([]), runtime.environment.value_or({})
    argv = _changed(program, list(command) or program.bare(at_hand), turned)
    environment = _environment(program, turned, runtime)
    if command and argv == list(command) and all(there.get(name) == value for name, value in environment.items()):
        return Commands(argv=tuple(argv), environment=environment)
    lines = started(
        program.without_secrets(argv),
        environment,
        runtime.container.value_or(""),
        at_hand.unit,
        runtime.front.value_or(""),
    )
    if command or program.has_model(argv):
        return Commands(lines=lines, argv=tuple(argv), environment=environment)
    return Commands(lines=(labelled(Place.HAND, program.no_model), *lines), environment=environment)


def _changed(program: Program, command: list[str], turned: Sequence[Words]) -> list[str]:
    names = {name for words in turned for name in words.names}
    argv = taken_out(command, ((flag.start, flag.end) for flag in program.flags(command) if flag.name in names))
    for words in turned:
        argv = words.edit(argv) if words.edit else argv
    put_in = dict.fromkeys(words.words for words in turned)  # two knobs of one switch say it once
    return [*argv, *(word for words in put_in for word in words)]


def _environment(program: Program, turned: Sequence[Words], runtime: Runtime) -> dict[str, str | None]:
    """Variables that are needed, and None for those that would set the same again: only such as are there."""
    there = runtime.environment.value_or({})
    names = list(dict.fromkeys(name for words in turned for name in words.names))
    away: dict[str, str | None] = dict.fromkeys(program.variables(names, there))
    needed = {name: value for words in turned for name, value in words.environment.items()}
    return away | {name: value for name, value in needed.items() if value is not None or name in there}
