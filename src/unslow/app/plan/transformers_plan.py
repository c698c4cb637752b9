"""The plan for Transformers: for a model and cards that a user names, or for a model that is loaded."""

from unslow.app.plan.hf_cards import cards_of_case, named_cards
from unslow.app.plan.hf_report import Asked, asked_for, report_of, unknown_report, version_of
from unslow.app.plan.margins import margin_of
from unslow.commands.plan import PlanRequest
from unslow.facts.snapshot import Case
from unslow.facts.values import Unknown
from unslow.look.system import System
from unslow.think.hardware import Hardware
from unslow.think.plan.report import PlanReport
from unslow.think.plan.transformers.plan import transformers_options
from unslow.think.plan.transformers.question import ALL_ON_ONE, BYTES, RECENT, SPREAD_OUT, Choice, Question
from unslow.think.speed.types import class_of

_WIDE = 4
_TYPES = {"F16": "float16", "F32": "float32", "FLOAT16": "float16", "FLOAT32": "float32"}


def plan_transformers(system: System, request: PlanRequest, case: Case | None = None) -> PlanReport:
    """The best settings; what runs is described beside them where a case is given."""
    cards = cards_of_case(case) if case and request.devices == ("auto",) else named_cards(system, request)
    asked = asked_for(system, request, case)
    if isinstance(cards, Unknown):
        return unknown_report(request, asked.found.name, asked.goal, cards)
    found = transformers_options(question_of(request, asked, cards, case))
    return report_of(request, asked, cards, found.planned, found.current)


def question_of(request: PlanRequest, asked: Asked, cards: Hardware, case: Case | None) -> Question:
    """The question with all that the case tells."""
    found = asked.found
    stored = "float32" if found.dtype_bytes == _WIDE else _TYPES.get(found.quant.upper(), "bfloat16")
    question = Question(
        shape=found.shape,
        parts=tuple(found.parts),
        quant=found.quant,
        types=class_of(found.quant),
        hardware=cards,
        goal=asked.goal.shown(),
        stored=stored,
        packed=bool(found.packing),
        version=version_of(case, RECENT),
        parameters=found.parameters,
        architecture=found.architecture,
        margin_bytes=margin_of(request, cards.rooms) if request.margin_bytes else 0,
    )
    if case is None or request.devices != ("auto",):
        return question
    return question._replace(current=current_of(question, case))


def current_of(question: Question, case: Case) -> Choice:
    """What the model object tells of itself; a step that is compiled has a static cache."""
    runtime, usual = case.runtime, question.now
    dtype = str(runtime.weights_type.value_or(usual.dtype))
    on = {buffer.device for buffer in runtime.buffers.value_or([])}
    return Choice(
        dtype=dtype if dtype in BYTES else usual.dtype,
        attention=str(runtime.attention.value_or(usual.attention)),
        cache="dynamic" if runtime.eager.value_or(default=True) else "static",
        device_map=ALL_ON_ONE if on == {ALL_ON_ONE} else SPREAD_OUT,
    )
