"""Keys and values of different cache types: searched where they work, explained where they do not."""

import pytest
from tests.think.plan.llama_cpp import planning

from unslow.think.hardware import Hardware
from unslow.think.memo import one_judgement
from unslow.think.plan.goal import Goal, Work
from unslow.think.plan.llama_cpp.choose import choose, mixed_types
from unslow.think.plan.llama_cpp.options import name_of
from unslow.think.plan.llama_cpp.pieces import Pieces
from unslow.think.plan.llama_cpp.points import Points
from unslow.think.plan.llama_cpp.question import EVERYTHING, Abilities, LlamaPlanQuestion, Variant
from unslow.think.plan.llama_cpp.rejected import unlike_types

GIVEN = Variant("Q4_K_M", Pieces(planning.blueprint()), 8_000_000_000, given=True, at_hand=True)
WORK = Goal(4096, Work(512, 2048, 64))


def bare() -> Hardware:
    machine = planning.hardware(1)
    return machine._replace(rooms=(), chips=(), setting=machine.host_setting)


def asked(machine: Hardware, abilities: Abilities = EVERYTHING) -> LlamaPlanQuestion:
    return LlamaPlanQuestion((GIVEN,), machine, WORK, planning.MARGIN_BYTES, 8, abilities)


def test_cpu_search_includes_measured_mixed_cache_types() -> None:
    assert list(mixed_types(Points(asked(bare())))) == [("F16", "Q8_0")]
    with one_judgement():
        chosen = choose(Points(asked(bare())))
    every = (*chosen.front, *chosen.others)
    mixed = [p for p in every if p.found.settings.cache_types == "f16/q8_0"]
    assert mixed
    assert "cache f16/q8_0" in name_of(mixed[0])
    sizes = {p.found.settings.cache_types: p.found.memory.needs[-1].cache for p in every if p.context == 4096}
    assert sizes["q8_0"] < sizes["f16/q8_0"] < sizes["f16"]


def test_mixed_cache_types_are_not_searched_on_gpus() -> None:
    assert list(mixed_types(Points(asked(planning.hardware(1))))) == []
    assert list(mixed_types(Points(asked(bare(), Abilities(mixed_cache=False))))) == []


@pytest.mark.parametrize(("backend", "word"), [("cuda", "16 bits"), ("metal", "CPU"), ("vulkan", "memory")])
def test_rejection_of_mixed_types_names_the_backend_limit(backend: str, word: str) -> None:
    machine = planning.hardware(0.3)
    machine = machine._replace(setting=machine.setting._replace(backend=backend))
    ((what, because),) = unlike_types(Points(asked(machine)))
    assert "-ctk q8_0 -ctv q4_0" in what
    assert word in because


def test_mixed_types_are_not_mentioned_where_they_do_not_apply() -> None:
    assert not list(unlike_types(Points(asked(planning.hardware(1), Abilities(cache_types=("F16",))))))
    assert not list(unlike_types(Points(asked(bare()))))


def test_rotating_build_loses_less_quality() -> None:
    plain, rotating = (Points(asked(bare(), Abilities(rotates=rotates))) for rotates in (False, True))
    moe = GIVEN._replace(parameters=30_000_000_000)
    costs = [points.cost(moe, "Q4_0").cache for points in (plain, rotating)]
    assert costs[0].increase is not None
    assert costs[1].increase is not None
    assert costs[1].increase < costs[0].increase or (costs[0].at_least and not costs[1].at_least)
