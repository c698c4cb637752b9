"""Many changes at once as one whole command line of llama-server, where it belongs."""

from collections.abc import Mapping, Sequence

from unslow.facts.knob import Change, Knob
from unslow.facts.placed import Place, labelled, line_of
from unslow.facts.runtime import Runtime
from unslow.facts.spelled import Spelled
from unslow.look.at_hand import NOTHING, AtHand
from unslow.look.command_line import taken_out
from unslow.look.llama_server.arguments import spelled_flags, without_secrets
from unslow.look.llama_server.options import Options
from unslow.look.runtimes.llama_cpp.knobs import spell, variables_of
from unslow.look.runtimes.llama_cpp.words import ORDER, Wanted, Words, words_of
from unslow.look.supervised import started

PROGRAM = "llama-server"
_NO_MODEL = "put `-m FILE` into the line: which file the model is in is not known"
_NO_SETTING = "llama.cpp has no setting for it"


def spell_all(changes: Sequence[Change], runtime: Runtime, at_hand: AtHand = NOTHING) -> Spelled:
    """One command line with all changes, and the way to start it by whoever starts it now."""
    wanted = _wanted(changes, runtime, at_hand)
    by_knob = {change.knob: change for change in changes}  # the last word on a knob counts
    asked = sorted(by_knob.values(), key=lambda change: ORDER.get(change.knob, len(ORDER)))
    answers = [(change, words_of(change, wanted)) for change in asked]
    turned = [answer for _, answer in answers if isinstance(answer, Words)]
    notes, left = _beside([change for change, answer in answers if answer is None], runtime)
    left += [(change, answer) for change, answer in answers if isinstance(answer, str)]
    if not turned:
        return Spelled(tuple(notes), tuple(left))
    command = _command(runtime, at_hand)
    argv = _changed(command, turned)
    environment = _environment(turned, runtime)
    lines = started(
        without_secrets(argv), environment, runtime.container.value_or(""), at_hand.unit, runtime.front.value_or("")
    )
    whole = any(flag.name in ("model", "repository", "model_url", "models_folder") for flag in spelled_flags(argv))
    missing = () if whole or command is not _BARE else (labelled(Place.HAND, _NO_MODEL),)
    return Spelled((*missing, *lines, *notes), tuple(left), () if missing else tuple(argv), environment)


_BARE = (PROGRAM,)


def _wanted(changes: Sequence[Change], runtime: Runtime, at_hand: AtHand) -> Wanted:
    given = {flag.name: flag.value for flag in spelled_flags(runtime.command.value_or([]))}
    return Wanted({c.knob: c.value for c in changes}, given, Options(runtime, at_hand.options), runtime)


def _command(runtime: Runtime, at_hand: AtHand) -> Sequence[str]:
    """What runs now; where nothing does, the model's file in the program that the user named."""
    if command := runtime.command.value_or([]):
        return command
    path = at_hand.model.path.value_or("")
    if not path and not at_hand.program:
        return _BARE
    return (at_hand.program or PROGRAM, *(("-m", path) if path else ()))


def _changed(command: Sequence[str], turned: Sequence[Words]) -> list[str]:
    names = {name for words in turned for name in words.names}
    kept = taken_out(command, ((flag.start, flag.end) for flag in spelled_flags(command) if flag.name in names))
    return [*kept, *(word for words in turned for word in words.words)]


def _environment(turned: Sequence[Words], runtime: Runtime) -> dict[str, str | None]:
    """Variables that would set the same again go; those that are not there need no taking away."""
    there: Mapping[str, str] = runtime.environment.value_or({})
    names = [name for words in turned for name in words.names]
    away: dict[str, str | None] = dict.fromkeys(variables_of(names, there))
    needed = {name: value for words in turned for name, value in words.environment.items()}
    return away | {name: value for name, value in needed.items() if value is not None or name in there}


def _beside(changes: Sequence[Change], runtime: Runtime) -> tuple[list[str], list[tuple[Change, str]]]:
    """What is no flag: lines for a person where there are some, else the change with the reason."""
    notes: list[str] = []
    left: list[tuple[Change, str]] = []
    for change in changes:
        lines = [line for line in spell(change, runtime) if line_of(line).place in (Place.HAND, Place.REQUEST)]
        notes += lines
        if not lines or change.knob is Knob.OTHER_PROCESS:
            left.append((change, _NO_SETTING))
    return notes, left
