"""The built healthy cases must be healthy, because every other test builds on them."""

import pytest
from cases import cpu_case, gpu_case

from unslow.think.case.view import CaseView
from unslow.think.judge.judge import judge


@pytest.mark.parametrize("case", [cpu_case(), gpu_case()], ids=["cpu", "gpu"])
def test_healthy_case_has_no_findings(case):
    report = judge(CaseView(case))
    assert not report.findings
    assert report.verdict == "normal"
