"""Every option of a plan as lines to type, in the words of the runtime and the version at hand."""

import shlex
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from unslow.app.commands import commands_for
from unslow.facts.commands import Commands
from unslow.facts.errors import UserError
from unslow.facts.knob import Change, Knob
from unslow.facts.model import Model
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Case
from unslow.facts.values import Known
from unslow.look.paths import is_absolute
from unslow.look.system import System
from unslow.think.plan.report import ChangeShown, OptionShown, PlanReport

_PLAIN = (Knob.CONTEXT_LENGTH, Knob.PARALLEL)
"""What anybody tells a runtime who leaves the rest to it."""


class Speller(NamedTuple):
    """The runtime and the model that a plan is for; `fresh` where nothing runs yet and a start must be told all."""

    runtime: Runtime
    model: Model
    fresh: bool
    name: str = ""
    """The runtime's, where nothing runs."""
    system: System | None = None
    """The machine that it runs on; None where that is elsewhere."""

    def commands(self, option: OptionShown) -> Commands | None:
        """The option's lines; None where it needs a file that nobody has."""
        whole = (self.fresh or not self.has_line) and option.settings
        wanted = option.settings if whole else option.changes
        if self.fresh and self.name == "vllm":  # nothing runs: what was, are vLLM's own defaults
            wanted = tuple(c for c in wanted if c.value != c.was or c.knob == Knob.CONTEXT_LENGTH)
        if any(_is_missing(change) for change in wanted) and self._has_file:
            return None
        changes = [Change(Knob(c.knob), c.value, c.why) for c in wanted if not _is_missing(c)]
        path = self.model.path.value_or("")
        if self.fresh and self.name == "ollama" and path.endswith(".gguf"):
            changes = [Knob.MODEL_FILE.to(path), *(c for c in changes if c.knob is not Knob.MODEL_FILE)]
        try:
            case = Case(runtime=self.runtime, model=self.model)
            return commands_for(changes, case, system=self.system, name=self.name, anew=bool(whole))
        except UserError:  # a runtime that has no words at all
            return None

    @property
    def has_line(self) -> bool:
        """False of a llama-server of which nobody saw how it was started: its line must be written anew."""
        own = self.runtime.name.value_or("").endswith("llama.cpp")
        return not own or isinstance(self.runtime.command, Known)

    @property
    def _has_file(self) -> bool:
        return bool(self.model.path.value_or(""))


def _is_missing(change: ChangeShown) -> bool:
    """Whether it names a quant in place of a file that is here."""
    return change.knob == Knob.MODEL_FILE and not is_absolute(str(change.value)) and "." not in str(change.value)


def with_commands(report: PlanReport, speller: Speller) -> PlanReport:
    """The report with lines for every option; what the version at hand lacks is said beside its risk."""
    options = tuple(_with_lines(option, speller) for option in report.options)
    current = report.current
    if current and not current.commands:
        current = msgspec.structs.replace(current, commands=tuple(_as_it_is(current, speller)))
    return msgspec.structs.replace(report, options=options, current=current)


def _as_it_is(current: OptionShown, speller: Speller) -> Sequence[str]:
    """The line that started what runs; where nothing does, the one that leaves all but the context to the runtime."""
    command = speller.runtime.command.value_or([])
    if command:
        return (shlex.join(command),)  # keys are hidden in facts
    if not speller.fresh:
        return ()
    plain = tuple(change for change in current.settings if change.knob in _PLAIN)
    commands = speller.commands(msgspec.structs.replace(current, settings=plain, changes=plain))
    return commands.lines if commands else ()


def _with_lines(option: OptionShown, speller: Speller) -> OptionShown:
    commands = speller.commands(option)
    if commands is None or not (option.changes or speller.fresh):
        return option
    left = [_left(change, why) for change, why in commands.left_out if change.value is not None]
    risk = "; ".join(filter(None, (option.risk, *left)))
    changes = tuple(_as_written(change, commands) for change in option.changes)
    return msgspec.structs.replace(option, changes=changes, commands=commands.lines, risk=risk)


def _as_written(change: ChangeShown, commands: Commands) -> ChangeShown:
    """A number of layers that is not set where a build then takes none: its line names all of them."""
    if change.knob != Knob.GPU_LAYERS or change.value is not None or "-ngl" not in commands.argv:
        return change
    return msgspec.structs.replace(change, value=-1, why="without a number this build takes none")


def _left(change: Change, why: str) -> str:
    return f"{change.knob.value.replace('_', ' ')} {change.value} is not in these lines: {why}"


def left_out(report: PlanReport, speller: Speller) -> Sequence[Knob]:
    """Settings of the recommended option that the version at hand has no words for."""
    if report.recommended is None:
        return ()
    commands = speller.commands(report.options[report.recommended])
    return [change.knob for change, _ in commands.left_out if change.value is not None] if commands else ()
