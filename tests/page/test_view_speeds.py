"""Speed rows: measured, expected and ceiling."""

import pytest
from tests.cases import gpu_case, r
from tests.recorded_machines import first_case

from unslow.facts.snapshot import Case, Wish
from unslow.facts.values import Unknown
from unslow.page.roofline import roofline_view
from unslow.page.speeds import speed_rows
from unslow.page.view import RooflineView, SpeedRow
from unslow.think.case.view import CaseView
from unslow.think.judge.judge import judge


def rows(case: Case, wish: Wish | None = None) -> dict[str, SpeedRow]:
    drawn = roofline_view(CaseView(case))
    found = speed_rows(
        judge(CaseView(case)), CaseView(case), wish or Wish(), drawn if isinstance(drawn, RooflineView) else None
    )
    return {row.metric: row for row in found}


def test_decode_row_equals_the_report():
    case = first_case("h200_live_healthy")
    decode, report = rows(case)["decode_tokens_per_s"], judge(CaseView(case))
    assert decode.measured == report.measured["decode_tokens_per_s"]
    assert decode.as_configured == report.expected.as_configured["decode_tokens_per_s"]
    assert decode.achievable == report.expected.achievable["decode_tokens_per_s"]
    assert decode.ceiling == report.expected.ceiling_tokens_per_s
    assert (decode.measured or 0.0) < (decode.ceiling or 0.0)
    assert decode.goal is None


def test_unmeasured_prefill_still_has_an_expected_range():
    prefill = rows(first_case("h200_live_healthy"))["prefill_tokens_per_s"]
    assert prefill.measured is None
    assert prefill.as_configured is not None
    assert (prefill.ceiling or 0.0) > prefill.as_configured.mid


def test_prefill_ceiling_on_a_cpu_is_compute():
    prefill = rows(first_case("lab_cpu_cpu_contended"))["prefill_tokens_per_s"]
    assert prefill.measured is not None
    assert 1 < (prefill.ceiling or 0.0) / prefill.measured < 100


def test_short_prompt_has_no_expected_prefill_range():
    case = first_case("lab_cpu_cpu_contended")
    assert isinstance(CaseView(case).speed.prompt_speed, Unknown)
    prefill = rows(case)["prefill_tokens_per_s"]
    assert (prefill.measured or 0.0) > 0
    assert prefill.as_configured is None


def test_decode_row_has_the_goal():
    wish = Wish(tokens_per_s=r(20.0))
    assert rows(gpu_case(), wish)["decode_tokens_per_s"].goal == pytest.approx(20.0)


def test_failed_load_has_no_speed_rows():
    assert rows(first_case("h200_llama_server_weights_allocation_fails")) == {}


def test_empty_case_has_no_speed_rows():
    assert rows(Case()) == {}
