"""The plans for vLLM and Transformers, and a model that a user names or that runs there."""

import posixpath
import re
from collections.abc import Sequence
from typing import NamedTuple

from unslow.catalog.models import find_model
from unslow.catalog.quants import split_quant
from unslow.catalog.weight_parts import Role, find_scheme, packed_storage, parts_of_shape, plain_storage
from unslow.commands._hardware import HardwareRequest, find_hardware
from unslow.commands.models.find import FoundShape, find_shape
from unslow.commands.plan import PlanRequest
from unslow.commands.plan.gguf import goal_within, margin_of, plan_report, unknown_report
from unslow.commands.plan.subjects import UnreadModelError
from unslow.facts.errors import UserError
from unslow.facts.machine import Gpu
from unslow.facts.snapshot import Case
from unslow.facts.values import Known, Unknown
from unslow.look.models.stores import find_everywhere, with_header
from unslow.look.system import System
from unslow.think.blueprints import shape_of_facts
from unslow.think.case.device import device_of
from unslow.think.case.view import CaseView
from unslow.think.hardware import Hardware, Room, host_room_of, room_of_gpu
from unslow.think.physics.chip import BYTES, HALF, type_class
from unslow.think.physics.placement import link_bytes_per_s
from unslow.think.plan.goal import Goal
from unslow.think.plan.pareto_front import FrontAndChoice
from unslow.think.plan.report import PlanReport, Verdict
from unslow.think.plan.running import WORTH_A_CHANGE
from unslow.think.plan.transformers import ALL_ON_ONE, SPREAD_OUT, TransformersPlanQuestion, transformers_options
from unslow.think.plan.transformers import BYTES as TRANSFORMERS_BYTES
from unslow.think.plan.transformers import RECENT as TRANSFORMERS_RECENT
from unslow.think.plan.transformers import Choice as TransformersChoice
from unslow.think.plan.vllm.choices import PACKS_AT_LOAD, RECENT, Checkpoint, Choice, VllmPlanQuestion
from unslow.think.plan.vllm.plan import vllm_options

USUAL_CONTEXT = 8192
MOST_USERS = 256
NO_GPU = "no GPU found whose memory and speed are known"
_OF_ANOTHER = "to plan for a GPU, name the model too: `unslow plan MODEL --runtime {word} --device 'RTX 4090'`"
"""What runs has its own devices: another one is not asked for by its address."""
MOST_SEEN, MOST_TAKEN = 300, 4
_LIKE = 0.03  # Of parameters: a checkpoint with so many fewer or more is another model
_ELSEWHERE = "mlx"  # A packing that only Apple's library reads
_VERSION = re.compile(r"v?(\d{1,4})\.(\d{1,4})")
_PACKED_AT_LOAD = frozenset({Role.QUERY, Role.KEY_VALUE, Role.FEED_FORWARD, Role.EXPERTS})
_GROUPED = ("awq", "gptq", "w4a16", "compressed", "block", "nvfp4")
_GROUP = 128  # Weights that share a scale in such checkpoints, as most are made
_WIDE = 4
_TYPES = {"F16": "float16", "F32": "float32", "FLOAT16": "float16", "FLOAT32": "float32"}


class AskedPlan(NamedTuple):
    """The model and the goal, as far as they don't depend on the runtime."""

    found: FoundShape
    goal: Goal
    notes: tuple[str, ...] = ()


def plan_safetensors(system: System, request: PlanRequest, case: CaseView | None = None) -> PlanReport:
    """The best settings of vLLM or Transformers; what runs is described beside them where a case is given."""
    here, is_vllm = case if request.devices == ("auto",) else None, request.runtime == "vllm"
    cards = cards_of_case(here) if here else named_cards(system, request)
    runs_on_them = is_vllm and isinstance(cards, Hardware)
    asked = asked_for(system, request, case, here.gpus.model_copies if here and runs_on_them else 1)
    if isinstance(cards, Unknown):
        machine = "no known GPU" if request.devices == ("auto",) else ", ".join(request.devices)
        return unknown_report(request, asked.found.name, machine, asked.goal, cards)
    if is_vllm:
        others = other_checkpoints(system, asked.found) if "/" in asked.found.source else []
        planned = vllm_options(vllm_question(request, asked, cards, case, others))
    else:
        planned = transformers_options(transformers_question(request, asked, cards, case))
    machine = f"{len(cards.rooms)}x {cards.device.name}" if len(cards.rooms) > 1 else cards.device.name
    notes = tuple(dict.fromkeys((*asked.notes, *asked.found.notes, *cards.notes, *planned.notes)))
    return plan_report(request, asked.found.name, machine, asked.goal, planned, _verdict(planned, asked), notes)


