"""`unslow plan`: the runtime's own planner, and every option of its plan as lines to type."""

import shlex
from collections.abc import Callable, Sequence
from typing import NamedTuple

import msgspec

from unslow.commands._command_lines import commands_for
from unslow.commands._output import Progress, Silent
from unslow.commands.models.find import CATALOGUE, FoundModel
from unslow.commands.models.stored import exists, expand_path
from unslow.commands.plan import PlanRequest
from unslow.commands.plan.gguf import LACKING, plan_for_model
from unslow.commands.plan.running import plan_running, seen_model, untold
from unslow.commands.plan.subjects import UnreadModelError, find_subject, is_target
from unslow.facts.commands import Commands
from unslow.facts.errors import UserError
from unslow.facts.knob import Change, Knob
from unslow.facts.model import Model
from unslow.facts.runtime import Placement, Runtime
from unslow.facts.snapshot import Case
from unslow.facts.values import NOT_LOOKED, Fact, Known, Unknown, reported_fact
from unslow.look.command_line import is_absolute_path
from unslow.look.system import System
from unslow.think.case.view import CaseView
from unslow.think.plan.report import OptionShown, PlanReport

_RUNTIMES = {"llama.cpp": "llama.cpp", "Ollama": "ollama", "LM Studio": "lm_studio", "vLLM": "vllm",
             "Transformers": "transformers"}  # fmt: skip
"""As the facts call them, and as a request does."""
_ON_LLAMA_CPP = ("llama.cpp", "ollama", "lm_studio")
_DRAFTING = ("llama.cpp", "lm_studio")  # Those that take a draft model, and whose gain by one is planned
_NO_PLANNER = "`unslow` says what makes it slow; `unslow plan MODEL` plans for llama.cpp, Ollama or vLLM"
_MOST_TRIES = 3  # Of searches, each without what the version at hand turned out to lack
_PLAIN = (Knob.CONTEXT_LENGTH, Knob.PARALLEL)  # What anybody tells a runtime who leaves the rest to it


class Speller(NamedTuple):
    """The runtime and the model that a plan is for; `fresh` where nothing runs yet and a start must be told all."""

    runtime: Runtime
    model: Model
    fresh: bool
    name: str = ""  # The runtime's, where nothing runs
    system: System | None = None  # The machine that it runs on; None where that is elsewhere

    def commands(self, option: OptionShown) -> Commands | None:
        """The option's lines; None where it needs a file that nobody has."""
        whole = (self.fresh or not self.has_line) and option.settings
        wanted = option.settings if whole else option.changes
        if self.fresh and self.name == "vllm":  # nothing runs: what was, are vLLM's own defaults
            wanted = tuple(c for c in wanted if c.value != c.was or c.knob == Knob.CONTEXT_LENGTH)
        path, files = self.model.path.value_or(""), [c for c in wanted if c.knob == Knob.MODEL_FILE]
        # Those that name a quant in place of a file that is here
        missing = [c for c in files if not is_absolute_path(str(c.value)) and "." not in str(c.value)]
        if missing and path:
            return None
        changes = [Change(Knob(c.knob), c.value, c.why) for c in wanted if c not in missing]
        if self.fresh and self.name == "ollama" and path.endswith(".gguf"):
            changes = [Knob.MODEL_FILE.to(path), *(c for c in changes if c.knob is not Knob.MODEL_FILE)]
        try:
            case = CaseView(Case(runtime=self.runtime, model=self.model))
            return commands_for(changes, case, system=self.system, name=self.name, anew=bool(whole))
        except UserError:  # a runtime that has no words at all
            return None

    @property
    def has_line(self) -> bool:
        """False of a llama-server of which nobody saw how it was started: its line must be written anew."""
        own = self.runtime.name.value_or("").endswith("llama.cpp")
        return not own or isinstance(self.runtime.process.command, Known)


