"""What plans for vLLM and Transformers share: the model, the goal, and the report."""

import re
from typing import NamedTuple

from unslow import __version__
from unslow.app.fit.hf_models import FoundShape, find_shape
from unslow.app.plan.llama_cpp_plan import goal_within
from unslow.app.plan.unread import UnreadModelError
from unslow.catalog.scheme_words import find_scheme
from unslow.catalog.weight_parts import packed, parts_of_shape, plainly
from unslow.commands.plan import PlanRequest
from unslow.facts.errors import UserError
from unslow.facts.snapshot import Case
from unslow.facts.values import Unknown
from unslow.look.system import System
from unslow.think.hardware import Hardware
from unslow.think.physics.kinds import HALF
from unslow.think.plan.facts_shape import shape_of_facts
from unslow.think.plan.goal import Goal
from unslow.think.plan.planned import Planned
from unslow.think.plan.report import OptionShown, PlanReport, Verdict
from unslow.think.speed.types import class_of

USUAL_CONTEXT = 8192
MOST_USERS = 256
WORTH_A_CHANGE = 1.05
"""Less of a gain is within what a prediction is off."""
_VERSION = re.compile(r"v?(\d{1,4})\.(\d{1,4})")


class Asked(NamedTuple):
    """The model and the goal, as far as they don't depend on the runtime."""

    found: FoundShape
    goal: Goal
    notes: tuple[str, ...] = ()


def asked_for(system: System, request: PlanRequest, case: Case | None, copies: int = 1) -> Asked:
    """What is to be planned; UserError where the model or the request can't be."""
    found = find_hf_model(system, request, case)
    trained = found.shape.positions or USUAL_CONTEXT
    running = int(case.runtime.context_length.value_or(0)) if case else 0
    context = request.context or running or min(USUAL_CONTEXT, trained)
    users, notes = _users(request, case)
    return Asked(found, goal_within(request, context, max(1, -(-users // copies))), notes)


def _users(request: PlanRequest, case: Case | None) -> tuple[int, tuple[str, ...]]:
    """As asked; where nobody said, as many as the server has in work and waiting."""
    if case is None or request.users > 1 or "users" in request.given:
        return request.users, ()
    running, waiting = case.runtime.running_requests.value_or(0), case.runtime.deferred_requests.value_or(0)
    seen = min(MOST_USERS, int(running + waiting))
    if seen <= 1:
        return 1, ()
    return seen, (f"planned for {seen} users at a time: {int(running)} requests run and {int(waiting)} wait now",)


def find_hf_model(system: System, request: PlanRequest, case: Case | None) -> FoundShape:
    """The model that was named, else the one that runs: by its files, its name, or what was told of it."""
    words = [request.model] if request.model else []
    if case is not None and not words:
        words = [w for w in (case.model.path.value_or(""), case.model.name.value_or("")) if w]
    if not words and case is not None:
        raise UnreadModelError("which model it runs is not known", "run unslow on the machine itself")
    if not words:
        raise UserError("which model?", "`unslow plan MODEL --runtime vllm`: a folder of safetensors, or a name")
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


def _quant(case: Case | None) -> str | None:
    """What the weights of a running model are packed in, where that is a format of safetensors."""
    word = case.model.quant.value_or("") if case else ""
    try:
        return find_scheme(word).packing.name if word and class_of(word) != HALF else None
    except UserError:
        return None


def told_model(case: Case) -> FoundShape | None:
    """The model by the facts of a snapshot."""
    shape, quant = shape_of_facts(case.model), case.model.quant.value_or("BF16")
    if shape is None:
        return None
    try:
        storage = plainly(2) if class_of(quant) == HALF else packed(find_scheme(quant))
    except UserError:
        return None
    return FoundShape(
        name=case.model.name.value_or("a model"), architecture=case.model.architecture.value_or(""), shape=shape,
        parts=parts_of_shape(shape, storage), quant=quant, packing=storage.packing, source="what the server told",
        parameters=int(case.model.parameters.value_or(0)),
        notes=("its files could not be read: its shape is what the server's own numbers say",),
    )  # fmt: skip


def version_of(case: Case | None, default: tuple[int, int]) -> tuple[int, int]:
    """The version that runs, else the one that is planned for."""
    match = _VERSION.match(case.runtime.version.value_or("")) if case else None
    return (int(match[1]), int(match[2])) if match else default


def report_of(
    request: PlanRequest, asked: Asked, cards: Hardware, planned: Planned, current: OptionShown | None
) -> PlanReport:
    """The whole answer."""
    return PlanReport(
        unslow_version=__version__,
        model=asked.found.name,
        runtime=request.runtime,
        machine=_machine_words(cards),
        goal=asked.goal.shown(),
        verdict=_verdict(planned, asked, current),
        reason=planned.reason,
        hint=planned.hint,
        current=current,
        recommended=planned.recommended,
        options=planned.options,
        rejected=planned.rejected,
        searched=planned.searched,
        notes=tuple(dict.fromkeys((*asked.notes, *asked.found.notes, *cards.notes, *planned.notes))),
    )


def _machine_words(cards: Hardware) -> str:
    return f"{len(cards.rooms)}x {cards.device.name}" if len(cards.rooms) > 1 else cards.device.name


def _verdict(planned: Planned, asked: Asked, current: OptionShown | None) -> Verdict:
    """Whether there is something to gain: speed, room that was asked for, or with another aim anything changed."""
    if planned.recommended is None:
        return "impossible"
    best = planned.options[planned.recommended]
    if best.speedup is None or not best.changes:
        return "better" if best.speedup is None else "already_best"
    wanted = min(asked.goal.context, asked.found.shape.positions or asked.goal.context)
    lacks_room = current is not None and current.context < wanted <= best.context
    slow = asked.goal.aim == "speed" and best.speedup < WORTH_A_CHANGE
    return "already_best" if slow and not lacks_room else "better"


def unknown_report(request: PlanRequest, model: str, goal: Goal, why: Unknown) -> PlanReport:
    """Where nothing can be planned."""
    devices = ", ".join(request.devices)
    return PlanReport(
        unslow_version=__version__, model=model, runtime=request.runtime,
        machine="no known GPU" if devices == "auto" else devices,
        goal=goal.shown(), verdict="cannot_tell", reason=why.why, hint=why.how_to_get,
    )  # fmt: skip