def vllm_question(
    request: PlanRequest, asked: AskedPlan, cards: Hardware, case: CaseView | None, others: Sequence[FoundShape] = ()
) -> VllmPlanQuestion:
    """The question with all that the case tells; `others` are the same model in other formats."""
    found = asked.found
    question = VllmPlanQuestion(
        shape=found.shape,
        checkpoints=(
            *checkpoints_of(found, cards.device.family),
            *(_as_loaded(other)._replace(path=other.source) for other in others),
        ),
        hardware=cards,
        goal=asked.goal.goal_shown(),
        version=version_of(case, RECENT),
        parameters=found.parameters,
        architecture=found.architecture,
        margin_bytes=margin_of(request, cards.rooms) if request.margin_bytes else 0,
        exact_context=case is None and bool(request.context) and request.aim != "context",
    )
    if case is None or request.devices != ("auto",):
        return question
    question = question._replace(
        prefix_caching=case.runtime.cache.prompt_cache.value_or(default=True),
        offloaded_bytes=int(case.runtime.placement.cpu_offload_bytes.value_or(0)),
        measured_pool=int(case.runtime.cache.capacity_tokens.value_or(0)),
    )
    return question._replace(current=current_vllm(question, case))


def checkpoints_of(found: FoundShape, family: str) -> tuple[Checkpoint, ...]:
    """The weights as vLLM loads them, and rounded while they are loaded where that can be."""
    first = _as_loaded(found)
    if found.packing or first.types != HALF or family not in PACKS_AT_LOAD:
        return (first,)
    parts = tuple(p._replace(bytes=p.bytes // 2) if p.role in _PACKED_AT_LOAD else p for p in first.parts)
    return first, Checkpoint(found.name, "FP8", parts, BYTES, "FP8 per tensor", packed_at_load=True)


def _as_loaded(found: FoundShape) -> Checkpoint:
    parts = tuple(found.loaded_by_vllm().parts)
    grouped = "/" in found.source and any(word in found.packing.lower() for word in _GROUPED)
    align = _GROUP if grouped else 1
    return Checkpoint(found.name, found.quant, parts, type_class(found.quant), found.packing, align=align)


def current_vllm(question: VllmPlanQuestion, case: CaseView) -> Choice:
    """What the server was told, with the defaults of its version for the rest."""
    runtime = case.runtime
    usual = question._replace(current=None).default()
    kv = str(runtime.cache.type_k.value_or("auto")).lower()
    return Choice(
        checkpoint=0,
        tensor=int(runtime.placement.tensor_parallel.value_or(1)),
        pipeline=int(runtime.placement.pipeline_parallel.value_or(1)),
        share=round(float(runtime.memory.gpu_memory_fraction.value_or(usual.share)), 4),
        context=int(runtime.context.length.value_or(usual.context)),
        sequences=int(runtime.scheduling.max_sequences.value_or(usual.sequences)),
        batched=int(runtime.scheduling.max_batched_tokens.value_or(usual.batched)),
        kv="fp8" if kv.startswith("fp8") else "auto",
        eager=bool(runtime.compute.eager.value_or(default=False)),
    )


def other_checkpoints(system: System, found: FoundShape) -> list[FoundShape]:
    """Those of the same name and shape in another format, the largest first."""
    known, others = {found.quant}, []
    name, folder = _identity(found.name), posixpath.dirname(found.source.rstrip("/"))
    seen = find_everywhere(system, [folder] if folder else []).models[:MOST_SEEN]
    namesakes = [m for m in seen if m.path.rstrip("/") != found.source.rstrip("/") and _identity(m.name) == name]
    for stored in (with_header(system, model) for model in namesakes[:MOST_TAKEN]):
        if stored.format != "safetensors" or stored.broken:
            continue
        try:
            other = find_shape(system, stored.path, None)
        except UserError:
            continue
        near = abs(other.parameters - found.parameters) <= _LIKE * max(1, found.parameters)
        near = near or not other.parameters or not found.parameters
        alike = all(getattr(other.shape, name) == getattr(found.shape, name) for name in ("layers", "width", "heads"))
        if other.packing != _ELSEWHERE and other.quant not in known and alike and near:
            known.add(other.quant)
            others.append(other)
    return sorted(others, key=lambda one: -sum(part.bytes for part in one.parts))


def _identity(name: str) -> str:
    """The model that a name means, whatever format it tells of."""
    try:
        return find_model(name).name
    except UserError:
        return split_quant(name.rstrip("/").rpartition("/")[2])[0].casefold()


def transformers_question(
    request: PlanRequest, asked: AskedPlan, cards: Hardware, case: CaseView | None
) -> TransformersPlanQuestion:
    """The question with all that the case tells."""
    found = asked.found
    stored = "float32" if found.dtype_bytes == _WIDE else _TYPES.get(found.quant.upper(), "bfloat16")
    question = TransformersPlanQuestion(
        shape=found.shape,
        parts=tuple(found.parts),
        quant=found.quant,
        types=type_class(found.quant),
        hardware=cards,
        goal=asked.goal.goal_shown(),
        stored=stored,
        packed=bool(found.packing),
        version=version_of(case, TRANSFORMERS_RECENT),
        parameters=found.parameters,
        architecture=found.architecture,
        margin_bytes=margin_of(request, cards.rooms) if request.margin_bytes else 0,
    )
    if case is None or request.devices != ("auto",):
        return question
    return question._replace(current=current_transformers(question, case))


def current_transformers(question: TransformersPlanQuestion, case: CaseView) -> TransformersChoice:
    """What the model object tells of itself; a step that is compiled has a static cache."""
    runtime, usual = case.runtime, question.now
    dtype = str(runtime.compute.weights_type.value_or(usual.dtype))
    on = {buffer.device for buffer in runtime.memory.buffers.value_or([])}
    return TransformersChoice(
        dtype=dtype if dtype in TRANSFORMERS_BYTES else usual.dtype,
        attention=str(runtime.compute.attention.value_or(usual.attention)),
        cache="dynamic" if runtime.compute.eager.value_or(default=True) else "static",
        device_map=ALL_ON_ONE if on == {ALL_ON_ONE} else SPREAD_OUT,
    )


def cards_of_case(case: CaseView) -> Hardware | Unknown:
    """The cards of the machine that a server runs on, without what the server itself holds.

    Where it runs several copies of the model, each on cards of its own, the cards are those of one.
    """
    gpus, name = case.gpus.usable, case.runtime.name.value_or("it")
    other = _OF_ANOTHER.format(word=name.lower())
    if case.runtime.placement.device_used.value_or("") == "cpu":
        return Unknown(f"{name} runs on the CPU here, and unslow plans it for GPUs only", other)
    kinds = {device_of(gpu) for gpu in gpus}
    if len(kinds) > 1:
        gpus = case.gpus.in_use
        kinds = {device_of(gpu) for gpu in gpus}
    device = next(iter(kinds)) if len(kinds) == 1 else None
    rooms = [room for gpu in gpus if (room := _room(case, gpu))]
    if device is None or not device.memory_bytes_per_s or len(rooms) != len(gpus):
        names = ", ".join(dict.fromkeys(gpu.name.value_or("?") for gpu in gpus))
        return Unknown(f"{names}: mixed, or not in the catalog" if gpus else NO_GPU, other)
    copies = case.gpus.model_copies
    notes: tuple[str, ...] = ()
    if copies > 1:
        rooms = rooms[: max(1, len(rooms) // copies)]
        notes = (f"It runs {copies} copies of the model; the plan is for one copy and its share of the users",)
    return Hardware(
        tuple(rooms),
        host_room_of(case.machine.memory),
        devices=(device,) * len(rooms),
        linked=bool(case.gpus.have_fast_links),
        link_bytes_per_s=_slot(gpus),
        notes=notes,
    )


def _room(case: CaseView, gpu: Gpu) -> Room | None:
    """Without what the server holds of the card: as the driver lists it, else the share that it was told to take."""
    room = room_of_gpu(gpu, case.machine.memory) if isinstance(gpu.vram_total_bytes, Known) else None
    if room is None:
        return None
    listed = [p for p in gpu.processes.value_or([]) if case.vram.is_own(p, on_gpu=True)]
    sizes = [int(p.vram_bytes.value) for p in listed if isinstance(p.vram_bytes, Known)]
    own, share = sum(sizes), case.runtime.memory.gpu_memory_fraction
    if not sizes and gpu in case.gpus.in_use and case.runtime.state.value_or("loaded") == "loaded":
        weights = sum(b.bytes for b in case.runtime.memory.buffers.value_or([]) if b.on_gpu)
        own = round(room.capacity_bytes * share.value) if isinstance(share, Known) else weights
    return room._replace(others_bytes=max(0, room.others_bytes - own))


def named_cards(system: System, request: PlanRequest) -> Hardware | Unknown:
    """The cards that the flags name, or this machine's."""
    asked = HardwareRequest(
        request.devices, ram_bytes=request.ram_bytes, ram_bandwidth=request.ram_bandwidth, runtime=request.runtime
    )
    cards = find_hardware(system, asked)
    if isinstance(cards, Unknown):
        return cards
    if cards.device.kind == "cpu" or not cards.rooms:
        return Unknown(NO_GPU, "name the GPU: --device 'RTX 4090'")
    here = CaseView(Case(machine=cards.machine)) if cards.machine else None
    linked = bool(here and here.gpus.have_fast_links)
    return cards._replace(linked=linked, link_bytes_per_s=_slot(here.gpus.usable) if here else 0.0)


def _slot(gpus: tuple[Gpu, ...]) -> float:
    """What the slot with the fewest lanes carries."""
    known = [g for g in gpus if isinstance(g.pcie_width, Known) and isinstance(g.pcie_generation_max, Known)]
    return min((link_bytes_per_s(g.pcie_generation_max.need(), g.pcie_width.need()) for g in known), default=0.0)


def asked_for(system: System, request: PlanRequest, case: CaseView | None, copies: int = 1) -> AskedPlan:
    """What is to be planned; UserError where the model or the request can't be."""
    found = find_hf_model(system, request, case)
    trained = found.shape.positions or USUAL_CONTEXT
    running = int(case.runtime.context.length.value_or(0)) if case else 0
    context = request.context or running or min(USUAL_CONTEXT, trained)
    users, notes = request.users, list[str]()
    if case and users == 1 and "users" not in request.given:  # as many as the server has in work and waiting
        work = case.runtime.scheduling
        busy, queued = work.running_requests.value_or(0), work.deferred_requests.value_or(0)
        users = max(1, min(MOST_USERS, int(busy + queued)))
        if users > 1:
            now = f"{int(busy)} requests running and {int(queued)} queued now"
            notes.append(f"Planned for {users} concurrent users: {now}")
    return AskedPlan(found, goal_within(request, context, max(1, -(-users // copies))), tuple(notes))


def find_hf_model(system: System, request: PlanRequest, case: CaseView | None) -> FoundShape:
    """The model that was named, else the one that runs: by its files, its name, or what was told of it."""
    words = [request.model] if request.model else []
    if case is not None and not words:
        words = [w for w in (case.model.path.value_or(""), case.model.name.value_or("")) if w]
    if not words and case is not None:
        raise UnreadModelError("its model is unknown", "run unslow on the machine itself")
    if not words:
        raise UserError("no model given", "`unslow plan MODEL --runtime vllm`: a folder of safetensors, or a name")
    errors = []
    for word in words:
        try:
            return find_shape(system, word, request.quant or _quant(case), request.runtime)
        except UserError as error:
            errors.append(error)
    told = told_model(case) if case is not None and not request.model else None
    if told is not None:
        return told
    raise errors[0] if case is None else UnreadModelError(errors[0].message, errors[0].hint)


def _quant(case: CaseView | None) -> str | None:
    """What the weights of a running model are packed in, where that is a format of safetensors."""
    word = case.model.quant.value_or("") if case else ""
    try:
        return find_scheme(word).packing.name if word and type_class(word) != HALF else None
    except UserError:
        return None


def told_model(case: CaseView) -> FoundShape | None:
    """The model by the facts of a snapshot."""
    shape, quant = shape_of_facts(case.model), case.model.quant.value_or("BF16")
    if shape is None:
        return None
    try:
        storage = plain_storage(2) if type_class(quant) == HALF else packed_storage(find_scheme(quant))
    except UserError:
        return None
    return FoundShape(
        name=case.model.name.value_or("a model"), architecture=case.model.architecture.value_or(""), shape=shape,
        parts=parts_of_shape(shape, storage), quant=quant, packing=storage.packing, source="reported by the server",
        parameters=int(case.model.parameters.value_or(0)),
        notes=("Model files not readable; using the shape reported by the server",),
    )  # fmt: skip


def version_of(case: CaseView | None, default: tuple[int, int]) -> tuple[int, int]:
    """The version that runs, else the one that is planned for."""
    match = _VERSION.match(case.runtime.version.value_or("")) if case else None
    return (int(match[1]), int(match[2])) if match else default


def _verdict(planned: FrontAndChoice, asked: AskedPlan) -> Verdict:
    """Whether there is something to gain: speed, room that was asked for, or with another aim anything changed."""
    if planned.recommended is None:
        return "impossible"
    best = planned.options[planned.recommended]
    if best.speedup is None or not best.changes:
        return "better" if best.speedup is None else "already_best"
    wanted = min(asked.goal.context, asked.found.shape.positions or asked.goal.context)
    lacks_room = planned.current is not None and planned.current.context < wanted <= best.context
    slow = asked.goal.aim == "speed" and best.speedup < WORTH_A_CHANGE
    return "already_best" if slow and not lacks_room else "better"
