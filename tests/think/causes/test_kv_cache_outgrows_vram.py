from answers import ask
from cases import with_facts
from told import compares, pasted, says

from unslow.facts.account import Topic
from unslow.facts.units import GIB, MIB
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge import judge

NAME = "kv_cache_outgrows_vram"
FALL = compares(Topic.DEPTH, 3.0, 40.0, "40 tok/s at first, 3 tok/s at 30k")
FULL = says(Topic.VRAM_FULL, "VRAM is full")


def fires():
    return pasted(FALL, FULL, gpus=["RTX 3060 12GB"])


def test_a_cliff_with_a_full_gpu():
    report = judge(fires())
    assert report.findings[0].cause == NAME
    assert report.findings[0].speedup > 10


def test_the_drivers_count_shows_it_too():
    full = with_facts(pasted(FALL, gpus=["RTX 3060 12GB"]), {"machine.gpus.0.vram_free_bytes": 200 * MIB})
    assert isinstance(ask(NAME, full), Found)


def test_a_cliff_with_room_left_is_a_suspicion():
    roomy = with_facts(pasted(FALL, gpus=["RTX 3060 12GB"]), {"machine.gpus.0.vram_free_bytes": 5 * GIB})
    answer = ask(NAME, roomy)
    assert isinstance(answer, CannotTell)
    assert answer.suspected


def test_the_ordinary_slope():
    assert isinstance(ask(NAME, pasted(compares(Topic.DEPTH, 30.0, 40.0), FULL, gpus=["RTX 3060 12GB"])), Absent)
