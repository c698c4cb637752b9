from answers import ask
from cases import gpu_case, with_facts
from under_load import at_work, saying, tried

from unslow.facts.account import Topic
from unslow.facts.run import LongPrompt
from unslow.facts.runtime import Buffer
from unslow.facts.values import GIB, measured
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge.judge import judge

NAME = "pcie_link_degraded"
BEST = {"pcie_generation_max": 4, "pcie_width_max": 16}


def narrow(**facts):
    case = at_work(60.0, now=BEST, clock_hz=2.4e9, pcie_generation_max_seen=4, pcie_width_max_seen=1)
    return with_facts(case, facts)


def fires():
    buffers = [Buffer(device=f"CUDA{i}", kind="model", bytes=2 * GIB, on_gpu=True) for i in (0, 1)]
    return narrow(**{"runtime.tensor_parallel": 2, "runtime.buffers": buffers})


def test_one_lane_under_a_model_that_is_split_by_tensors(wording):
    found = {f.cause: f for f in judge(fires()).findings}
    wording(found[NAME].because, tells=("1.6", "25.2 GB/s"))


def test_near_miss_one_stream_on_one_gpu_does_not_notice():
    assert isinstance(ask(NAME, narrow()), Absent)


def test_weights_on_the_host_notice_when_prompts_are_slow():
    halved = with_facts(narrow(), {"runtime.gpu_layers": 12, "runtime.buffers": []})
    assert isinstance(ask(NAME, saying(slow="prefill", case=halved)), Found)
    assert isinstance(ask(NAME, saying(slow="decode", case=halved)), Absent)


def test_near_miss_a_link_that_sleeps_is_no_fault():
    asleep = {"pcie_generation": 1, "pcie_width": 16, "busy": 0.0, **BEST}
    case = with_facts(
        gpu_case(), {f"machine.gpus.0.{k}": v for k, v in asleep.items()} | {"runtime.tensor_parallel": 2}
    )
    answer = ask(NAME, with_facts(case, {"runtime.tensor_parallel": 2}))
    assert isinstance(answer, CannotTell)
    assert "nvidia-smi" in answer.how_to_get


def test_a_whole_link():
    case = at_work(60.0, now=BEST, pcie_generation_max_seen=4, pcie_width_max_seen=16)
    assert isinstance(ask(NAME, with_facts(case, {"runtime.tensor_parallel": 2})), Absent)


def test_another_slot_that_helped_is_an_experiment():
    answer = ask(NAME, tried(4.0, 9.0, Topic.LINK))
    assert isinstance(answer, Found)
    assert answer.speedup == 9.0 / 4.0


def copying(seconds: float):
    """Half of the weights lie with the host, and a prompt of two thousand tokens was read."""
    halved = with_facts(narrow(), {"runtime.gpu_layers": 12, "runtime.buffers": [], "runtime.ubatch": 512})
    return with_facts(halved, {"run.long_prompt": measured(LongPrompt(tokens=2048, seconds=seconds), "a long prompt")})


def test_prompts_that_wait_for_copies_over_one_lane_are_priced():
    answer = ask(NAME, copying(8.0))
    assert isinstance(answer, Found)
    assert 3 < answer.speedup < 16
    assert answer.lost.per == "prompt_token"


def test_near_miss_prompts_that_wait_for_something_else():
    assert isinstance(ask(NAME, copying(100.0)), Absent)


def test_near_miss_a_card_that_could_do_more_than_its_slot():
    """The driver's maximum is that of both ends: a slot of eight lanes has lost nothing."""
    case = at_work(60.0, now={"pcie_generation_max": 4, "pcie_width_max": 8}, pcie_generation_max_seen=4)
    case = with_facts(case, {"run.gpus.0.pcie_width_max_seen": 8, "runtime.tensor_parallel": 2})
    assert isinstance(ask(NAME, case), Absent)


def test_a_split_that_a_setting_chose_is_the_cause_and_not_the_link():
    assert isinstance(ask(NAME, narrow(**{"runtime.split_mode": "row"})), Absent)