def make_plan(system: System, request: PlanRequest, progress: Progress | None = None) -> PlanReport:
    """The plan with commands, for a model or for something that runs."""
    said = progress or Silent()
    if is_target(request.model):
        subject = find_subject(system, request.model, said)
        request = _of_runtime(request, subject.case)
        _check_flags(request)
        case = subject.case
        if request.ram_bandwidth is not None:  # in place of what was measured of the host's memory
            told = reported_fact(request.ram_bandwidth, "--ram-bandwidth")
            memory = case.machine.memory
            memory = msgspec.structs.replace(memory, read_bytes_per_s=told, read_one_core_bytes_per_s=NOT_LOOKED)
            case = case.replace(machine=msgspec.structs.replace(case.machine, memory=memory))
        said.step(f"searching settings for {case.model.name.value_or('the model')}", 0.5)
        report = _planned_for(system, request, case, live=subject.live)
        url = case.runtime.process.url.value_or("") if subject.live else ""
        return msgspec.structs.replace(report, of_running=True, url=url, notes=(*subject.notes, *report.notes))
    _check_flags(request)
    said.step(f"searching settings for {request.model}", 0.3)
    if request.runtime in _ON_LLAMA_CPP:
        return _with_what_is_at_hand(lambda lacking: _plan_for_model(system, request, lacking))
    report = _plan_safetensors(system, request, None)
    # A model by the word that the user wrote: a folder that is here, or a name
    word = request.model or ""
    path = expand_path(word)
    folder = reported_fact(path, "given") if exists(system, path) else NOT_LOOKED
    named_model = Model(name=reported_fact(word, "given"), path=folder)
    return with_commands(report, Speller(Runtime(), named_model, fresh=True, name=request.runtime))


def _of_runtime(request: PlanRequest, case: CaseView) -> PlanRequest:
    """The request for the runtime that runs; UserError where another one or another machine was asked for."""
    name = case.runtime.name.value_or("")
    known = "llama.cpp" if name.endswith("llama.cpp") else _RUNTIMES.get(name, name or "unknown")
    if "runtime" in request.given and request.runtime != known:
        raise UserError(f"{known} runs there, not {request.runtime}", "omit --runtime, or name the model file")
    if request.devices != ("auto",) or "ram_bytes" in request.given:
        hint = "to plan for other devices, name the model: `unslow plan MODEL --device ...`"
        raise UserError("--device cannot be changed for a running server", hint)
    if request.quant is not None:
        hint = "to plan for another quant, name the model: `unslow plan MODEL --quant Q4_K_M`"
        raise UserError("--quant cannot be changed for a running model", hint)
    return request._replace(runtime=known, model=None)


def _check_flags(request: PlanRequest) -> None:
    """UserError for what has no meaning with the runtime: nothing that is asked is left out in silence."""
    if request.draft and request.runtime not in _DRAFTING:
        raise UserError(f"unslow does not plan draft models for {request.runtime}", "omit --draft")
    given = {"--threads": request.threads, "--ram-bandwidth": request.ram_bandwidth}
    flag = next((name for name, value in given.items() if value is not None), None)
    if flag and request.runtime not in _ON_LLAMA_CPP:
        raise UserError(f"{request.runtime} is planned for GPUs only, so {flag} does not apply", "omit it")


def _planned_for(system: System, request: PlanRequest, case: CaseView, *, live: bool) -> PlanReport:
    here, runtime = system if live else None, case.runtime
    if request.runtime == "lm_studio" and not isinstance(runtime.placement.layers, Known):  # it takes a share of them
        found = seen_model(here, case)
        if isinstance(found, FoundModel):
            runtime = runtime.with_facts(layers=_layers_of(found))
    speller = Speller(runtime, case.model, fresh=False, system=here)
    if request.runtime in ("vllm", "transformers"):
        try:
            return with_commands(_plan_safetensors(system, request, case), speller)
        except UnreadModelError as error:
            return untold(request, case, Unknown(error.message, error.hint))
    if request.runtime not in _ON_LLAMA_CPP:
        name = request.runtime
        why = f"unslow does not plan settings of {name}" if name != "unknown" else "the runtime is unknown"
        return untold(request, case, Unknown(why, _NO_PLANNER))
    return _with_what_is_at_hand(lambda lacking: (plan_running(system, request, case, lacking, live=live), speller))


