"""The plan for llama.cpp, or what is built on it, and a model that a user names; what any planner reports."""

import posixpath
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence

import msgspec

from unslow import __version__
from unslow.catalog.quants import split_quant
from unslow.commands._hardware import HardwareRequest, find_hardware
from unslow.commands.fit.gguf import default_context, trained_context
from unslow.commands.models.find import CATALOGUE, OLLAMA, FoundModel, as_quant, find_gguf_model
from unslow.commands.plan import PlanRequest
from unslow.commands.predict import PredictRequest
from unslow.commands.predict.cases import backend_of, setting_of
from unslow.facts.errors import UserError
from unslow.facts.knob import Knob
from unslow.facts.model import Blueprint
from unslow.facts.values import GB, GIB, MIB, Unknown
from unslow.look.system import LookError, System
from unslow.think.hardware import Hardware, Room, may_pin, threads_by_itself
from unslow.think.memo import one_judgement
from unslow.think.plan.goal import Goal, Work
from unslow.think.plan.llama_cpp.pieces import Pieces
from unslow.think.plan.llama_cpp.plan import plan_with_or_without_gpus, why_no_draft
from unslow.think.plan.llama_cpp.points import fits_whole
from unslow.think.plan.llama_cpp.question import EVERYTHING, Abilities, Draft, LlamaPlanQuestion, Variant
from unslow.think.plan.llama_cpp.question import OLLAMA as OLLAMA_ABILITIES
from unslow.think.plan.llama_cpp.runnable import MARGIN_BYTES
from unslow.think.plan.pareto_front import FrontAndChoice
from unslow.think.plan.report import PlanReport, Verdict
from unslow.think.plan.running import WORTH_A_CHANGE

USUAL_PROMPT = 512
GUESSED = 3  # Tokens that llama-server lets a draft guess at a time where nobody says (`--spec-draft-n-max`)
OTHER_QUANTS = ("Q8_0", "Q6_K", "Q5_K_M", "Q4_K_M", "Q3_K_M", "Q2_K")
"""Of the mixes that llama-quantize makes, those that most publishers offer."""
SMALLEST_QUANTS = ("IQ2_M", "IQ2_XS", "IQ2_XXS")
"""Looked at where one of them is the first that fits onto the GPUs whole: that may be ten times as fast."""
ABILITIES = {
    "llama.cpp": EVERYTHING,
    "ollama": OLLAMA_ABILITIES,
    "lm_studio": Abilities(apart=False, micro_batches=(512,), unmapped=False, mixed_cache=False),
}
"""LM Studio knows a share of layers, and its place."""
LACKING: dict[Knob, Abilities] = {
    Knob.TENSOR_OVERRIDE: Abilities(apart=False),
    Knob.EXPERTS_ON_CPU: Abilities(apart=False),
    Knob.KV_OFFLOAD: Abilities(cache_on_host=False),
    Knob.LOAD_MODE: Abilities(unmapped=False),
    Knob.KV_CACHE_TYPE: Abilities(cache_types=("F16",)),
    Knob.VALUE_CACHE_TYPE: Abilities(mixed_cache=False),
    Knob.FLASH_ATTENTION: Abilities(cache_types=("F16",)),
    Knob.BATCH: Abilities(micro_batches=(512,)),
    Knob.LOGICAL_BATCH: Abilities(micro_batches=(128, 256, 512, 1024, 2048)),
}
"""What is left to choose from where the version at hand has no word for a setting."""
RUNTIME_NAMES = {"ollama": "Ollama", "lm_studio": "LM Studio"}
_FAMILY = "choose a small model of the same family, such as llama-3.2-1b for llama-3.3-70b"
_LIKE = 0.03  # Of parameters: a file with so many fewer or more is another model


