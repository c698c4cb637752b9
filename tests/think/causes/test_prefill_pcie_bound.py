import pytest
from answers import ask
from cases import gpu_case, r, with_facts, without
from under_load import saying

from unslow.facts.account import Topic
from unslow.facts.machine import Gpu, Machine
from unslow.facts.model import Model
from unslow.facts.run import Completion, LongPrompt
from unslow.facts.runtime import Buffer
from unslow.facts.snapshot import Case
from unslow.facts.values import GIB, measured_fact, not_found
from unslow.think.case.cure import Cure
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge.judge import judge

NAME = "prefill_pcie_bound"


def fires(prefill: float = 45.0):
    """A hundred GiB of experts behind a link of 12.6 GB/s: eight and a half seconds for 512 tokens."""
    buffers = [
        Buffer(device="CUDA0", kind="model", bytes=8 * GIB, on_gpu=True),
        Buffer(device="CPU_Mapped", kind="model", bytes=100 * GIB, on_gpu=False),
    ]
    facts = {
        "machine.gpus.0.pcie_generation": 3,
        "machine.gpus.0.pcie_width": 16,
        "runtime.memory.buffers": buffers,
        "runtime.placement.tensor_overrides": ["exps=CPU"],
        "model.experts": 64,
        "runtime.compute.ubatch": 512,
        "run.prefill_tokens_per_s": prefill,
        "model.weights_bytes": 108 * GIB,
    }
    return with_facts(without(gpu_case(), "run.decode_tokens_per_s"), facts)


def test_100_gib_copied_per_micro_batch_is_found(wording):
    report = judge(CaseView(fires()))
    assert NAME in [f.cause for f in report.findings]
    answer = ask(NAME, fires())
    assert "107 GB of weights" in answer.because
    wording(answer.because, tells="60")
    assert answer.remedies[0].change.value == 4096


@pytest.mark.parametrize("prefill", [500.0, 5.0])
def test_prefill_far_from_the_copy_rate_rules_it_out(prefill):
    assert isinstance(ask(NAME, fires(prefill)), Absent)


def test_op_offload_off_or_all_weights_on_gpu_rules_it_out():
    assert isinstance(ask(NAME, with_facts(fires(), {"runtime.placement.op_offload": False})), Absent)
    assert isinstance(ask(NAME, gpu_case()), Absent)


def told(slow: str = "prefill", size: float = 450e9) -> Case:
    gpus = tuple(Gpu(index=i, pcie_generation=r(3), pcie_width=r(16)) for i in (0, 1))
    case = Case(machine=Machine(gpus=r(gpus)), model=Model(weights_bytes=r(int(size))))
    return saying(Topic.EXPERTS_ON_CPU, "experts on the CPU", slow=slow, case=case)


def test_450_gb_of_experts_and_slow_prefill_is_found_without_a_speed(wording):
    assert isinstance(ask(NAME, told()), Found)
    unseen = with_facts(told(), {f"machine.gpus.{i}.pcie_generation": not_found("no") for i in (0, 1)})
    answer = ask(NAME, unseen)
    assert isinstance(answer, Found)
    wording(answer.because, tells="8.9 s")


def test_slow_decode_without_a_prefill_speed_is_only_suspected():
    answer = ask(NAME, told(slow="decode"))
    assert isinstance(answer, CannotTell)
    assert answer.suspected


def test_short_copies_cannot_tell_without_a_prefill_speed():
    assert isinstance(ask(NAME, told(size=5e9)), CannotTell)


def test_measured_long_prompt_decides_and_gives_the_cost():
    prompt = LongPrompt(tokens=2048, seconds=2048 / 45.0)
    case = with_facts(without(fires(), "run.prefill_tokens_per_s"), {"run.long_prompt": measured_fact(prompt, "tried")})
    answer = ask(NAME, case)
    assert isinstance(answer, Found)
    assert 2 < answer.speedup < 4  # a prompt of 2048 tokens fills half of the larger micro-batch
    assert answer.lost.per == "prompt_token"
    assert answer.remedies[0].cure.ubatch == 4096


def test_micro_batch_of_8192_above_the_copy_rate_is_ruled_out():
    large = with_facts(fires(900.0), {"runtime.compute.ubatch": 8192})
    assert isinstance(ask(NAME, large), Found | Absent)
    assert isinstance(ask(NAME, with_facts(fires(9000.0), {"runtime.compute.ubatch": 8192})), Absent)


def test_prompts_shorter_than_a_micro_batch_rule_it_out(wording):
    """A larger micro-batch gains nothing for them, and fewer tokens share each copy."""
    short = Completion(prompt_tokens=400, generated_tokens=100, prefill_s=400 / 40.0, decode_s=5.0)
    case = with_facts(fires(40.0), {"run.completions": (short, short)})
    answer = ask(NAME, case)
    assert isinstance(answer, Absent)
    wording(answer.because, tells="400 prompt tokens")
    longer = Completion(prompt_tokens=9000, generated_tokens=100, prefill_s=9000 / 40.0, decode_s=5.0)
    assert isinstance(ask(NAME, with_facts(fires(40.0), {"run.completions": (longer, longer)})), Found)


def test_speedup_is_bounded_by_predicted_prefill():
    """Half of the layers in host memory and 32 tokens at once: copies alone would promise 60 times the speed."""
    slow = Completion(prompt_tokens=9000, generated_tokens=100, prefill_s=30.0, decode_s=5.0)
    facts = {
        "machine.gpus.0.pcie_generation": 4, "machine.gpus.0.pcie_width": 16, "runtime.compute.ubatch": 32,
        "run.completions": (slow, slow), "run.prefill_tokens_per_s": 300.0,
    }  # fmt: skip
    case = with_facts(gpu_case(17), facts)
    answer, then = ask(NAME, case), CaseView(case).speed.predict_prefill(Cure(ubatch=4096))
    assert isinstance(answer, Found)
    assert answer.speedup <= then.tokens_per_s.high / 300.0
