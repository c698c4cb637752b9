"""The plan for what runs on llama.cpp, or on what is built on it: its model, and the settings that it has now."""

from collections.abc import Collection, Iterator

import msgspec

from unslow.catalog.models import WellKnown, find_model, well_known
from unslow.commands.models.find import FoundModel, find_gguf_model
from unslow.commands.models.well_known import mix_named
from unslow.commands.plan import PlanRequest, gguf
from unslow.facts.errors import UserError
from unslow.facts.knob import Knob
from unslow.facts.model import Blueprint, Model
from unslow.facts.values import Known, MissingFactError, Unknown, reported_fact
from unslow.look.gguf_server_flags import parse_settings
from unslow.look.system import System
from unslow.think.blueprints import made_up
from unslow.think.case.view import CaseView
from unslow.think.hardware import Hardware, threads_by_itself
from unslow.think.memo import one_judgement
from unslow.think.plan import running
from unslow.think.plan.goal import Goal, Work, work_seen
from unslow.think.plan.llama_cpp import running as server
from unslow.think.plan.llama_cpp.plan import plan_with_or_without_gpus
from unslow.think.plan.llama_cpp.question import LlamaPlanQuestion
from unslow.think.plan.report import OptionShown, PlanReport

_HINT = "run unslow where the model file is, or name the file: `unslow plan FILE.gguf`"
_LIKE = 0.06  # Of parameters: a model with so many fewer or more is another one; runtimes round them
_LEAST_CONTEXT = 256


@one_judgement()
def plan_running(
    system: System, request: PlanRequest, case: CaseView, lacking: Collection[Knob], *, live: bool
) -> PlanReport:
    """The best settings against those of now; not `live` where it ran elsewhere, or once."""
    found = seen_model(system if live else None, case)
    if isinstance(found, Unknown):
        return untold(request, case, found)
    request, said = with_seen_work(request, case)
    hardware = _hardware(case)
    goal = gguf.goal_of(request, found, () if isinstance(hardware, Unknown) else hardware.rooms)
    if isinstance(hardware, Unknown):
        return gguf.unknown_report(request, found.name, ", ".join(request.devices), goal, hardware, found.notes)
    abilities, memory = gguf.abilities_of(request.runtime, lacking), case.memory
    abilities = abilities._replace(fuses=memory.keeps_fused_inputs, rotates=memory.rotates_cache)
    question = gguf.question_of(system, request, found, goal, hardware, abilities, live=live)
    now = server.settings_of(case)
    shares = now.unified and now.slots > 1 and "users" not in request.given
    return _answer(request, case, found, question._replace(shared_slots=now.slots if shares else 0), said)


def _answer(
    request: PlanRequest, case: CaseView, found: FoundModel, question: LlamaPlanQuestion, said: tuple[str, ...]
) -> PlanReport:
    goal, hardware = question.goal, question.hardware
    by_itself = threads_by_itself(case.machine) or question.threads
    seen = server.RunningServer(case, question.given_variant.pieces, by_itself, on_gpus=bool(hardware.rooms))
    # The same with the context, which a new line is told anyway
    runtime, given = case.runtime, settings_given(case)
    is_llama_cpp = runtime.name.value_or("").endswith("llama.cpp")
    asked = isinstance(runtime.context.requested, Known) or not isinstance(runtime.process.command, Known)
    if is_llama_cpp and asked:
        given.setdefault("context", str(runtime.context.length.value_or(0)))
    now = server.now_of(seen, given, users_asked="users" in request.given)
    runs = case.runtime.state.value_or("loaded") != "failed"
    question = question._replace(current=server.current_of(seen) if runs else None)
    planned = plan_with_or_without_gpus(question, now, by_itself, server.hindered_by_threads(seen))
    names = [room.name for room in hardware.rooms] or [case.machine.cpu.model.value_or("its CPU")]
    current = planned.current if runs else None
    if current is not None:  # as it was measured; nothing of it is to be changed
        speed = case.run.decode_tokens_per_s.value_or(case.runtime.history.decode_tokens_per_s.value_or(0.0))
        current = msgspec.structs.replace(current, changes=(), measured_tokens_per_s=float(speed) or None)
    said = (*said, *gguf.context_notes(goal, found.blueprint))
    notes = (*found.notes, *said, *_notes(case, hardware, current), *planned.notes)
    machine = gguf.machine_words(names, hardware.host_room)
    report = gguf.gguf_report(request, found, goal, planned._replace(current=current), machine, notes)
    if current and running.overflows(case, current):
        return running.by_measurement(report, current)
    best = report.options[report.recommended] if report.recommended is not None else None
    if best is None or not runs:
        return msgspec.structs.replace(report, verdict="better") if best else report
    told = server.room_lacking(case, goal, found.blueprint)
    if told and best.changes:
        report = msgspec.structs.replace(report, verdict="better", notes=(*report.notes, told))
    if current and running.has_unpriced(case, current, best.changes):
        return running.by_measurement(report, current, running.UNPRICED)
    return report


