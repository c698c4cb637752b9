import pytest
from answers import ask
from cases import cpu_case, gpu_case, with_facts, without
from engines import vllm
from under_load import saying, tried

from unslow.facts.account import Topic
from unslow.facts.run import LongPrompt
from unslow.facts.snapshot import Case
from unslow.facts.values import measured_fact
from unslow.think.case.cure import Cure
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge.judge import judge

NAME = "prefill_batch_too_small"


def fires(ubatch: int = 16, speed: float = 2000.0):
    """An RTX 4090 reads these weights about 240 times per second."""
    case = with_facts(gpu_case(), {"runtime.compute.ubatch": ubatch, "run.prefill_tokens_per_s": speed})
    return without(case, "run.decode_tokens_per_s")


def test_micro_batch_of_16_is_found_and_512_is_the_fix(wording):
    finding = judge(CaseView(fires())).findings[0]
    assert finding.cause == NAME
    wording(finding.because, tells="16 tokens")
    assert finding.fixes[0].value == 512


def test_micro_batch_of_512_is_ruled_out():
    assert isinstance(ask(NAME, fires(ubatch=512)), Absent)


def test_prefill_far_below_what_the_micro_batch_allows_rules_it_out():
    assert isinstance(ask(NAME, fires(ubatch=256, speed=500.0)), Absent)


def test_batch_below_the_micro_batch_is_found():
    case = with_facts(fires(ubatch=512), {"runtime.compute.batch": 8, "run.prefill_tokens_per_s": 1200.0})
    assert isinstance(ask(NAME, case), Found)


def test_trial_of_two_batch_sizes_decides_by_which_side_was_larger():
    text = "-ub 128 gives 100 t/s, -ub 1024 gives 400 t/s"
    answer = ask(NAME, tried(100.0, 400.0, Topic.BATCH, metric="prefill", text=text))
    assert isinstance(answer, Found)
    assert answer.speedup == 4.0
    assert not isinstance(ask(NAME, tried(10.0, 40.0, Topic.BATCH, metric="decode")), Found)
    reverse = tried(100.0, 400.0, Topic.BATCH, metric="prefill", text="-ub 1024 gives 100 t/s, -ub 128 gives 400 t/s")
    assert isinstance(ask(NAME, reverse), Absent)
    assert isinstance(ask(NAME, tried(100.0, 400.0, Topic.BATCH, metric="prefill")), CannotTell)
    larger = tried(1.0, 1.5, Topic.BATCH, metric="prefill", text="-ub 2048 is faster")
    assert isinstance(ask(NAME, larger), Found)


@pytest.mark.parametrize(
    ("ubatch", "slow", "kind"), [(32, "prefill", Found), (256, "prefill", CannotTell), (32, "decode", CannotTell)]
)
def test_tiny_micro_batch_is_found_without_a_speed_only_if_prefill_is_called_slow(ubatch, slow, kind):
    assert isinstance(ask(NAME, with_facts(saying(slow=slow), {"runtime.compute.ubatch": ubatch})), kind)


def test_small_micro_batch_on_cpu_is_ruled_out():
    case = with_facts(cpu_case(), {"runtime.compute.ubatch": 64, "run.prefill_tokens_per_s": 9.0})
    assert isinstance(ask(NAME, case), Absent)
    assert isinstance(ask(NAME, with_facts(Case(), {"runtime.compute.ubatch": 2048})), Absent)


def test_measured_long_prompt_decides_and_gives_the_cost():
    prompt = measured_fact(LongPrompt(tokens=2048, seconds=1.0), "a long prompt")
    answer = ask(NAME, with_facts(without(fires(), "run.prefill_tokens_per_s"), {"run.long_prompt": prompt}))
    assert isinstance(answer, Found)
    assert answer.speedup > 2
    assert answer.lost.per == "prompt_token"
    assert answer.cure.ubatch == 512


def test_unmeasured_prefill_asks_for_a_long_prompt():
    answer = ask(NAME, without(fires(), "run.prefill_tokens_per_s"))
    assert isinstance(answer, CannotTell)
    assert answer.missing == "run.long_prompt"
    assert "llama-bench" in answer.how_to_get


def test_micro_batch_of_8_is_found_even_if_prefill_waits_for_something_else():
    assert isinstance(ask(NAME, fires(ubatch=8, speed=100.0)), Found)
    assert isinstance(ask(NAME, fires(ubatch=256, speed=100.0)), Absent)


def test_cure_raises_batch_and_micro_batch_together():
    cut = with_facts(gpu_case(), {"runtime.compute.ubatch": 512, "runtime.compute.batch": 4})
    assert CaseView(cut).speed.micro_batch == 4
    assert CaseView(CaseView(cut).with_cure(Cure(ubatch=512))).speed.micro_batch == 512


def test_an_engine_with_pages_gets_its_own_default():
    read = {"run.long_prompt": measured_fact(LongPrompt(tokens=2048, seconds=0.8, first_token_s=0.8), "x")}
    answer = ask(NAME, vllm(**{"runtime.scheduling.max_batched_tokens": 64, **read}))
    assert isinstance(answer, Found)
    assert answer.remedies[0].change.value == 2048
