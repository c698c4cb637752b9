"""The plan for llama.cpp and what is built on it."""

from collections import Counter
from collections.abc import Collection, Sequence

import msgspec

from unslow import __version__
from unslow.app.fit.gguf_settings import DEFAULT_CONTEXT, default_context
from unslow.app.fit.models import OLLAMA, Found, find_gguf_model
from unslow.app.plan.drafts import find_draft
from unslow.app.plan.files import variants_of
from unslow.app.plan.machines import planned_hardware
from unslow.app.plan.margins import margin_of
from unslow.app.plan.told import context_notes, host_notes
from unslow.commands.plan import PlanRequest
from unslow.facts.errors import UserError
from unslow.facts.knob import Knob
from unslow.facts.units import GIB, MIB
from unslow.facts.values import Unknown
from unslow.look.system import System
from unslow.think.adapt.remembered import one_judgement
from unslow.think.hardware import Hardware, Room, threads_by_itself
from unslow.think.plan.goal import Goal, Work
from unslow.think.plan.llama_cpp.abilities import EVERYTHING, Abilities
from unslow.think.plan.llama_cpp.abilities import OLLAMA as OLLAMA_ABILITIES
from unslow.think.plan.llama_cpp.host_alone import plan_with_or_without_gpus
from unslow.think.plan.llama_cpp.question import Question
from unslow.think.plan.llama_cpp.whole import fits_whole
from unslow.think.plan.planned import Planned
from unslow.think.plan.report import OptionShown, PlanReport, Verdict

