"""What a plan changes here, before anything is changed, and then the change itself."""

import contextlib
import re
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from urllib.parse import urlsplit

import msgspec

from unslow import __version__
from unslow.act.changes import Changes, Edit, PlannedChange, file_step
from unslow.act.command_words import NotUnderstoodError
from unslow.act.disk import Disk
from unslow.act.ollama import Ollama
from unslow.commands._command_lines import commands_for
from unslow.commands.apply import ApplyRequest
from unslow.commands.apply.changes import check_in_force, journals_at, process_of, shown_edit, undo_line
from unslow.commands.apply.ways import StartWords, lines_left, ollama_changes, service_edit, way_of
from unslow.commands.diagnose.runtimes import is_at, read_runtimes, subjects_at_url
from unslow.commands.diagnose.target import as_url, check_url
from unslow.commands.plan import RUNTIME, PlanRequest
from unslow.commands.plan.planner import make_plan
from unslow.commands.plan.subjects import HINT, read_saved
from unslow.facts.commands import Commands, Place, parse_line
from unslow.facts.errors import UserError
from unslow.facts.knob import Change, Knob
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Case, Subject
from unslow.facts.values import reported_fact
from unslow.look.gguf_server_flags import OFF, parse_settings
from unslow.look.processes import read_process, words_of
from unslow.look.system import System
from unslow.look.system.http import is_loopback
from unslow.think.case.view import CaseView
from unslow.think.change import ApplyReport, ModelShown
from unslow.think.plan.report import OptionShown, PlanReport

RESTART_TIMEOUT_S = 300.0  # A large model is loaded before some units say that they are up
_HINT = "give its process id or URL: --target"
_DECIDED: Mapping[str, Knob] = {
    "fit": Knob.FIT,
    "gpu_layers": Knob.GPU_LAYERS,
    "override": Knob.TENSOR_OVERRIDE,
    "n_cpu_moe": Knob.EXPERTS_ON_CPU,
    "cpu_moe": Knob.EXPERTS_ON_CPU,
    "split_mode": Knob.SPLIT_MODE,
    "tensor_split": Knob.TENSOR_SPLIT,
    "main_gpu": Knob.MAIN_GPU,
    "slots": Knob.PARALLEL,
    "kv_type_k": Knob.KV_CACHE_TYPE,
    "kv_type_v": Knob.KV_CACHE_TYPE,  # without a change of its own, the type of values goes with that of keys
    "kv_offload": Knob.KV_OFFLOAD,
    "ubatch": Knob.BATCH,
    "batch": Knob.LOGICAL_BATCH,
    "threads": Knob.THREADS,
}
"""Settings of llama-server that a plan decides on; where it does not name one, it means what llama.cpp does alone."""
_ONLY_OFF = {"flash_attention": (Knob.FLASH_ATTENTION, OFF), "device": (Knob.DEVICE, ("none",))}
"""Those that are in a plan's way only where they turn something off."""
_WHY = "the plan does not include it"


class PreparedChange(NamedTuple):
    """The answer so far, and what shall be done; nothing where it is for a person to do."""

    report: ApplyReport
    planned: PlannedChange | None


def read_plan(system: System, source: str | None, target: str | None = None) -> PlanReport:
    """The plan of a file or of `-`, or a fresh one for what runs; UserError where it is none."""
    return make_plan(system, PlanRequest(model=target)) if source is None else read_saved(source)


def prepare_change(system: System, plan: PlanReport, request: ApplyRequest) -> PreparedChange:
    """What the plan's option changes of the server that runs now; UserError where it can't be told."""
    option = chosen_option(plan, request.option)
    subject = running_server(system, plan, request.target, request.api_key)
    if subject is None:
        commands = commands_for(changes_of(plan, option, anew=True), CaseView(Case()), system=system, name=plan.runtime)
        because = f"{plan.runtime} is not running here, so there is nothing to edit"
        return _by_hand(_report(plan, option, commands), because)
    pid = subject.runtime.process.pid.value_or(0)
    words = words_of(read_process(system, pid).command()) if pid else []
    if words and subject.runtime.process.command.value_or([]):  # as it is now: keys that facts hide have to stay in it
        runtime = subject.runtime.with_facts(command=reported_fact(words, f"/proc/{pid}/cmdline"))
        subject = msgspec.structs.replace(subject, runtime=runtime)
    process = process_of(system, pid)
    check_in_force(journals_at(request.journal, Disk()), process)
    changes = changes_of(plan, option)
    if not plan.of_running:
        changes = with_taken_away(changes, subject.runtime)
    commands = commands_for(changes, CaseView(Case(runtime=subject.runtime, model=subject.model)), system=system)
    report = _report(plan, option, commands)
    if commands.left_out:
        change, why = commands.left_out[0]
        return _by_hand(report, f"{change.knob} cannot be set here ({why}), and the rest alone is a different plan")
    of = _of_ollama if subject.runtime.name.value_or("") == "Ollama" else _of_command
    made = of(system, request, report, subject, commands)
    return made._replace(planned=made.planned._replace(process=process)) if made.planned else made


