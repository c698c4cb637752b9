from answers import ask
from cases import gpu_case, with_facts
from under_load import at_work, saying, tried

from unslow.facts.account import Topic
from unslow.facts.run import LongPrompt
from unslow.facts.runtime import Buffer
from unslow.facts.values import GIB, measured_fact
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge.judge import judge

NAME = "pcie_link_degraded"
BEST = {"pcie_generation_max": 4, "pcie_width_max": 16}


def narrow(**facts):
    case = at_work(60.0, now=BEST, clock_hz=2.4e9, pcie_generation_max_seen=4, pcie_width_max_seen=1)
    return with_facts(case, facts)


def fires():
    buffers = [Buffer(device=f"CUDA{i}", kind="model", bytes=2 * GIB, on_gpu=True) for i in (0, 1)]
    return narrow(**{"runtime.placement.tensor_parallel": 2, "runtime.memory.buffers": buffers})


def test_one_lane_under_tensor_parallelism_is_found(wording):
    found = {f.cause: f for f in judge(CaseView(fires())).findings}
    wording(found[NAME].because, tells=("1.6", "25.2 GB/s"))


def test_narrow_link_under_one_stream_on_one_gpu_is_ruled_out():
    assert isinstance(ask(NAME, narrow()), Absent)


def test_host_weights_behind_a_narrow_link_count_only_if_prefill_is_slow():
    halved = with_facts(narrow(), {"runtime.placement.gpu_layers": 12, "runtime.memory.buffers": []})
    assert isinstance(ask(NAME, saying(slow="prefill", case=halved)), Found)
    assert isinstance(ask(NAME, saying(slow="decode", case=halved)), Absent)


def test_idle_link_gives_cannot_tell():
    asleep = {"pcie_generation": 1, "pcie_width": 16, "busy": 0.0, **BEST}
    case = with_facts(
        gpu_case(), {f"machine.gpus.0.{k}": v for k, v in asleep.items()} | {"runtime.placement.tensor_parallel": 2}
    )
    answer = ask(NAME, with_facts(case, {"runtime.placement.tensor_parallel": 2}))
    assert isinstance(answer, CannotTell)
    assert "nvidia-smi" in answer.how_to_get


def test_full_link_under_load_is_ruled_out():
    case = at_work(60.0, now=BEST, pcie_generation_max_seen=4, pcie_width_max_seen=16)
    assert isinstance(ask(NAME, with_facts(case, {"runtime.placement.tensor_parallel": 2})), Absent)


def test_trial_with_another_slot_gives_the_speedup():
    answer = ask(NAME, tried(4.0, 9.0, Topic.LINK))
    assert isinstance(answer, Found)
    assert answer.speedup == 9.0 / 4.0


def copying(seconds: float):
    """Half of the weights are in host memory, and prefill of 2048 tokens was measured."""
    halved = with_facts(
        narrow(), {"runtime.placement.gpu_layers": 12, "runtime.memory.buffers": [], "runtime.compute.ubatch": 512}
    )
    return with_facts(
        halved, {"run.long_prompt": measured_fact(LongPrompt(tokens=2048, seconds=seconds), "a long prompt")}
    )


def test_prefill_bound_by_copies_over_one_lane_is_priced():
    answer = ask(NAME, copying(8.0))
    assert isinstance(answer, Found)
    assert 3 < answer.speedup < 16
    assert answer.lost.per == "prompt_token"


def test_prefill_far_slower_than_the_copies_is_ruled_out():
    assert isinstance(ask(NAME, copying(100.0)), Absent)


def test_link_at_the_maximum_of_its_slot_is_ruled_out():
    """The driver's maximum is what both ends support: a slot of eight lanes has lost nothing."""
    case = at_work(60.0, now={"pcie_generation_max": 4, "pcie_width_max": 8}, pcie_generation_max_seen=4)
    case = with_facts(case, {"run.gpus.0.pcie_width_max_seen": 8, "runtime.placement.tensor_parallel": 2})
    assert isinstance(ask(NAME, case), Absent)


def test_row_split_rules_out_the_link():
    assert isinstance(ask(NAME, narrow(**{"runtime.placement.split_mode": "row"})), Absent)
