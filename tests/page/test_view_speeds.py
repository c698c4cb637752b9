"""The rows of speeds: what a report has, and what it leaves out because nothing was measured."""

import pytest
from tests.cases import gpu_case, r
from tests.recorded_machines import first_case

from unslow.facts.snapshot import Case, Wish
from unslow.facts.values import Unknown
from unslow.page.roofline import roofline_view
from unslow.page.speeds import speed_rows
from unslow.page.view import RooflineView, SpeedRow
from unslow.think.case.work import prompt_speed
from unslow.think.judge.judge import judge


def rows(case: Case, wish: Wish | None = None) -> dict[str, SpeedRow]:
    drawn = roofline_view(case)
    found = speed_rows(judge(case), case, wish or Wish(), drawn if isinstance(drawn, RooflineView) else None)
    return {row.metric: row for row in found}


def test_decode_has_what_the_report_says_of_it():
    case = first_case("h200_live_healthy")
    decode, report = rows(case)["decode_tokens_per_s"], judge(case)
    assert decode.measured == report.measured["decode_tokens_per_s"]
    assert decode.as_configured == report.expected.as_configured["decode_tokens_per_s"]
    assert decode.achievable == report.expected.achievable["decode_tokens_per_s"]
    assert decode.ceiling == report.expected.ceiling_tokens_per_s
    assert (decode.measured or 0.0) < (decode.ceiling or 0.0)
    assert decode.goal is None


def test_prompts_that_nobody_measured_are_expected_all_the_same():
    prefill = rows(first_case("h200_live_healthy"))["prefill_tokens_per_s"]
    assert prefill.measured is None
    assert prefill.as_configured is not None
    assert (prefill.ceiling or 0.0) > prefill.as_configured.mid


def test_the_ceiling_of_prompts_on_a_cpu_is_its_arithmetic_and_not_its_memory():
    prefill = rows(first_case("lab_cpu_cpu_contended"))["prefill_tokens_per_s"]
    assert prefill.measured is not None
    assert 1 < (prefill.ceiling or 0.0) / prefill.measured < 100


def test_a_short_prompt_is_not_held_against_what_a_long_one_should_take():
    case = first_case("lab_cpu_cpu_contended")
    assert isinstance(prompt_speed(case), Unknown)
    prefill = rows(case)["prefill_tokens_per_s"]
    assert (prefill.measured or 0.0) > 0
    assert prefill.as_configured is None


def test_what_the_user_wants_is_beside_it():
    wish = Wish(tokens_per_s=r(20.0))
    assert rows(gpu_case(), wish)["decode_tokens_per_s"].goal == pytest.approx(20.0)


def test_a_model_that_does_not_load_has_no_speed():
    assert rows(first_case("h200_llama_server_weights_allocation_fails")) == {}


def test_nothing_known_is_no_row():
    assert rows(Case()) == {}
