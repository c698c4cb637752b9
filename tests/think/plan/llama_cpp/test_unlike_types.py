"""Keys of one type and values of another: searched where they work, and told where they are a trap."""

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


def test_processors_take_them_where_somebody_measured_what_they_cost() -> None:
    assert list(mixed_types(Points(asked(bare())))) == [("F16", "Q8_0")]
    with one_judgement():
        chosen = choose(Points(asked(bare())))
    every = (*chosen.front, *chosen.others)
    mixed = [p for p in every if p.found.settings.cache_types == "f16/q8_0"]
    assert mixed
    assert "cache f16/q8_0" in name_of(mixed[0])
    sizes = {p.found.settings.cache_types: p.found.memory.needs[-1].cache for p in every if p.context == 4096}
    assert sizes["q8_0"] < sizes["f16/q8_0"] < sizes["f16"]


def test_gpus_do_not_and_neither_does_a_runtime_that_knows_one_type() -> None:
    assert list(mixed_types(Points(asked(planning.hardware(1))))) == []
    assert list(mixed_types(Points(asked(bare(), Abilities(mixed_cache=False))))) == []


@pytest.mark.parametrize(("backend", "word"), [("cuda", "16 bits"), ("metal", "processor"), ("vulkan", "memory")])
def test_says_why_not(backend: str, word: str) -> None:
    machine = planning.hardware(0.3)
    machine = machine._replace(setting=machine.setting._replace(backend=backend))
    ((what, because),) = unlike_types(Points(asked(machine)))
    assert "-ctk q8_0 -ctv q4_0" in what
    assert word in because


def test_says_nothing_where_there_is_one_type_anyway() -> None:
    assert not list(unlike_types(Points(asked(planning.hardware(1), Abilities(cache_types=("F16",))))))
    assert not list(unlike_types(Points(asked(bare()))))


def test_a_build_that_rotates_loses_less() -> None:
    plain, rotating = (Points(asked(bare(), Abilities(rotates=rotates))) for rotates in (False, True))
    moe = GIVEN._replace(parameters=30_000_000_000)
    costs = [points.cost(moe, "Q4_0").cache for points in (plain, rotating)]
    assert costs[0].increase is not None
    assert costs[1].increase is not None
    assert costs[1].increase < costs[0].increase or (costs[0].at_least and not costs[1].at_least)
