from answers import ask
from cases import gpu_case, with_facts
from seen_live import at_depths
from told import compares, pasted

from unslow.facts.account import Topic
from unslow.facts.runtime import Buffer
from unslow.facts.values import GIB
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge.judge import judge

NAME = "flash_attention_off"
TRIAL = compares(Topic.FLASH_ATTENTION, 12.0, 30.0, "12 t/s without flash attention, 30 with")


def fires():
    return pasted(TRIAL, gpus=["RTX 3090"], runtime={"flash_attention": False})


def test_trial_gives_the_speedup():
    finding = judge(CaseView(fires())).findings[0]
    assert finding.cause == NAME
    assert finding.speedup == 2.5


def test_trial_with_unclear_sides_is_suspected_and_ruled_out_where_it_is_on():
    assert isinstance(ask(NAME, pasted(TRIAL, gpus=["RTX 3090"])), Found)
    unclear = compares(Topic.FLASH_ATTENTION, 12.0, 30.0, "flash attention 12 t/s, 30 t/s")
    assert isinstance(ask(NAME, pasted(unclear, gpus=["RTX 3090"])), CannotTell)
    assert isinstance(ask(NAME, pasted(TRIAL, gpus=["RTX 3090"], runtime={"flash_attention": True})), Absent)


def test_trial_with_flash_attention_slower_is_not_found():
    slower = compares(Topic.FLASH_ATTENTION, 50.0, 100.0, "-fa on 50 t/s, -fa off 100 t/s")
    assert not isinstance(ask(NAME, pasted(slower, gpus=["RTX 3090"], runtime={"flash_attention": False})), Found)


def test_large_compute_buffer_beside_spilled_layers_is_found():
    buffers = [Buffer(device="CUDA0", kind="compute", bytes=3 * GIB, on_gpu=True)]
    case = with_facts(gpu_case(21, 5.0), {"runtime.compute.flash_attention": False, "runtime.memory.buffers": buffers})
    assert isinstance(ask(NAME, case), Found)


def off(*speeds):
    live = with_facts(gpu_case(), {"runtime.compute.flash_attention": False})
    return at_depths(live, *speeds) if speeds else live


def test_decode_that_falls_too_far_with_depth_is_found():
    answer = ask(NAME, off((100, 130.0), (7000, 60.0)))
    assert isinstance(answer, Found)
    assert answer.speedup > 1.5


def test_expected_speed_at_depth_is_ruled_out():
    assert isinstance(ask(NAME, off((100, 130.0), (7000, 122.0))), Absent)


def test_off_without_speeds_at_depth_asks_for_them_and_is_normal():
    answer = ask(NAME, off())
    assert isinstance(answer, CannotTell)
    assert answer.missing == "run.depths"
    assert judge(CaseView(off())).verdict == "normal"