@one_judgement()
def plan_for_model(
    system: System, request: PlanRequest, lacking: Collection[Knob]
) -> tuple[PlanRequest, PlanReport, FoundModel]:
    """The best settings for a model that a user names, against what llama.cpp would choose by itself.

    With the request as it was taken: a model of Ollama's store is for Ollama, unless another runtime was named.
    """
    if request.model is None:
        raise UserError("no model given", "`unslow plan MODEL`: a GGUF file, or a name such as llama-3.3-70b")
    found = find_gguf_model(system, request.model, request.quant)
    if found.incomplete:
        raise UserError(f"{found.source}: {found.incomplete}", "download it again")
    if found.tool == OLLAMA and "runtime" not in request.given:
        request = request._replace(runtime="ollama")
    hardware = planned_hardware(system, request, found.blueprint)
    goal = goal_of(request, found, () if isinstance(hardware, Unknown) else hardware.rooms)
    if isinstance(hardware, Unknown):
        machine = ", ".join(request.devices)
        return request, unknown_report(request, found.name, machine, goal, hardware, found.notes), found
    question = question_of(system, request, found, goal, hardware, abilities_of(request.runtime, lacking))
    itself = request.threads or threads_by_itself(hardware.machine) or question.threads
    planned = plan_with_or_without_gpus(question, (), itself)
    notes = (*found.notes, *hardware.notes, *_host_notes(hardware, request), *context_notes(goal, found.blueprint))
    if planned.current is None and planned.recommended is not None:
        alone = f"the defaults of {question.runtime} do not fit here, so there is nothing to compare with"
        notes = (*notes, alone)
    notes = (*notes, *planned.notes)
    names = [device.name for device in hardware.devices]
    report = gguf_report(request, found, goal, planned, machine_words(names, hardware.host_room), notes)
    return request, msgspec.structs.replace(report, stands_for=found.stands_for), found


def planned_hardware(system: System, request: PlanRequest, plan: Blueprint) -> Hardware | Unknown:
    """The devices that a user names, or this machine's; Unknown where their speed can't be told."""
    asked = HardwareRequest(
        request.devices, ram_bytes=request.ram_bytes, ram_bandwidth=request.ram_bandwidth, threads=request.threads
    )
    hardware = find_hardware(system, asked, unlike=True)
    if isinstance(hardware, Unknown):
        return hardware
    usual = PredictRequest()
    backend = backend_of(hardware.device, usual)
    if backend == "cpu":
        hardware = hardware._replace(rooms=(), chips=())
    elif not hardware.rooms:
        why = f"the memory size of the {hardware.device.name} is missing"
        name = hardware.named or hardware.device.name
        return Unknown(why, f'add its size, as in --device "{name} 32GB", or give --ram')
    setting = setting_of(plan, hardware, usual, backend)
    return hardware._replace(
        setting=setting,
        host_setting=setting._replace(backend="cpu", family=setting.family if backend == "cpu" else "", device=""),
        pinned=may_pin(backend, hardware.host_room, plan.weights_bytes),
    )


def _host_notes(hardware: Hardware, request: PlanRequest) -> Iterator[str]:
    if hardware.host_is_assumed:
        speed, cores = hardware.processors.bytes_per_s / GB, hardware.processors.cores
        which = hardware.named if hardware.device.kind == "cpu" else "a host"
        yield f"Assuming {which} with {speed:.0f} GB/s and {cores} cores (--ram-bandwidth, --threads)"
    shared = hardware.device.is_unified or any(room.unified for room in hardware.rooms)
    if hardware.machine is None and hardware.host_room is None and request.ram_bytes is None and not shared:
        yield "Host memory size not given; assuming that the rest fits (--ram 64GB)"


def context_notes(goal: Goal, plan: Blueprint) -> tuple[str, ...]:
    """That a context is longer than the model was trained for."""
    trained = plan.count("context_length")
    if not trained or goal.context <= trained:
        return ()
    said = f"The model was trained for {trained:,} tokens; quality drops beyond that"
    return (f"{said}, and recent llama-server and Ollama end a conversation there",)


def goal_of(request: PlanRequest, found: FoundModel, rooms: Sequence[Room]) -> Goal:
    """What was asked for, with what is usual where nothing was said; UserError where it can't be."""
    trained = trained_context(found.blueprint)
    context = request.context or default_context(request.runtime, trained, rooms, found.settings)
    return goal_within(request, context, request.users)._replace(alone=request.this_work_only)