USUAL_PROMPT = 512
ABILITIES = {
    "llama.cpp": EVERYTHING,
    "ollama": OLLAMA_ABILITIES,
    "lm_studio": Abilities(apart=False, micro_batches=(512,), unmapped=False, mixed_cache=False),
}
"""LM Studio knows a share of layers, and its place."""
_LACKING: dict[Knob, Abilities] = {
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
_WORTH_A_CHANGE = 1.05
"""Less of a gain is within what a prediction is off."""


def abilities_of(runtime: str, lacking: Collection[Knob] = ()) -> Abilities:
    """What a runtime lets its user set, less what the version at hand has no words for."""
    able = ABILITIES[runtime]
    for knob in lacking:
        less = _LACKING.get(knob, Abilities())
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


def decides(knob: Knob) -> bool:
    """Whether a plan would be another one without this setting."""
    return knob in _LACKING


@one_judgement()
def plan_for_model(
    system: System, request: PlanRequest, lacking: Collection[Knob] = ()
) -> tuple[PlanRequest, PlanReport, Found]:
    """The best settings for a model that a user names, against what llama.cpp would choose by itself.

    With the request as it was taken: a model of Ollama's store is for Ollama, unless another runtime was named.
    """
    if request.model is None:
        raise UserError("which model?", "`unslow plan MODEL`: a GGUF file, or a name such as llama-3.3-70b")
    found = find_gguf_model(system, request.model, request.quant)
    if found.incomplete:
        raise UserError(f"{found.source}: {found.incomplete}", "download it again")
    if found.tool == OLLAMA and "runtime" not in request.given:
        request = request._replace(runtime="ollama")
    hardware = planned_hardware(system, request, found.blueprint)
    goal = goal_of(request, found, () if isinstance(hardware, Unknown) else hardware.rooms)
    if isinstance(hardware, Unknown):
        return request, unknown_report(request, found, goal, hardware), found
    question = _question(system, request, found, goal, hardware, abilities_of(request.runtime, lacking))
    itself = request.threads or threads_by_itself(hardware.machine) or question.threads
    planned, current = plan_with_or_without_gpus(question, (), itself)
    alone = _incomparable(question, planned, current)
    taken = (*host_notes(hardware, request), *context_notes(goal, found.blueprint), *alone)
    notes = (*found.notes, *hardware.notes, *taken, *planned.notes)
    names = [device.name for device in hardware.devices]
    report = report_of(request, found, goal, planned, machine_words(names, hardware.host_room))
    report = msgspec.structs.replace(report, current=current, notes=notes, stands_for=found.stands_for)
    return request, report, found


def _incomparable(question: Question, planned: Planned, current: OptionShown | None) -> tuple[str, ...]:
    told = f"what {question.runtime} does by itself finds no room here, so there is nothing to compare with"
    return (told,) if current is None and planned.recommended is not None else ()


def goal_of(request: PlanRequest, found: Found, rooms: Sequence[Room]) -> Goal:
    """What was asked for, with what is usual where nothing was said; UserError where it can't be."""
    trained = found.blueprint.count("context_length", DEFAULT_CONTEXT) or DEFAULT_CONTEXT
    context = request.context or default_context(request.runtime, trained, rooms, found.settings)
    return goal_within(request, context, request.users)._replace(alone=request.this_work_only)


def goal_within(request: PlanRequest, context: int, users: int) -> Goal:
    """The work that was asked for, by so many users in contexts of so many tokens; UserError where it can't be."""
    prompt = request.prompt or min(USUAL_PROMPT, max(1, context // 2))
    room = max(1, context - prompt - request.kept)
    answer = request.answer if "answer" in request.given else min(request.answer, room)
    work = Work(prompt, request.kept, answer, users)
    if work.tokens > context:
        hint = f"a longer --context, or fewer tokens: {request.kept:,} kept, {prompt:,} new and {answer:,} answered"
        raise UserError(f"the request does not fit a context of {context:,} tokens", hint)
    return Goal(context, work, request.aim, request.least_tokens_per_s, request.worst_perplexity_increase)


def _question(
    system: System, request: PlanRequest, found: Found, goal: Goal, hardware: Hardware, abilities: Abilities
) -> Question:
    margin = margin_of(request, hardware.rooms)
    return Question(
        variants=variants_of(system, found, lambda plan: fits_whole(plan, hardware, goal, margin)),
        hardware=hardware,
        goal=goal,
        margin_bytes=margin,
        threads=request.threads or hardware.processors.cores,
        abilities=abilities,
        draft=find_draft(system, request, found.blueprint),
        runtime=RUNTIME_NAMES.get(request.runtime, request.runtime),
    )


def report_of(request: PlanRequest, found: Found, goal: Goal, planned: Planned, machine: str) -> PlanReport:
    """The answer but for what is now, and for notes."""
    return PlanReport(
        unslow_version=__version__,
        model=found.name,
        runtime=request.runtime,
        machine=machine,
        goal=goal.shown(),
        verdict=_verdict(planned, goal),
        reason=planned.reason,
        hint=planned.hint,
        recommended=planned.recommended,
        options=planned.options if request.runtime == "llama.cpp" else tuple(map(_without_fit, planned.options)),
        rejected=planned.rejected,
        searched=planned.searched,
    )


def _without_fit(option: OptionShown) -> OptionShown:
    """What is built on llama.cpp has no switch for its fit: the number of layers turns it off."""
    kept = (tuple(c for c in changes if c.knob != Knob.FIT) for changes in (option.changes, option.settings))
    return msgspec.structs.replace(option, **dict(zip(("changes", "settings"), kept, strict=True)))


def _verdict(planned: Planned, goal: Goal) -> Verdict:
    if planned.recommended is None:
        return "impossible"
    best = planned.options[planned.recommended]
    if not best.changes:
        return "already_best"
    slow = best.speedup is not None and best.speedup < _WORTH_A_CHANGE
    return "already_best" if slow and goal.aim == "speed" else "better"


def machine_words(names: Sequence[str], host: Room | None) -> str:
    """The devices, those of one name counted, and how much memory the host has."""
    devices = ", ".join(f"{count}x {name}" if count > 1 else name for name, count in Counter(names).items())
    if host is None:
        return devices
    held = host.capacity_bytes
    size = f"{held / GIB:.0f} GiB" if held >= GIB else f"{held / MIB:.0f} MiB"
    return f"{devices} and {size} of the host"


def unknown_report(request: PlanRequest, found: Found, goal: Goal, why: Unknown) -> PlanReport:
    """Where nothing can be planned: why."""
    return PlanReport(
        unslow_version=__version__, model=found.name, runtime=request.runtime, machine=", ".join(request.devices),
        goal=goal.shown(), verdict="cannot_tell", reason=why.why, hint=why.how_to_get, notes=found.notes,
    )  # fmt: skip
