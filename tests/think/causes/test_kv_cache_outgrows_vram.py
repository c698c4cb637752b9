from answers import ask
from cases import gpu_case, with_facts
from seen_live import at_depths
from told import compares, pasted, says

from unslow.facts.account import Topic
from unslow.facts.values import GIB, MIB
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge.judge import judge

NAME = "kv_cache_outgrows_vram"
FALL = compares(Topic.DEPTH, 3.0, 40.0, "40 tok/s at first, 3 tok/s at 30k")
FULL = says(Topic.VRAM_FULL, "VRAM is full")


def fires():
    return pasted(FALL, FULL, gpus=["RTX 3060 12GB"])


def test_told_cliff_with_a_full_gpu_fires():
    report = judge(CaseView(fires()))
    assert report.findings[0].cause == NAME
    assert report.findings[0].speedup > 10


def test_told_cliff_with_little_vram_free_fires():
    full = with_facts(pasted(FALL, gpus=["RTX 3060 12GB"]), {"machine.gpus.0.vram_free_bytes": 200 * MIB})
    assert isinstance(ask(NAME, full), Found)


def test_told_cliff_with_vram_free_is_only_suspected():
    roomy = with_facts(pasted(FALL, gpus=["RTX 3060 12GB"]), {"machine.gpus.0.vram_free_bytes": 5 * GIB})
    answer = ask(NAME, roomy)
    assert isinstance(answer, CannotTell)
    assert answer.suspected


def test_told_ordinary_slope_is_ruled_out():
    assert isinstance(ask(NAME, pasted(compares(Topic.DEPTH, 30.0, 40.0), FULL, gpus=["RTX 3060 12GB"])), Absent)


def cliff(free_mib: int = 200):
    case = with_facts(gpu_case(), {"machine.gpus.0.vram_free_bytes": free_mib * MIB})
    return at_depths(case, (100, 130.0), (7000, 20.0))


def test_measured_cliff_with_a_full_gpu_fires():
    answer = ask(NAME, cliff())
    assert isinstance(answer, Found)
    assert "6.5" in answer.because
    assert answer.speedup > 4


def test_measured_ordinary_slope_is_ruled_out():
    assert isinstance(ask(NAME, at_depths(cliff(), (100, 130.0), (7000, 110.0))), Absent)


def test_measured_cliff_with_vram_free_is_ruled_out():
    assert isinstance(ask(NAME, cliff(free_mib=5000)), Absent)


def test_full_gpu_without_speeds_at_depth_asks_for_them():
    full = with_facts(gpu_case(), {"machine.gpus.0.vram_free_bytes": 200 * MIB})
    assert ask(NAME, full).missing == "run.depths"
    assert isinstance(ask(NAME, gpu_case()), Absent)
