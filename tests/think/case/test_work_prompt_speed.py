"""A short prompt tells nothing of the speed of long ones."""

from cases import gpu_case, r, with_facts

from unslow.facts.run import Completion
from unslow.facts.values import Known
from unslow.think.case.work import prompt_speed


def measured(prompt: int, cached: int = 0):
    run = Completion(prompt_tokens=prompt, cached_tokens=cached, generated_tokens=8, prefill_s=0.1, decode_s=0.1)
    return with_facts(gpu_case(), {"run.completions": r((run,)), "run.prefill_tokens_per_s": 900.0})


def test_only_new_tokens_of_long_prompts_count():
    assert prompt_speed(measured(2000)).value == 900.0
    assert not isinstance(prompt_speed(measured(34)), Known)
    assert not isinstance(prompt_speed(measured(2000, cached=1950)), Known)


def test_a_figure_without_its_requests_is_believed():
    assert prompt_speed(with_facts(gpu_case(), {"runtime.prefill_tokens_per_s": 700.0})).value == 700.0
    assert not isinstance(prompt_speed(gpu_case()), Known)
