"""`unslow plan`: what it is for, the runtime's own planner, and its lines to type."""

from collections.abc import Callable

import msgspec

from unslow.app.fit.models import CATALOGUE, Found
from unslow.app.plan.commands import Speller, left_out, with_commands
from unslow.app.plan.drafts import check_drafting
from unslow.app.plan.llama_cpp_plan import decides, plan_for_model
from unslow.app.plan.running import plan_running, untold
from unslow.app.plan.seen_model import seen_model
from unslow.app.plan.subjects import Subject, find_subject, is_target
from unslow.app.plan.unread import UnreadModelError
from unslow.app.progress import Progress, Silent
from unslow.app.resolve import exists, expanded
from unslow.commands.plan import PlanRequest
from unslow.facts.errors import UserError
from unslow.facts.knob import Knob
from unslow.facts.model import Model
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Case
from unslow.facts.values import NOT_LOOKED, Known, Unknown, reported
from unslow.look.system import System
from unslow.think.plan.report import PlanReport

_RUNTIMES = {"llama.cpp": "llama.cpp", "Ollama": "ollama", "LM Studio": "lm_studio", "vLLM": "vllm",
             "Transformers": "transformers"}  # fmt: skip
"""As the facts call them, and as a request does."""
_ON_LLAMA_CPP = ("llama.cpp", "ollama", "lm_studio")
_MOST_TRIES = 3
"""Of searches, each without what the version at hand turned out to lack."""


def planned(system: System, request: PlanRequest, progress: Progress | None = None) -> PlanReport:
    """The plan with commands, for a model or for something that runs."""
    said = progress or Silent()
    if is_target(request.model):
        return _for_subject(system, request, find_subject(system, request.model, said), said)
    _check_flags(request)
    said.step(f"searching settings for {request.model}", 0.3)
    if request.runtime in _ON_LLAMA_CPP:
        return _for_model(system, request)
    report = _other_planner(request.runtime)(system, request, None)
    return with_commands(report, Speller(Runtime(), _named_model(system, request), fresh=True, name=request.runtime))


def _check_flags(request: PlanRequest) -> None:
    """UserError for what has no meaning with the runtime: nothing that is asked is left out in silence."""
    check_drafting(request)
    given = {"--threads": request.threads, "--ram-bandwidth": request.ram_bandwidth}
    flag = next((name for name, value in given.items() if value is not None), None)
    if flag and request.runtime not in _ON_LLAMA_CPP:
        raise UserError(f"{request.runtime} is planned for GPUs alone, so {flag} has no meaning", "leave it out")


def _other_planner(runtime: str) -> Callable[[System, PlanRequest, Case | None], PlanReport]:
    """Of a runtime that is not llama.cpp: loaded when it is needed, for most plans need neither."""
    if runtime == "vllm":
        from unslow.app.plan.vllm_plan import plan_vllm  # noqa: PLC0415

        return plan_vllm
    from unslow.app.plan.transformers_plan import plan_transformers  # noqa: PLC0415

    return plan_transformers


def _for_model(system: System, request: PlanRequest) -> PlanReport:
    lacking: set[Knob] = set()
    for _ in range(_MOST_TRIES):
        request, report, found = plan_for_model(system, request, lacking)
        layers = reported(found.blueprint.count("block_count") + 1, "the model's file")
        speller = Speller(Runtime(layers=layers), _model_of(system, found, request), fresh=True, name=request.runtime)
        lacks = {knob for knob in left_out(report, speller) if decides(knob)} - lacking
        if not lacks:
            break
        lacking |= lacks
    return with_commands(report, speller)


def _model_of(system: System, found: Found, request: PlanRequest) -> Model:
    """A model by the file that is here, and by the name that the runtime's own store has for it: none is made up."""
    is_file = found.source != CATALOGUE and not found.requantised and exists(system, found.source)
    own = not found.requantised and _RUNTIMES.get(found.tool, "") == request.runtime
    name = found.name_in_ollama(request.model or "") if request.runtime == "ollama" else found.name if own else ""
    return Model(
        name=reported(name, "given") if name else NOT_LOOKED,
        path=reported(found.source, "given") if is_file else NOT_LOOKED,
        quant=reported(found.quant, "given"),
    )


