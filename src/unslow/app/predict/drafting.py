"""The speed with a draft model beside the large one."""

from unslow.app.fit.models import Found, find_gguf_model
from unslow.app.predict.cases import Case, case_of
from unslow.commands.predict import PredictRequest
from unslow.facts.values import Unknown
from unslow.look.system import System
from unslow.think.hardware import Hardware
from unslow.think.physics.interval import Interval
from unslow.think.physics.speculative import accepted_tokens, break_even, speculative_rate
from unslow.think.speed import outcome
from unslow.think.speed.report import RateShown, SpeculativeShown
from unslow.think.speed.trust import WIDER, widened

USUAL_ACCEPTANCE = 0.7
"""Of a draft model of the same family on ordinary text, where nothing is said."""


def find_draft(system: System, request: PredictRequest) -> Found | None:
    """The draft model, where one is asked for."""
    return find_gguf_model(system, request.draft, None) if request.draft else None


def beside(hardware: Hardware, draft: Found | None) -> Hardware:
    """The hardware with the draft's weights already on the first GPU."""
    return hardware.holding(sum(t.bytes for t in draft.blueprint.tensors)) if draft else hardware


def drafted(case: Case, draft: Found, hardware: Hardware, request: PredictRequest) -> SpeculativeShown | None:
    """What drafting gives; None where the draft model can't be predicted there."""
    small = case_of(draft, hardware._replace(rooms=()), request)
    if isinstance(small, Unknown):
        return None
    count = request.draft_tokens
    acceptance = USUAL_ACCEPTANCE if request.acceptance is None else request.acceptance
    plain = outcome.decode(case.question, case.group)
    check_s, draft_s = _check_s(case, count), outcome.decode(small.question, small.group).seconds
    rate = speculative_rate(count, acceptance, check_s, draft_s)
    ratio = rate / plain.rate.mid
    interval = widened(Interval(*(end * ratio for end in plain.rate)), WIDER * case.trust.wider)
    return SpeculativeShown(
        draft=f"{draft.name} {draft.quant}",
        draft_tokens=count,
        acceptance=acceptance,
        accepted_per_step=accepted_tokens(count, acceptance),
        tokens_per_s=RateShown(low=interval.low, mid=interval.mid, high=interval.high),
        speedup=ratio,
        break_even_acceptance=break_even(count, check_s, draft_s, plain.seconds),
    )


def _check_s(case: Case, count: int) -> float:
    """Checking is a step of so many tokens more, which share the keys and values of one conversation."""
    tokens = count + 1.0
    question = case.question._replace(tokens=tokens, depth=case.question.depth / tokens)
    return outcome.decode(question, case.group).seconds
