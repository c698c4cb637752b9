"""The search for vLLM settings against its whole space, and properties that hold for any question."""

import pytest
from tests.think.plan.vllm.vllm_questions import question

from unslow.facts.values import GIB
from unslow.think.memory.vllm import vllm_memory
from unslow.think.plan.pareto_front import goal_rank
from unslow.think.plan.vllm.choices import VllmPlanQuestion, every_choice
from unslow.think.plan.vllm.search import Point, Search, admitted_points, best_point, choice_cost, felt_rate, shares_of

TIGHT = {"others": 3 * GIB, "users": 24, "kept_tokens": 1500, "context": 16384}


def every_point(asked: VllmPlanQuestion) -> list[Point]:
    """All of the space, every share and every context that matters priced by itself."""
    search, found = Search(asked), []
    for choice in every_choice(asked, search.pool):
        for share in shares_of(choice.share):
            one = choice._replace(share=share)
            for context in {choice.context, asked.now.context, search.pool.longest(one)}:
                longer = one._replace(context=context)
                if context >= choice.context and search.pool.serves(longer):
                    found.append(search.point(longer))
    return found


@pytest.mark.no_cover  # many plans through the same lines
@pytest.mark.parametrize("aim", ["speed", "context", "quality"])
def test_search_matches_exhaustive_search(aim: str) -> None:
    asked = question(**TIGHT, aim=aim, least_tokens_per_s=8.0)
    by_search = best_point(asked, admitted_points(asked, Search(asked).all_points()[0]))
    by_hand = best_point(asked, admitted_points(asked, every_point(asked)))
    assert by_search
    assert by_hand
    assert goal_rank(asked.goal, by_search.worth) == goal_rank(asked.goal, by_hand.worth)


def test_every_point_is_matched_by_a_searched_one() -> None:
    asked = question(**TIGHT)
    priced, combinations = Search(asked).all_points()
    worths = {p.worth[:5] for p in priced}
    every = every_point(asked)
    for worth in {p.worth[:5] for p in every}:
        assert any(all(a >= b for a, b in zip(other, worth, strict=True)) for other in worths)
    assert len(priced) < len(every) < 3 * combinations


def test_cache_room_is_the_lower_bound_of_the_memory_model() -> None:
    asked = question("H100 SXM", 2, users=4)
    search = Search(asked)
    for choice in list(every_choice(asked, search.pool))[::17]:
        if search.pool.blocks(choice) <= 0:
            continue
        parts = asked.checkpoints[choice.checkpoint].parts
        whole = vllm_memory(asked.shape, parts, asked.settings(choice), asked.card_bytes)
        stage = search.pool.stages(choice)
        per_block = max(s.block_bytes for s in stage)
        assert search.pool.blocks(choice) == pytest.approx(whole.available.low / per_block, rel=0.02, abs=1)
        assert search.pool.blocks(choice) <= whole.kv_blocks


def test_memory_of_every_choice_is_within_the_gpu() -> None:
    unlinked = question("RTX 4090", 2)
    room, parts = unlinked.hardware.rooms[0].usable_bytes, unlinked.checkpoints[0].parts
    for choice in every_choice(unlinked, Search(unlinked).pool):
        whole = vllm_memory(unlinked.shape, parts, unlinked.settings(choice), unlinked.card_bytes)
        assert all(held.total.mid <= room for held in whole.devices)


def fastest(asked: VllmPlanQuestion) -> Point | None:
    points = admitted_points(asked, Search(asked).all_points()[0])
    return max(points, key=lambda p: p.worth.speed, default=None)


@pytest.mark.no_cover  # many plans through the same lines
def test_more_memory_never_gives_a_worse_plan() -> None:
    speeds, contexts = [], []
    for held in (6, 4, 2, 0):
        points = admitted_points(a := question(others=held * GIB, users=24, context=4096), Search(a).all_points()[0])
        speeds.append(max((p.worth.speed for p in points), default=0.0))
        contexts.append(max((p.worth.context for p in points), default=0.0))
    assert speeds == sorted(speeds)
    assert contexts == sorted(contexts)
    assert speeds[0] < speeds[-1]


@pytest.mark.no_cover  # many plans through the same lines
def test_more_users_never_make_one_of_them_faster() -> None:
    rates = []
    for users in (1, 4, 16, 200):
        point = fastest(asked := question(users=users))
        assert point
        rates.append((felt_rate(asked.goal, point), 1 / point.served.request_s.mid))
    assert rates == sorted(rates, reverse=True)


def test_users_beyond_max_sequences_wait() -> None:
    one = Search(question(users=16))
    choice = next(c for c in every_choice(one.question, one.pool) if c.sequences == 4)
    few, many = one.point(choice), one.point(choice._replace(sequences=16))
    assert few.served.at_once == 4
    assert few.served.decode.mid > many.served.decode.mid
    assert few.served.request_s.mid > many.served.request_s.mid


def test_evicted_prefix_is_prefilled_again() -> None:
    asked = question(users=24, kept_tokens=6000)
    search = Search(asked)
    choice = next(c for c in every_choice(asked, search.pool) if c.sequences >= 24 and c.kv == "auto")
    assert search.pool.holds(choice) < 24
    forgets = search.pace.serve(choice, 8, 24, keeps=False)
    keeps = search.pace.serve(choice, 8, 24, keeps=True)
    assert not search.point(choice).served.keeps
    assert forgets.request_s.mid > 1.3 * keeps.request_s.mid


def test_fp8_cache_is_chosen_only_where_allowed() -> None:
    asked = question("H100 SXM", users=64, prompt_tokens=6000)
    points = Search(asked).all_points()[0]
    plain = best_point(asked, admitted_points(asked, points))
    allowed = question("H100 SXM", users=64, prompt_tokens=6000, worst_perplexity_increase=0.005)
    packed = best_point(allowed, admitted_points(allowed, points))
    assert plain
    assert packed
    assert plain.choice.kv == "auto"
    assert packed.choice.kv == "fp8"
    assert packed.worth.speed > 1.05 * plain.worth.speed
    increase = choice_cost(allowed, packed.choice).perplexity_increase
    assert increase is not None
    assert increase <= 0.005
    needed = question(context=70_000)
    chosen = best_point(needed, admitted_points(needed, Search(needed).all_points()[0]))
    assert chosen
    assert chosen.choice.kv == "fp8"