def _named_model(system: System, request: PlanRequest) -> Model:
    """A model by the word that the user wrote: a folder that is here, or a name."""
    word = request.model or ""
    path = expanded(word)
    return Model(name=reported(word, "given"), path=reported(path, "given") if exists(system, path) else NOT_LOOKED)


def _for_subject(system: System, request: PlanRequest, subject: Subject, progress: Progress) -> PlanReport:
    request = _of_runtime(request, subject.case)
    _check_flags(request)
    case = _as_told(request, subject.case)
    progress.step(f"searching settings for {case.model.name.value_or('the model')}", 0.5)
    report = _planned_for(system, request, case, live=subject.live)
    url = case.runtime.url.value_or("") if subject.live else ""
    return msgspec.structs.replace(report, of_running=True, url=url, notes=(*subject.notes, *report.notes))


def _of_runtime(request: PlanRequest, case: Case) -> PlanRequest:
    """The request for the runtime that runs; UserError where another one or another machine was asked for."""
    name = case.runtime.name.value_or("")
    known = "llama.cpp" if name.endswith("llama.cpp") else _RUNTIMES.get(name, name or "unknown")
    if "runtime" in request.given and request.runtime != known:
        raise UserError(f"{known} runs there, not {request.runtime}", "leave out --runtime, or name the model's file")
    if request.devices != ("auto",) or "ram_bytes" in request.given:
        raise UserError(
            "what runs has its own devices", "for other ones name the model: `unslow plan MODEL --device ...`"
        )
    if request.quant is not None:
        raise UserError(
            "what runs has its own quant", "for another one name the model: `unslow plan MODEL --quant Q4_K_M`"
        )
    return request._replace(runtime=known, model=None)


def _as_told(request: PlanRequest, case: Case) -> Case:
    """The case with the speed of the host's memory that the user gives, in place of what was measured of it."""
    if request.ram_bandwidth is None:
        return case
    memory = msgspec.structs.replace(
        case.machine.memory,
        read_bytes_per_s=reported(request.ram_bandwidth, "--ram-bandwidth"),
        read_one_core_bytes_per_s=NOT_LOOKED,
    )
    return msgspec.structs.replace(case, machine=msgspec.structs.replace(case.machine, memory=memory))


def _planned_for(system: System, request: PlanRequest, case: Case, *, live: bool) -> PlanReport:
    here = system if live else None
    runtime = _counted(here, case) if request.runtime == "lm_studio" else case.runtime
    speller = Speller(runtime, case.model, fresh=False, system=here)
    if request.runtime in ("vllm", "transformers"):
        try:
            return with_commands(_other_planner(request.runtime)(system, request, case), speller)
        except UnreadModelError as error:
            return untold(request, case, Unknown(error.message, error.hint))
    if request.runtime not in _ON_LLAMA_CPP:
        return untold(request, case, _no_planner(request.runtime))
    lacking: set[Knob] = set()
    for _ in range(_MOST_TRIES):
        report = plan_running(system, request, case, lacking, live=live)
        lacks = {knob for knob in left_out(report, speller) if decides(knob)} - lacking
        if not lacks:
            break
        lacking |= lacks
    return with_commands(report, speller)


def _counted(here: System | None, case: Case) -> Runtime:
    """The runtime with its layers, of which LM Studio takes a share."""
    found = None if isinstance(case.runtime.layers, Known) else seen_model(here, case)
    if not isinstance(found, Found):
        return case.runtime
    layers = reported(found.blueprint.count("block_count") + 1, "the model's file")
    return msgspec.structs.replace(case.runtime, layers=layers)


def _no_planner(runtime: str) -> Unknown:
    why = f"settings of {runtime} are not planned" if runtime != "unknown" else "which runtime it is can't be told"
    return Unknown(why, "`unslow` says what makes it slow; `unslow plan MODEL` plans for llama.cpp, Ollama or vLLM")