def settings_given(case: CaseView) -> dict[str, str]:
    """What somebody wrote on the command line of a llama-server, or in its environment."""
    runtime = case.runtime
    if not runtime.name.value_or("").endswith("llama.cpp"):
        return {}
    settings = parse_settings(runtime.process.command.value_or([]), runtime.process.environment.value_or({}))
    return {name: setting.value for name, setting in settings.items()}


def _notes(case: CaseView, hardware: Hardware, current: OptionShown | None) -> Iterator[str]:
    if case.runtime.state.value_or("loaded") == "failed":
        yield f"It did not load: {case.runtime.memory.load_error.value_or('not enough memory')}"
    elif current is None:
        yield "The running configuration needs more memory than there is; the cost is not predicted"
    shared, one = int(case.runtime.context.length.value_or(0)), server.context_of(case)
    if server.slots_of(case) == 1 and shared > one:
        yield f"Its conversations share {shared:,} tokens now; the plan has room for one of {one:,} (--users N)"
    if not hardware.rooms and case.gpus.usable:
        yield "It does not use the GPU (`unslow` says why); this plan is for its CPU only"
    if running.is_assumed(case) and (not hardware.rooms or (current and current.host)):
        speed = hardware.processors.bytes_per_s / 1e9
        tried = isinstance(case.machine.memory.read_bytes_per_s, Known)
        how = "measured while other processes ran" if tried else "not measured"
        yield f"Host memory bandwidth {how}; assuming {speed:.0f} GB/s"
    if current and running.is_far_below(current):
        measured = f"Measured {current.measured_tokens_per_s:.3g} tok/s"
        yield f"{measured}, far below what these settings should reach: `unslow` says what else slows it down"


