"""What a plan changes here, before anything is."""

from typing import NamedTuple

import msgspec

from unslow import __version__
from unslow.act.changes import Planned
from unslow.act.disk import Disk
from unslow.act.edits.words import NotUnderstoodError
from unslow.act.files import Edit
from unslow.app.apply.derived import derived, lines_left, service_edit
from unslow.app.apply.diffs import shown_edit
from unslow.app.apply.journaled import check_in_force, journals_at, process_of
from unslow.app.apply.plan_file import changes_of, chosen_option, read_plan
from unslow.app.apply.subject import running
from unslow.app.apply.taken_away import with_taken_away
from unslow.app.apply.ways import Told, Way, way_of
from unslow.app.commands import commands_for
from unslow.facts.commands import Commands
from unslow.facts.snapshot import Case, Subject
from unslow.facts.values import reported
from unslow.look.processes import read_process, words_of
from unslow.look.system import System
from unslow.think.change.report import ApplyReport, ModelShown
from unslow.think.plan.report import OptionShown, PlanReport

_NOT_RUNNING = "{runtime} does not run here, so there is nothing to edit"
_LEFT_OUT = "{knob} can't be had here ({why}), and the rest is another plan"
_OLLAMA = "Ollama"


class ApplyRequest(NamedTuple):
    """What the user asks for."""

    plan: str | PlanReport | None = None
    option: str | None = None
    target: str | None = None
    file: str | None = None
    name: str | None = None
    journal: str | None = None
    api_key: str = ""


class Prepared(NamedTuple):
    """The answer so far, and what shall be done; nothing where it is for a person to do."""

    report: ApplyReport
    planned: Planned | None


def prepared(system: System, request: ApplyRequest) -> Prepared:
    """What the plan's option changes of the server that runs now; UserError where it can't be told."""
    plan = read_plan(system, request.plan, request.target)
    option = chosen_option(plan, request.option)
    subject = running(system, plan, request.target, request.api_key)
    if subject is None:
        commands = commands_for(changes_of(plan, option, anew=True), Case(), system=system, name=plan.runtime)
        return _by_hand(plan, option, commands, _NOT_RUNNING.format(runtime=plan.runtime))
    subject = _with_own_words(system, subject)
    process = process_of(system, subject.runtime.pid.value_or(0))
    check_in_force(journals_at(request.journal, Disk()), process)
    changes = changes_of(plan, option)
    if not plan.of_running:
        changes = with_taken_away(changes, subject.runtime)
    commands = commands_for(changes, Case(runtime=subject.runtime, model=subject.model), system=system)
    if commands.left_out:
        change, why = commands.left_out[0]
        return _by_hand(
            plan, option, commands, f"{change.knob} can't be had here ({why}), and the rest is another plan"
        )
    of = _of_ollama if subject.runtime.name.value_or("") == _OLLAMA else _of_command
    made = of(system, request, plan, option, (subject, commands))
    return made._replace(planned=made.planned._replace(process=process)) if made.planned else made


def _with_own_words(system: System, subject: Subject) -> Subject:
    """The server with its very own command line, as it is now: keys that facts hide have to stay in it."""
    pid = subject.runtime.pid.value_or(0)
    words = words_of(read_process(system, pid).command()) if pid else []
    if not words or not subject.runtime.command.value_or([]):
        return subject
    runtime = msgspec.structs.replace(subject.runtime, command=reported(words, f"/proc/{pid}/cmdline"))
    return msgspec.structs.replace(subject, runtime=runtime)


def _of_command(
    system: System, request: ApplyRequest, plan: PlanReport, option: OptionShown, seen: tuple[Subject, Commands]
) -> Prepared:
    """A server that is told everything on its command line and in its environment."""
    subject, commands = seen
    old, pid = tuple(subject.runtime.command.value_or([])), subject.runtime.pid.value_or(0)
    if not old or not pid or not commands.argv:
        return _by_hand(plan, option, commands, "its command line is not to be seen from here")
    told = Told(pid, old, commands.argv, _changed_variables(commands, subject))
    if told.old == told.new and not told.environment:
        return _by_hand(plan, option, commands, "it was started with these very settings already")
    way = way_of(system, told, request.file)
    return _as_planned(plan, option, commands, way, old) if way.edits else _by_hand(plan, option, commands, way.because)


def _changed_variables(commands: Commands, subject: Subject) -> dict[str, str | None]:
    """Variables that are not as they shall be."""
    now = subject.runtime.environment.value_or({})
    return {name: value for name, value in commands.environment.items() if now.get(name) != value}


def _as_planned(plan: PlanReport, option: OptionShown, commands: Commands, way: Way, old: tuple[str, ...]) -> Prepared:
    report = _report(plan, option, commands)
    files = tuple(shown_edit(edit, old) for edit in way.edits)
    report = msgspec.structs.replace(report, how=way.how, outcome="would_change", files=files, then=way.then)
    return Prepared(report, Planned(_what(plan, option), way.edits, (), way.then))


def _of_ollama(
    system: System, request: ApplyRequest, plan: PlanReport, option: OptionShown, seen: tuple[Subject, Commands]
) -> Prepared:
    subject, commands = seen
    model = derived(commands, subject.runtime, subject.model.name.value_or(""), request.name)
    variables = _changed_variables(commands, subject)
    edits, then, because = _service(system, subject, variables)
    if model is None and not edits:
        return _by_hand(plan, option, commands, because or "it has no setting of a model or a service")
    models = (model,) if model else ()
    report = msgspec.structs.replace(
        _report(plan, option, commands),
        how="ollama",
        outcome="would_change",
        because=because,
        files=tuple(shown_edit(edit) for edit in edits),
        models=tuple(ModelShown(url=m.url, name=m.name, parent=m.parent, parameters=m.parameters) for m in models),
        lines=lines_left(commands, model=bool(model), service=bool(edits) or not variables),
        then=then,
    )
    return Prepared(report, Planned(_what(plan, option), edits, models, then))


def _service(
    system: System, subject: Subject, variables: dict[str, str | None]
) -> tuple[tuple[Edit, ...], tuple[str, ...], str]:
    """The drop-in of the server's own variables, the restart, or why there is none."""
    if not variables:
        return (), (), ""
    try:
        edit, then = service_edit(system, subject.runtime.pid.value_or(0), variables)
    except NotUnderstoodError as error:
        return (), (), f"variables of the server are left to you: {error}"
    return (edit,), then, ""


def _report(plan: PlanReport, option: OptionShown, commands: Commands) -> ApplyReport:
    left_out = tuple(
        f"{change.knob} {'not set' if change.value is None else f'= {change.value}'}: {why}"
        for change, why in commands.left_out
    )
    return ApplyReport(
        unslow_version=__version__, runtime=plan.runtime, model=plan.model, option=option.name, how="by_hand",
        outcome="printed", left_out=left_out,
    )  # fmt: skip


def _by_hand(plan: PlanReport, option: OptionShown, commands: Commands, because: str) -> Prepared:
    report = msgspec.structs.replace(_report(plan, option, commands), because=because, lines=commands.lines)
    return Prepared(report, None)


def _what(plan: PlanReport, option: OptionShown) -> str:
    return f"{plan.runtime}, {plan.model}: {option.name}"
