import pytest
from answers import ask
from cases import cpu_case, gpu_case, with_facts, without
from under_load import saying, tried

from unslow.facts.account import Topic
from unslow.facts.run import LongPrompt
from unslow.facts.snapshot import Case
from unslow.facts.values import measured
from unslow.think.case.prediction import micro_batch
from unslow.think.case.work import Cure, with_settings
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge.judge import judge

NAME = "prefill_batch_too_small"


def fires(ubatch: int = 16, speed: float = 2000.0):
    """An RTX 4090 reads these weights about 240 times a second."""
    case = with_facts(gpu_case(), {"runtime.ubatch": ubatch, "run.prefill_tokens_per_s": speed})
    return without(case, "run.decode_tokens_per_s")


def test_sixteen_tokens_at_once(wording):
    finding = judge(fires()).findings[0]
    assert finding.cause == NAME
    wording(finding.because, tells="16 tokens")
    assert finding.fixes[0].value == 512


def test_near_miss_the_usual_size_is_no_cause():
    assert isinstance(ask(NAME, fires(ubatch=512)), Absent)


def test_near_miss_prompts_that_are_far_slower_than_the_reads_wait_for_something_else():
    assert isinstance(ask(NAME, fires(ubatch=256, speed=500.0)), Absent)


def test_a_batch_cuts_the_micro_batch():
    case = with_facts(fires(ubatch=512), {"runtime.batch": 8, "run.prefill_tokens_per_s": 1200.0})
    assert isinstance(ask(NAME, case), Found)


def test_a_trial_decides():
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
def test_a_tiny_size_and_a_complaint_about_prompts(ubatch, slow, kind):
    assert isinstance(ask(NAME, with_facts(saying(slow=slow), {"runtime.ubatch": ubatch})), kind)


def test_near_miss_a_cpu_computes_as_fast_with_a_few_tokens():
    case = with_facts(cpu_case(), {"runtime.ubatch": 64, "run.prefill_tokens_per_s": 9.0})
    assert isinstance(ask(NAME, case), Absent)
    assert isinstance(ask(NAME, with_facts(Case(), {"runtime.ubatch": 2048})), Absent)


def test_a_long_prompt_that_was_just_tried_decides_and_is_the_price():
    prompt = measured(LongPrompt(tokens=2048, seconds=1.0), "a long prompt")
    answer = ask(NAME, with_facts(without(fires(), "run.prefill_tokens_per_s"), {"run.long_prompt": prompt}))
    assert isinstance(answer, Found)
    assert answer.speedup > 2
    assert answer.lost.per == "prompt_token"
    assert answer.cure.ubatch == 512


def test_without_a_long_prompt_it_asks_for_one():
    answer = ask(NAME, without(fires(), "run.prefill_tokens_per_s"))
    assert isinstance(answer, CannotTell)
    assert answer.missing == "run.long_prompt"
    assert "llama-bench" in answer.how_to_get


def test_a_tiny_size_counts_beside_whatever_else_prompts_wait_for():
    assert isinstance(ask(NAME, fires(ubatch=8, speed=100.0)), Found)
    assert isinstance(ask(NAME, fires(ubatch=256, speed=100.0)), Absent)


def test_a_batch_below_the_micro_batch_cuts_it_and_the_cure_raises_both():
    cut = with_facts(gpu_case(), {"runtime.ubatch": 512, "runtime.batch": 4})
    assert micro_batch(cut) == 4
    assert micro_batch(with_settings(cut, Cure(ubatch=512))) == 512
