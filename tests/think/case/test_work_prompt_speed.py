"""The speed of a short prompt says nothing about long ones."""

from cases import gpu_case, r, with_facts

from unslow.facts.run import Completion
from unslow.facts.values import Known
from unslow.think.case.view import CaseView


def measured(prompt: int, cached: int = 0):
    run = Completion(prompt_tokens=prompt, cached_tokens=cached, generated_tokens=8, prefill_s=0.1, decode_s=0.1)
    return with_facts(gpu_case(), {"run.completions": r((run,)), "run.prefill_tokens_per_s": 900.0})


def test_only_new_tokens_of_long_prompts_count():
    assert CaseView(measured(2000)).speed.prompt_speed.value == 900.0
    assert not isinstance(CaseView(measured(34)).speed.prompt_speed, Known)
    assert not isinstance(CaseView(measured(2000, cached=1950)).speed.prompt_speed, Known)


def test_prefill_figure_without_request_sizes_is_used():
    assert (
        CaseView(with_facts(gpu_case(), {"runtime.history.prefill_tokens_per_s": 700.0})).speed.prompt_speed.value
        == 700.0
    )
    assert not isinstance(CaseView(gpu_case()).speed.prompt_speed, Known)