def goal_within(request: PlanRequest, context: int, users: int) -> Goal:
    """The work that was asked for, by so many users in contexts of so many tokens; UserError where it can't be."""
    prompt = request.prompt or min(USUAL_PROMPT, max(1, context // 2))
    room = max(1, context - prompt - request.kept)
    answer = request.answer if "answer" in request.given else min(request.answer, room)
    work = Work(prompt, request.kept, answer, users)
    if work.tokens > context:
        tokens = f"{request.kept:,} cached, {prompt:,} prompt, {answer:,} generated"
        hint = f"use a longer --context or fewer tokens ({tokens})"
        raise UserError(f"the request does not fit a context of {context:,} tokens", hint)
    return Goal(context, work, request.aim, request.least_tokens_per_s, request.worst_perplexity_increase)


def abilities_of(runtime: str, lacking: Collection[Knob] = ()) -> Abilities:
    """What a runtime lets its user set, less what the version at hand has no words for."""
    able = ABILITIES[runtime]
    for knob in lacking:
        less = LACKING.get(knob, Abilities())
        able = able._replace(
            apart=able.apart and less.apart,
            partly=able.partly and less.partly,
            cache_on_host=able.cache_on_host and less.cache_on_host,
            unmapped=able.unmapped and less.unmapped,
            mixed_cache=able.mixed_cache and less.mixed_cache,
            micro_batches=tuple(size for size in able.micro_batches if size in less.micro_batches),
            cache_types=tuple(kind for kind in able.cache_types if kind in less.cache_types),
        )
    return able


def question_of(
    system: System,
    request: PlanRequest,
    found: FoundModel,
    goal: Goal,
    hardware: Hardware,
    abilities: Abilities,
    *,
    live: bool = True,
) -> LlamaPlanQuestion:
    """What is to be planned; not `live` where it runs on another machine than `system`."""
    margin = margin_of(request, hardware.rooms)
    return LlamaPlanQuestion(
        variants=variants_of(system if live else None, found, lambda plan: fits_whole(plan, hardware, goal, margin)),
        hardware=hardware,
        goal=goal,
        margin_bytes=margin,
        threads=request.threads or hardware.processors.cores,
        abilities=abilities,
        draft=find_draft(system, request, found.blueprint, here=live),
        runtime=RUNTIME_NAMES.get(request.runtime, request.runtime),
    )


def margin_of(request: PlanRequest, rooms: Sequence[Room]) -> int:
    """As asked, else the usual one; UserError where it leaves nothing of any GPU."""
    if request.margin_bytes is None:
        return MARGIN_BYTES
    largest = max((room.capacity_bytes for room in rooms), default=0)
    if rooms and request.margin_bytes >= largest:
        asked = f"--margin {request.margin_bytes / GIB:.3g} GiB leaves nothing of a GPU with {largest / GIB:.3g} GiB"
        raise UserError(asked, "give a smaller one, or use --device cpu")
    return request.margin_bytes


def find_draft(system: System, request: PlanRequest, model: Blueprint, *, here: bool) -> Draft | None:
    """The draft model that the user named; UserError where there is none of that name, or it can't guess for the model.

    A file of this machine is no file of the one that the plan is for, unless that is here.
    """
    if not request.draft:
        return None
    found = find_gguf_model(system, request.draft, None)
    if found.incomplete:
        raise UserError(f"--draft {request.draft}: {found.incomplete}", "download it again")
    if why := why_no_draft(model, found.blueprint):
        raise UserError(f"{found.name} cannot be a draft model for this model: {why}", _FAMILY)
    file = "" if found.source == CATALOGUE or not here else found.source
    return Draft(f"{found.name} {found.quant}", Pieces(found.blueprint), file, GUESSED)


def variants_of(
    system: System | None, found: FoundModel, fits_whole: Callable[[Blueprint], bool]
) -> tuple[Variant, ...]:
    """The given one among its siblings and what could be had, finest first; without a system none lie beside it.

    `fits_whole` says whether all of a file fits onto the GPUs.
    """
    known = {found.quant: _variant(found, at_hand=True)._replace(given=True)}
    for other in _siblings(system, found):
        known.setdefault(other.quant, _variant(other, at_hand=True))
    for quant in OTHER_QUANTS:
        if quant not in known:
            known[quant] = _variant(_requantized_model(found, quant), at_hand=found.source == CATALOGUE)
    every = sorted(known.values(), key=lambda v: -v.blueprint.weights_bytes)
    if fits_whole(every[-1].blueprint):
        return tuple(every)
    smaller = (_requantized_model(found, quant) for quant in SMALLEST_QUANTS if quant not in known)
    first = next((made for made in smaller if fits_whole(made.blueprint)), None)
    if first is None or first.blueprint.weights_bytes >= every[-1].blueprint.weights_bytes:
        return tuple(every)
    return (*every, _variant(first, at_hand=found.source == CATALOGUE)._replace(whole=True))


def _requantized_model(found: FoundModel, quant: str) -> FoundModel:
    return found._replace(quant=quant, blueprint=as_quant(found.blueprint, quant), source="")


def _variant(found: FoundModel, *, at_hand: bool) -> Variant:
    file = "" if found.source == CATALOGUE else found.source
    return Variant(found.quant, Pieces(found.blueprint), found.parameters, file, at_hand=at_hand)


def _siblings(system: System | None, found: FoundModel) -> Iterator[FoundModel]:
    """Files beside it that are the same model, by name, shape and number of parameters."""
    folder, name = posixpath.split(found.source)
    if system is None or not folder or not name.endswith(".gguf"):
        return
    stem = split_quant(name.removesuffix(".gguf"))[0]
    try:
        names = sorted(system.list_dir(folder))
    except LookError:
        return
    alike = [n for n in names if n != name and n.endswith(".gguf") and split_quant(n.removesuffix(".gguf"))[0] == stem]
    for other in alike[:6]:
        try:
            read = find_gguf_model(system, posixpath.join(folder, other), None)
        except UserError:
            continue
        near = abs(read.parameters - found.parameters) <= _LIKE * max(1, found.parameters)
        layers = read.blueprint.count("block_count") == found.blueprint.count("block_count")
        if near and layers and read.blueprint.architecture == found.blueprint.architecture and not read.incomplete:
            yield read


def gguf_report(
    request: PlanRequest, found: FoundModel, goal: Goal, planned: FrontAndChoice, machine: str, notes: tuple[str, ...]
) -> PlanReport:
    """The whole answer."""
    verdict: Verdict = "better"
    best = None if planned.recommended is None else planned.options[planned.recommended]
    if best is None:
        verdict = "impossible"
    elif not best.changes or (goal.aim == "speed" and best.speedup is not None and best.speedup < WORTH_A_CHANGE):
        verdict = "already_best"
    if request.runtime != "llama.cpp":  # others have no switch for its fit: the number of layers turns it off
        options = []
        for option in planned.options:
            both = option.changes, option.settings
            changes, settings = (tuple(c for c in every if c.knob != Knob.FIT) for every in both)
            options.append(msgspec.structs.replace(option, changes=changes, settings=settings))
        planned = planned._replace(options=tuple(options))
    return plan_report(request, found.name, machine, goal, planned, verdict, notes)


def plan_report(
    request: PlanRequest, model: str, machine: str, goal: Goal, planned: FrontAndChoice, verdict: Verdict,
    notes: tuple[str, ...],
) -> PlanReport:  # fmt: skip
    """What any planner found, as the report has it."""
    return PlanReport(
        unslow_version=__version__, model=model, runtime=request.runtime, machine=machine, goal=goal.goal_shown(),
        verdict=verdict, reason=planned.reason, hint=planned.hint, current=planned.current,
        recommended=planned.recommended, options=planned.options, rejected=planned.rejected,
        searched=planned.searched, notes=notes,
    )  # fmt: skip


def unknown_report(
    request: PlanRequest, model: str, machine: str, goal: Goal, why: Unknown, notes: tuple[str, ...] = ()
) -> PlanReport:
    """Where nothing can be planned: why."""
    return PlanReport(
        unslow_version=__version__, model=model, runtime=request.runtime, machine=machine, goal=goal.goal_shown(),
        verdict="cannot_tell", reason=why.why, hint=why.how_to_get, notes=notes,
    )  # fmt: skip


def machine_words(names: Sequence[str], host: Room | None) -> str:
    """The devices, those of one name counted, and how much memory the host has."""
    devices = ", ".join(f"{count}x {name}" if count > 1 else name for name, count in Counter(names).items())
    if host is None:
        return devices
    held = host.capacity_bytes
    size = f"{held / GIB:.0f} GiB" if held >= GIB else f"{held / MIB:.0f} MiB"
    return f"{devices} and {size} of host memory"
