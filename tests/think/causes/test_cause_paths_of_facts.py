"""The paths of facts that causes name: walked in one go, or step by step through facts and lists."""

import pytest
from cases import gpu_case
from recorded_machines import first_case

from unslow.facts.values import Known, Unknown
from unslow.think.case.view import CaseView, _walk
from unslow.think.causes import all_causes

NEEDS = {
    path
    for cause in all_causes().values()
    for need in cause.needs
    for path in ([need] if isinstance(need, str) else need)
}


@pytest.mark.parametrize("case", [gpu_case(20), first_case("built_vllm_eight_h100")], ids=["built", "recorded"])
def test_both_ways_lead_to_the_same_fact(case):
    assert len(NEEDS) > 50
    for path in NEEDS:
        assert CaseView(case).fact(path) == _walk(CaseView(case), path), path


def test_through_a_list_and_past_its_end():
    case = gpu_case(20)
    assert isinstance(CaseView(case).fact("machine.gpus.0.name"), Known)
    past = CaseView(case).fact("machine.gpus.7.name")
    assert isinstance(past, Unknown)
    assert "machine.gpus.7.name" in past.why
