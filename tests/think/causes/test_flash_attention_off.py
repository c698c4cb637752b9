from answers import ask
from cases import gpu_case, with_facts
from seen_live import at_depths
from told import compares, pasted

from unslow.facts.account import Topic
from unslow.facts.runtime import Buffer
from unslow.facts.values import GIB
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge.judge import judge

NAME = "flash_attention_off"
TRIAL = compares(Topic.FLASH_ATTENTION, 12.0, 30.0, "12 t/s without flash attention, 30 with")


def fires():
    return pasted(TRIAL, gpus=["RTX 3090"], runtime={"flash_attention": False})


def test_an_experiment_gives_the_price():
    finding = judge(fires()).findings[0]
    assert finding.cause == NAME
    assert finding.speedup == 2.5


def test_which_side_is_slow_must_be_known():
    assert isinstance(ask(NAME, pasted(TRIAL, gpus=["RTX 3090"])), Found)
    unclear = compares(Topic.FLASH_ATTENTION, 12.0, 30.0, "flash attention 12 t/s, 30 t/s")
    assert isinstance(ask(NAME, pasted(unclear, gpus=["RTX 3090"])), CannotTell)
    assert isinstance(ask(NAME, pasted(TRIAL, gpus=["RTX 3090"], runtime={"flash_attention": True})), Absent)


def test_a_trial_in_which_it_is_the_slow_side():
    slower = compares(Topic.FLASH_ATTENTION, 50.0, 100.0, "-fa on 50 t/s, -fa off 100 t/s")
    assert not isinstance(ask(NAME, pasted(slower, gpus=["RTX 3090"], runtime={"flash_attention": False})), Found)


def test_a_compute_buffer_of_gigabytes_beside_a_spill():
    buffers = [Buffer(device="CUDA0", kind="compute", bytes=3 * GIB, on_gpu=True)]
    case = with_facts(gpu_case(21, 5.0), {"runtime.flash_attention": False, "runtime.buffers": buffers})
    assert isinstance(ask(NAME, case), Found)


def off(*speeds):
    live = with_facts(gpu_case(), {"runtime.flash_attention": False})
    return at_depths(live, *speeds) if speeds else live


def test_a_slope_that_it_would_flatten():
    answer = ask(NAME, off((100, 130.0), (7000, 60.0)))
    assert isinstance(answer, Found)
    assert answer.speedup > 1.5


def test_near_miss_off_and_as_fast_at_depth():
    assert isinstance(ask(NAME, off((100, 130.0), (7000, 122.0))), Absent)


def test_off_at_short_depth_asks_for_the_speed_at_depth_and_is_no_finding():
    answer = ask(NAME, off())
    assert isinstance(answer, CannotTell)
    assert answer.missing == "run.depths"
    assert judge(off()).verdict == "normal"