def chosen_option(plan: PlanReport, wanted: str | None) -> OptionShown:
    """The recommended option, the one of a number (from 0, as in the JSON), or the one with a word in its name."""
    if not plan.options:
        raise UserError(f"the plan has nothing to apply: {plan.reason or plan.verdict}", plan.hint or HINT)
    if wanted is None:
        number = plan.recommended
        if plan.verdict == "already_best" and plan.of_running:
            hint = "to apply another option: --option N"
            raise UserError("the plan says that the current settings are the best", hint)
        if number is None or not 0 <= number < len(plan.options):
            why = f"the plan recommends nothing: {plan.reason or plan.verdict}"
            raise UserError(why, "choose an option: --option N")
        return plan.options[number]
    names = ", ".join(f"{number}: {option.name}" for number, option in enumerate(plan.options))
    if wanted.isdecimal() and len(wanted) <= len(str(len(plan.options))):
        if int(wanted) < len(plan.options):
            return plan.options[int(wanted)]
        raise UserError(f"the plan has no option {wanted}", names)
    fitting = [option for option in plan.options if wanted.casefold() in option.name.casefold()]
    if len(fitting) != 1:
        raise UserError(f"{len(fitting)} options of the plan are named {wanted!r}", names)
    return fitting[0]


def running_server(system: System, plan: PlanReport, target: str | None, api_key: str) -> Subject | None:
    """The server as it runs now; None where no such runtime does, UserError where it may be several."""
    url = as_url(target) if target else None
    subjects, _ = read_runtimes(system, api_key)
    if url:
        base = check_url(url)
        subjects = tuple(s for s in subjects if is_at(s, base)) or subjects_at_url(system, base, api_key)
    elif target:
        if not target.isdecimal():
            raise UserError(f"{target!r} is not a process id or URL", _HINT)
        subjects = tuple(s for s in subjects if s.runtime.process.pid.value_or(None) == int(target))
        if not subjects:
            raise UserError(f"process {target} is not a visible runtime", "`unslow` lists the running ones")
    elif plan.url:  # all that were seen, where none is at the address that the plan was made for any more
        there = tuple(s for s in subjects if is_at(s, plan.url))
        if not there and is_loopback(urlsplit(plan.url).hostname or ""):
            with contextlib.suppress(UserError):  # it may have been started again at another one
                there = subjects_at_url(system, plan.url, api_key)
        subjects = there or subjects
    found = [s for s in subjects if _plain(s.runtime.name.value_or("")) == _plain(plan.runtime)]
    if target and not found:
        raise UserError(f"the plan is for {plan.runtime}, which is not what runs there", "make a plan for it")
    same = [s for s in found if _is_model(s, plan.model)]
    if found and not same:
        runs = ", ".join(s.model.name.value_or(s.model.path.value_or("a model")) for s in found)
        raise UserError(f"the plan is for {plan.model}, but {plan.runtime} runs {runs}", "plan for the running model")
    if len(same) > 1:
        raise UserError(f"{len(same)} {plan.runtime} servers run that model, and the plan does not say which", _HINT)
    return same[0] if same else None


def _is_model(subject: Subject, model: str) -> bool:
    """Whether a server runs the model of a plan, by its name or the name of its file, however it is written."""
    names = (subject.model.name.value_or(""), subject.model.path.value_or("").rpartition("/")[2])
    wanted = _letters(model)
    return any(name and (_letters(name) in wanted or wanted in _letters(name)) for name in names)


def _letters(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower().removesuffix(".gguf"))


def _plain(name: str) -> str:
    with contextlib.suppress(ValueError):  # one that is not planned for
        name = RUNTIME.parse(name)
    return re.sub(r"[^a-z]", "", name.lower())


def changes_of(plan: PlanReport, option: OptionShown, *, anew: bool = False) -> list[Change]:
    """What a server has to be told; UserError where that is nothing, or something that this version does not know.

    A plan that was made while nothing ran differs from the defaults, not from what runs: then every setting counts, as
    it does for a server that is started anew.
    """
    shown = option.changes if plan.of_running and not anew else option.settings or option.changes
    known = {knob.value for knob in Knob}
    if strange := [change.knob for change in shown if change.knob not in known]:
        raise UserError(f"the plan changes {', '.join(strange)}, which this version does not know", HINT)
    if not shown:
        raise UserError("that option changes nothing: it is the running configuration", "choose another: --option N")
    return [Change(Knob(change.knob), change.value, change.why) for change in shown]


def with_taken_away(changes: Sequence[Change], runtime: Runtime) -> list[Change]:
    """The changes, and what else the server was told that they must not meet."""
    if not runtime.name.value_or("").endswith("llama.cpp"):
        return list(changes)
    told = parse_settings(runtime.process.command.value_or([]), runtime.process.environment.value_or({}))
    knobs = [knob for name, knob in _DECIDED.items() if name in told]
    knobs += [knob for name, (knob, off) in _ONLY_OFF.items() if name in told and told[name].value in off]
    named = {change.knob for change in changes}
    return [*changes, *(Change(knob, None, _WHY) for knob in dict.fromkeys(knobs) if knob not in named)]


