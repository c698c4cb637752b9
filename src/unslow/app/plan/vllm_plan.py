"""The plan for vLLM: for a model and cards that a user names, or for a server that runs."""

from collections.abc import Sequence

from unslow.app.fit.hf_models import FoundShape
from unslow.app.plan.hf_cards import cards_of_case, named_cards
from unslow.app.plan.hf_report import Asked, asked_for, report_of, unknown_report, version_of
from unslow.app.plan.hf_siblings import other_checkpoints
from unslow.app.plan.margins import margin_of
from unslow.catalog.weight_parts import Part, Role
from unslow.commands.plan import PlanRequest
from unslow.facts.snapshot import Case
from unslow.facts.values import Unknown
from unslow.look.system import System
from unslow.think.adapt.several_gpus import copies_of
from unslow.think.hardware import Hardware
from unslow.think.physics.kinds import BYTES, HALF
from unslow.think.plan.report import PlanReport
from unslow.think.plan.vllm.plan import vllm_options
from unslow.think.plan.vllm.question import RECENT, Checkpoint, Choice, Question
from unslow.think.plan.vllm.space import PACKS_AT_LOAD
from unslow.think.speed.types import class_of

_PACKED_AT_LOAD = frozenset({Role.QUERY, Role.KEY_VALUE, Role.FEED_FORWARD, Role.EXPERTS})
_GROUPED = ("awq", "gptq", "w4a16", "compressed", "block", "nvfp4")
_GROUP = 128
"""Weights that share a scale in such checkpoints, as most are made."""


def plan_vllm(system: System, request: PlanRequest, case: Case | None = None) -> PlanReport:
    """The best settings; what runs is described beside them where a case is given."""
    cards = cards_of_case(case) if case and request.devices == ("auto",) else named_cards(system, request)
    runs_on_them = case is not None and request.devices == ("auto",) and isinstance(cards, Hardware)
    asked = asked_for(system, request, case, copies_of(case) if case and runs_on_them else 1)
    if isinstance(cards, Unknown):
        return unknown_report(request, asked.found.name, asked.goal, cards)
    others = other_checkpoints(system, asked.found) if "/" in asked.found.source else []
    question = question_of(request, asked, cards, case, others)
    found = vllm_options(question)
    return report_of(request, asked, cards, found.planned, found.current)


def question_of(
    request: PlanRequest, asked: Asked, cards: Hardware, case: Case | None, others: Sequence[FoundShape] = ()
) -> Question:
    """The question with all that the case tells; `others` are the same model in other formats."""
    found = asked.found
    question = Question(
        shape=found.shape,
        checkpoints=(*checkpoints_of(found, cards.device.family), *map(_beside, others)),
        hardware=cards,
        goal=asked.goal.shown(),
        version=version_of(case, RECENT),
        parameters=found.parameters,
        architecture=found.architecture,
        margin_bytes=margin_of(request, cards.rooms) if request.margin_bytes else 0,
        exact_context=case is None and bool(request.context) and request.aim != "context",
    )
    if case is None or request.devices != ("auto",):
        return question
    question = question._replace(
        prefix_caching=case.runtime.prompt_cache.value_or(default=True),
        offloaded_bytes=int(case.runtime.cpu_offload_bytes.value_or(0)),
        measured_pool=int(case.runtime.kv_capacity_tokens.value_or(0)),
    )
    return question._replace(current=current_of(question, case))


def checkpoints_of(found: FoundShape, family: str) -> tuple[Checkpoint, ...]:
    """The weights as vLLM loads them, and rounded while they are loaded where that can be."""
    first = _as_loaded(found)
    if found.packing or first.types != HALF or family not in PACKS_AT_LOAD:
        return (first,)
    rounded = tuple(_rounded(part) for part in first.parts)
    at_load = Checkpoint(found.name, "FP8", rounded, BYTES, "FP8 per tensor", packed_at_load=True)
    return first, at_load


def _as_loaded(found: FoundShape) -> Checkpoint:
    parts = tuple(found.loaded_by_vllm().parts)
    grouped = "/" in found.source and any(word in found.packing.lower() for word in _GROUPED)
    align = _GROUP if grouped else 1
    return Checkpoint(found.name, found.quant, parts, class_of(found.quant), found.packing, align=align)


def _beside(found: FoundShape) -> Checkpoint:
    """Another checkpoint, by its folder."""
    return _as_loaded(found)._replace(path=found.source)


def _rounded(part: Part) -> Part:
    return part._replace(bytes=part.bytes // 2) if part.role in _PACKED_AT_LOAD else part


def current_of(question: Question, case: Case) -> Choice:
    """What the server was told, with the defaults of its version for the rest."""
    runtime = case.runtime
    usual = question._replace(current=None).default()
    kv = str(runtime.kv_type_k.value_or("auto")).lower()
    return Choice(
        checkpoint=0,
        tensor=int(runtime.tensor_parallel.value_or(1)),
        pipeline=int(runtime.pipeline_parallel.value_or(1)),
        share=round(float(runtime.gpu_memory_fraction.value_or(usual.share)), 4),
        context=int(runtime.context_length.value_or(usual.context)),
        sequences=int(runtime.max_sequences.value_or(usual.sequences)),
        batched=int(runtime.max_batched_tokens.value_or(usual.batched)),
        kv="fp8" if kv.startswith("fp8") else "auto",
        eager=bool(runtime.eager.value_or(default=False)),
    )
