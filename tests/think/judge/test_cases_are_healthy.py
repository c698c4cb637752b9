"""The made-up healthy machines must be healthy, or every other test built on them lies."""

import pytest
from cases import cpu_case, gpu_case

from unslow.think.judge.judge import judge


@pytest.mark.parametrize("case", [cpu_case(), gpu_case()], ids=["cpu", "gpu"])
def test_a_healthy_machine_has_no_findings(case):
    report = judge(case)
    assert not report.findings
    assert report.verdict == "normal"
