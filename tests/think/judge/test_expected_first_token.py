"""Expected time to first token without the wait."""

import pytest
from cases import gpu_case, with_facts

from unslow.facts.run import Completion, LongPrompt, SeenPrompt, Traffic, Turn
from unslow.facts.snapshot import Case
from unslow.facts.values import reported_fact
from unslow.think.case.speed import Prediction
from unslow.think.case.view import CaseView
from unslow.think.judge.findings import FIRST_TOKEN, first_token_cured, measured_figures
from unslow.think.judge.phases import outlook

ONE = Completion(prompt_tokens=1000, generated_tokens=100, prefill_s=0.3, decode_s=1.0, client_first_token_s=5.0)
TURNS = (
    Turn(prompt_tokens=4000, new_tokens=4000, computed_tokens=4000),
    Turn(prompt_tokens=4100, new_tokens=100, computed_tokens=4100, first_token_s=2.05),
)


def soon(case: Case, *found: str) -> float | None:
    interval = first_token_cured(CaseView(case), found, outlook(CaseView(case), None))
    return interval.mid if interval else None


def now(case: Case, *found: str) -> float | None:
    return measured_figures(CaseView(case), outlook(CaseView(case), None), found).get(FIRST_TOKEN)


def token_s(case: Case) -> float:
    best = outlook(CaseView(case), None).decode.best
    assert isinstance(best, Prediction)
    return best.seconds.mid


@pytest.mark.parametrize("cause", ["queueing", "client_overhead", "model_reloads_between_requests"])
def test_time_to_first_token_without_the_wait_is_prefill_and_one_token(cause):
    case = with_facts(gpu_case(), {"run.completions": (ONE,) * 3})
    assert soon(case, cause) == pytest.approx(0.3 + token_s(case))


def test_only_new_tokens_are_prefilled():
    case = with_facts(gpu_case(), {"run.turns": TURNS, "run.long_prompt": LongPrompt(tokens=2000, seconds=1.0)})
    assert soon(case, "prompt_reprocessed") == pytest.approx(100 / 2000 + token_s(case))
    untimed = with_facts(gpu_case(), {"run.turns": TURNS})
    assert soon(untimed, "prompt_reprocessed") == pytest.approx(100 * 2.05 / 4100 + token_s(untimed))


def test_observed_prompts_of_other_requests_are_used():
    prompts = reported_fact((SeenPrompt(slot=0, tokens=900, cached_tokens=500),) * 3, "/slots")
    traffic = Traffic(seconds=5.0, looks=9, running=1.0, waiting=3.0, prompts=prompts)
    facts = {"run.traffic": traffic, "run.long_prompt": LongPrompt(tokens=2000, seconds=1.0)}
    case = with_facts(gpu_case(), facts)
    assert soon(case, "queueing") == pytest.approx(400 / 2000 + token_s(case))


def test_current_time_to_first_token_is_that_of_the_slow_turn():
    case = with_facts(gpu_case(), {"run.turns": TURNS, "run.time_to_first_token_s": 0.2})
    assert now(case, "prompt_reprocessed") == 2.05
    assert now(case, "queueing") == 0.2
    assert now(gpu_case(), "prompt_reprocessed") == gpu_case().run.time_to_first_token_s.value_or(None)


def test_unknown_prompt_time_gives_no_expectation():
    assert soon(gpu_case(), "queueing") is None
    assert soon(with_facts(gpu_case(), {"run.completions": (ONE,)}), "weights_spill_to_ram") is None
    assert soon(with_facts(gpu_case(), {"run.completions": (ONE,)}), "prompt_reprocessed") is None
