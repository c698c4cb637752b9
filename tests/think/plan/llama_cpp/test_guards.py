"""Floors are part of the search: options that meet them are found, not only filtered afterwards."""

import msgspec
import pytest
from tests.think.plan.llama_cpp import planning

from unslow.facts.errors import UserError
from unslow.think.memo import one_judgement
from unslow.think.plan.goal import Goal, Work
from unslow.think.plan.llama_cpp.choose import choose
from unslow.think.plan.llama_cpp.pieces import Pieces
from unslow.think.plan.llama_cpp.placing import Placing
from unslow.think.plan.llama_cpp.points import MOST_TOKENS, Points
from unslow.think.plan.llama_cpp.price import Guard, Price, Pricing, floor_of, other_work
from unslow.think.plan.llama_cpp.question import EVERYTHING, LlamaPlanQuestion, Variant

PIECES = Pieces(planning.blueprint())
GIVEN = Variant("Q4_K_M", PIECES, 135_000_000, given=True, at_hand=True)
SMALL_GPU = planning.hardware(0.30)


def question(goal: Goal) -> LlamaPlanQuestion:
    return LlamaPlanQuestion((GIVEN,), SMALL_GPU, goal, planning.MARGIN_BYTES, 8)


def test_guard_limits_request_time_and_token_time() -> None:
    price = Price(step_s=0.1, prompt_token_s=0.01, request_s=5.0)
    pricing = Pricing(PIECES, SMALL_GPU, Work())
    assert Guard(pricing).allows(price)
    assert not Guard(pricing, most_s=4.9).allows(price)
    assert not Guard(pricing, most_step_s=0.09).allows(price)


def test_other_work_fills_the_context() -> None:
    long, deep = other_work(Work(32, 0, 64), 8192)
    assert (long.prompt, long.kept) == (4096, 0)
    assert deep.tokens == 8192


def test_context_aim_checks_the_speed_floor_at_full_context() -> None:
    aim, work = Goal(2048, Work(), "context", least_tokens_per_s=20), Goal(2048, Work(), least_tokens_per_s=20)
    (full,), (usual,) = (floor_of(question(goal), GIVEN, 2048) for goal in (aim, work))
    assert full.most_step_s == usual.most_step_s == 0.05
    assert full.pricing.work.depth > usual.pricing.work.depth
    assert floor_of(question(Goal(2048)), GIVEN, 2048) == ()


def test_speed_floor_changes_the_placement() -> None:
    """The fastest placement for the usual work is not the fastest at full context."""
    goal = Goal(8192, Work(512, 0, 64), "context")
    with one_judgement():
        free = Points(question(goal)).at(GIVEN, "F16", "F16", 8192)
        assert free
        deep = Pricing(PIECES, SMALL_GPU, other_work(goal.work, 8192)[1])
        speed = 1 / deep.price(*_placed(free)).step_s
        floor = goal._replace(least_tokens_per_s=speed * 1.02)
        bound = Points(question(floor)).at(GIVEN, "F16", "F16", 8192)
        assert bound
    reached = 1 / deep.price(*_placed(bound)).step_s
    assert reached >= speed * 1.02
    assert bound.found.placing != free.found.placing
    assert bound.request_s > free.request_s


def _placed(point):  # type: ignore[no-untyped-def]
    found = point.found
    return found.settings, found.placing, found.split, found.threads


def test_unreachable_floor_leaves_the_fastest() -> None:
    with one_judgement():
        found = Points(question(Goal(2048, least_tokens_per_s=1e9))).at(GIVEN, "F16", "F16", 2048)
    assert found


def test_longer_contexts_stop_at_the_speed_floor() -> None:
    goal = Goal(2048, Work(512, 0, 64), "context", least_tokens_per_s=1e9)
    with one_judgement():
        chosen = choose(Points(question(goal)))
    contexts = {point.context for point in (*chosen.front, *chosen.others)}
    assert chosen.best is None
    assert max(contexts) == 2560  # the first step, and none after it


def test_too_long_context_is_refused() -> None:
    with pytest.raises(UserError, match="tokens"):
        Points(question(Goal(MOST_TOKENS, Work(users=2))))
    assert Points(question(Goal(MOST_TOKENS))).question.abilities == EVERYTHING


def test_absurd_trained_context_in_a_header_is_limited() -> None:

    vast = msgspec.structs.replace(
        PIECES.blueprint, metadata={**PIECES.blueprint.metadata, "llama.context_length": 2**40}
    )
    given = GIVEN._replace(pieces=Pieces(vast))
    asked = question(Goal(MOST_TOKENS // 4, aim="context"))._replace(variants=(given,))
    with one_judgement():
        chosen = choose(Points(asked))
    contexts = [point.context for point in (*chosen.front, *chosen.others)]
    assert max(contexts, default=0) <= MOST_TOKENS
    assert Placing() not in [point.found.placing for point in chosen.front]