def _layers_of(found: FoundModel) -> Fact[int]:
    return reported_fact(found.blueprint.count("block_count") + 1, "the model's file")


def _plan_for_model(system: System, request: PlanRequest, lacking: set[Knob]) -> tuple[PlanReport, Speller]:
    request, report, found = plan_for_model(system, request, lacking)
    # By the file that is here, and by the name that the runtime's own store has for it: none is made up
    is_file = found.source != CATALOGUE and not found.requantised and exists(system, found.source)
    own = not found.requantised and _RUNTIMES.get(found.tool, "") == request.runtime
    name = found.name_in_ollama(request.model or "") if request.runtime == "ollama" else found.name if own else ""
    model = Model(
        name=reported_fact(name, "given") if name else NOT_LOOKED,
        path=reported_fact(found.source, "given") if is_file else NOT_LOOKED,
        quant=reported_fact(found.quant, "given"),
    )
    runtime = Runtime(placement=Placement(layers=_layers_of(found)))
    return report, Speller(runtime, model, fresh=True, name=request.runtime)


def _plan_safetensors(system: System, request: PlanRequest, case: CaseView | None) -> PlanReport:
    """Loaded when it is needed, because most plans do not need it."""
    from unslow.commands.plan.safetensors import plan_safetensors

    return plan_safetensors(system, request, case)


def _with_what_is_at_hand(plan: Callable[[set[Knob]], tuple[PlanReport, Speller]]) -> PlanReport:
    """The plan with commands, searched again without what the version at hand turned out to lack."""
    lacking: set[Knob] = set()
    for _ in range(_MOST_TRIES):
        report, speller = plan(lacking)
        lacks = {*left_out(report, speller)} & LACKING.keys()
        if lacks <= lacking:
            break
        lacking |= lacks
    return with_commands(report, speller)


def left_out(report: PlanReport, speller: Speller) -> Sequence[Knob]:
    """Settings of the recommended option that the version at hand has no words for."""
    if report.recommended is None:
        return ()
    commands = speller.commands(report.options[report.recommended])
    return [change.knob for change, _ in commands.left_out if change.value is not None] if commands else ()


def with_commands(report: PlanReport, speller: Speller) -> PlanReport:
    """The report with lines for every option; what the version at hand lacks is said beside its risk."""
    options = tuple(_with_lines(option, speller) for option in report.options)
    current = report.current
    if current and not current.commands:
        # The line that started what runs; where nothing does, the one that leaves all but the context to the runtime
        lines: Sequence[str] = ()
        if command := speller.runtime.process.command.value_or([]):
            lines = (shlex.join(command),)  # keys are hidden in facts
        elif speller.fresh:
            plain = tuple(change for change in current.settings if change.knob in _PLAIN)
            commands = speller.commands(msgspec.structs.replace(current, settings=plain, changes=plain))
            lines = commands.lines if commands else ()
        current = msgspec.structs.replace(current, commands=tuple(lines))
    return msgspec.structs.replace(report, options=options, current=current)


def _with_lines(option: OptionShown, speller: Speller) -> OptionShown:
    commands = speller.commands(option)
    if commands is None or not (option.changes or speller.fresh):
        return option
    left = [
        f"{change.knob.value.replace('_', ' ')} {change.value} is not in these commands: {why}"
        for change, why in commands.left_out
        if change.value is not None
    ]
    risk = "; ".join(filter(None, (option.risk, *left)))
    # A number of layers that is not set where a build then takes none: its line names all of them
    changes = tuple(
        change
        if change.knob != Knob.GPU_LAYERS or change.value is not None or "-ngl" not in commands.argv
        else msgspec.structs.replace(change, value=-1, why="without a number this build takes none")
        for change in option.changes
    )
    return msgspec.structs.replace(option, changes=changes, commands=commands.lines, risk=risk)