def _of_command(
    system: System, request: ApplyRequest, report: ApplyReport, subject: Subject, commands: Commands
) -> PreparedChange:
    """A server that is told everything on its command line and in its environment."""
    old, pid = tuple(subject.runtime.process.command.value_or([])), subject.runtime.process.pid.value_or(0)
    if not old or not pid or not commands.argv:
        return _by_hand(report, "its command line is not visible from here")
    told = StartWords(pid, old, commands.argv, _changed_variables(commands, subject))
    if told.old == told.new and not told.environment:
        return _by_hand(report, "it already runs with these settings")
    way = way_of(system, told, request.file)
    if not way.edits:
        return _by_hand(report, way.because)
    files = tuple(shown_edit(edit, old) for edit in way.edits)
    report = msgspec.structs.replace(report, how=way.how, outcome="would_change", files=files, lines=(), then=way.then)
    return PreparedChange(report, PlannedChange(_what(report), way.edits, (), way.then))


def _of_ollama(
    system: System, request: ApplyRequest, report: ApplyReport, subject: Subject, commands: Commands
) -> PreparedChange:
    model = ollama_changes(commands, subject.runtime, subject.model.name.value_or(""), request.name)
    variables = _changed_variables(commands, subject)
    edits, then, because = tuple[Edit, ...](), tuple[str, ...](), ""
    if variables:  # a drop-in of the server's own, and the restart
        try:
            edit, then = service_edit(system, subject.runtime.process.pid.value_or(0), variables)
            edits = (edit,)
        except NotUnderstoodError as error:
            because = f"set the server's variables yourself: {error}"
    if model is None and not edits:
        return _by_hand(report, because or "it has no setting in a model or a service")
    models = (model,) if model else ()
    report = msgspec.structs.replace(
        report,
        how="ollama",
        outcome="would_change",
        because=because,
        files=tuple(shown_edit(edit) for edit in edits),
        models=tuple(ModelShown(url=m.url, name=m.name, parent=m.parent, parameters=m.parameters) for m in models),
        lines=lines_left(commands, model=bool(model), service=bool(edits) or not variables),
        then=then,
    )
    return PreparedChange(report, PlannedChange(_what(report), edits, models, then))


def _changed_variables(commands: Commands, subject: Subject) -> dict[str, str | None]:
    now = subject.runtime.process.environment.value_or({})
    return {name: value for name, value in commands.environment.items() if now.get(name) != value}


def _report(plan: PlanReport, option: OptionShown, commands: Commands) -> ApplyReport:
    """As it is where a person has to type the lines."""
    left_out = tuple(
        f"{change.knob} {'not set' if change.value is None else f'= {change.value}'}: {why}"
        for change, why in commands.left_out
    )
    return ApplyReport(
        unslow_version=__version__, runtime=plan.runtime, model=plan.model, option=option.name, how="by_hand",
        outcome="printed", left_out=left_out, lines=commands.lines,
    )  # fmt: skip


def _by_hand(report: ApplyReport, because: str) -> PreparedChange:
    return PreparedChange(msgspec.structs.replace(report, because=because), None)


def _what(report: ApplyReport) -> str:
    return f"{report.runtime}, {report.model}: {report.option}"


def check_allowed(ready: PreparedChange) -> None:
    """UserError where a file may not be changed: said before somebody is asked, not after."""
    for edit in ready.planned.edits if ready.planned else ():
        file_step(edit)


def perform_change(system: System, ready: PreparedChange, journal: str | None = None, api_key: str = "") -> ApplyReport:
    """Make the change, after mending what was stopped in the middle; UserError where nothing could be changed."""
    if ready.planned is None:
        return ready.report
    disk = Disk()
    journals = journals_at(journal, disk)
    changes = Changes(journals, disk, Ollama(system, disk, api_key))
    with journals.lock():
        mended = tuple(changes.recover())
        done = changes.apply(ready.planned, system.now(), __version__)
    return msgspec.structs.replace(
        ready.report, outcome="changed", change=done.id, journal=journals.place(done.id), mended=mended,
        undo=undo_line(journals, done.id),
    )  # fmt: skip


def restart_server(then: Sequence[str]) -> None:
    """Run what makes the server see the change; UserError where it fails, and the change stays."""
    hint = "the change is applied; `unslow undo` reverts it"
    for line in then:
        if parse_line(line).place is not Place.SHELL:
            raise UserError(f"cannot be restarted from here: {line}", hint)
        words = shlex.split(line)
        try:
            done = subprocess.run(words, capture_output=True, text=True, timeout=RESTART_TIMEOUT_S, check=False)
            failure = (done.stderr.strip()[-300:] or f"status {done.returncode}") if done.returncode else ""
        except (OSError, subprocess.TimeoutExpired) as error:
            failure = str(error)
        if failure:
            raise UserError(f"`{line}` failed: {failure}", hint)