def with_seen_work(request: PlanRequest, case: CaseView) -> tuple[PlanRequest, tuple[str, ...]]:
    """The request with the work that was seen, within the context there is, and what a reader must know of it."""
    work, context = work_seen(case), server.context_of(case)
    context = request.context or (max(_LEAST_CONTEXT, context) if context else 0)
    users = server.slots_of(case)
    seen = {"prompt": work.prompt, "kept": work.kept, "answer": work.answer}
    request = request.with_seen(context=context or None, users=users, **seen)
    given = request.given & {"prompt", "kept"}
    said: tuple[str, ...] = (work.said,) if work.said and not given else ()
    if users > 1 and "users" not in request.given:
        said = (*said, f"Planned for {users} concurrent conversations, one per slot")
    # What was seen of a longer conversation is cut to the context; what the user wrote stays
    prompt, answer = request.prompt or Work().prompt, min(request.answer, max(1, context // 2))
    if context and not given and context - answer - prompt < request.kept:
        prompt = min(prompt, max(1, context - answer))
        request = request.with_seen(answer=answer, prompt=prompt, kept=max(0, context - answer - prompt))
    return request, said


def _hardware(case: CaseView) -> Hardware | Unknown:
    """The machine that it has for itself, or why that can't be told."""
    gpus = running.gpus_at_work(case)
    memory = running.seen_memory(case, gpus)
    if gpus and not memory.rooms:
        return Unknown("the VRAM of its GPUs is unknown", "run unslow on the machine itself")
    if not gpus and not case.machine.cpu.physical_cores.value_or(case.machine.cpu.logical_cpus.value_or(0)):
        return Unknown("its machine is unknown", "run unslow there")
    try:
        return running.seen_hardware(case, gpus, memory)
    except MissingFactError as error:
        return Unknown(error.unknown.why, error.unknown.how_to_get or "run unslow on the machine itself")


def untold(request: PlanRequest, case: CaseView, why: Unknown) -> PlanReport:
    """Where nothing can be planned for what runs: why."""
    context = server.context_of(case) or request.context or 0
    goal = Goal(context, Work(request.prompt or Work().prompt), request.aim)
    machine = ", ".join(gpu.name.value_or("a GPU") for gpu in case.gpus.usable) or case.machine.cpu.model.value_or("?")
    return gguf.unknown_report(request, case.model.name.value_or("a model"), machine, goal, why)


def seen_model(system: System | None, case: CaseView) -> FoundModel | Unknown:
    """The model; `system` is the machine that it runs on, None where that is elsewhere."""
    as_built = msgspec.structs.replace(case.runtime, name=reported_fact("llama.cpp", "what it is built on"))
    plan = case.replace(runtime=as_built).memory.blueprint
    if plan is not None:
        return _found_model(case, plan)
    path = case.model.path.value_or("")
    if system is not None and path:
        try:
            read = find_gguf_model(system, path, None)
            return read._replace(name=case.model.name.value_or(read.name))
        except UserError:
            pass  # it may be another user's; its name may do
    quant = case.model.quant.value_or("")
    known = _by_name(case.model) or _by_shape(case.model)
    if known is None:
        return Unknown("its tensors are unknown, and the catalog has no model with this name or shape", _HINT)
    try:
        mix = mix_named(quant).name
        plan = made_up(known, mix)
    except UserError:
        return Unknown(f"its quant is unknown{f' ({quant})' if quant else ''}", _HINT)
    note = f"Model file not read; using the tensors of {known.name} as {mix} from the catalog"
    return _found_model(case, plan)._replace(notes=(note,), parameters=known.parameters, quant=mix)


def _found_model(case: CaseView, plan: Blueprint) -> FoundModel:
    model, source = case.model, case.model.path.value_or("")
    name = model.name.value_or("") or source.rpartition("/")[2] or "a model"
    return FoundModel(name, plan, model.quant.value_or("?"), source, int(model.parameters.value_or(0)))


def _by_name(model: Model) -> WellKnown | None:
    for word in (model.name.value_or(""), model.path.value_or("").rpartition("/")[2].removesuffix(".gguf")):
        try:
            found = find_model(word) if word else None
        except UserError:
            continue
        if found and _is_like(found, model):
            return found
    return None


def _by_shape(model: Model) -> WellKnown | None:
    """A model of the same architecture, layers and width, of as many parameters: its tensors are as large."""
    if not all(isinstance(fact, Known) for fact in (model.architecture, model.layers, model.width, model.parameters)):
        return None
    kind, width = model.architecture.value_or(""), model.width.value_or(0)
    alike = [k for k in well_known().values() if k.architecture == kind and k.shape.width == width]
    same = [k for k in alike if _is_like(k, model)]
    trained = model.context_trained.value_or(0)
    return min(same, key=lambda k: (k.shape.context_trained != trained, len(k.name)), default=None)


def _is_like(known: WellKnown, model: Model) -> bool:
    """Whether nothing that was seen of the model says that it is another one."""
    layers, parameters = model.layers.value_or(known.shape.layers), model.parameters.value_or(0)
    near = not parameters or abs(parameters - known.parameters) <= _LIKE * known.parameters
    words = model.vocabulary.value_or(0)
    return layers == known.shape.layers and near and (not words or words == known.shape.vocabulary)
