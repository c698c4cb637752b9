"""The paths of facts that causes name: walked in one go, or step by step through facts and lists."""

import pytest
from cases import gpu_case
from recorded_machines import first_case

from unslow.facts.values import Known, Unknown
from unslow.think.causes import all_causes
from unslow.think.causes._cause import _step_by_step, fact_at

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
        assert fact_at(case, path) == _step_by_step(case, path), path


def test_through_a_list_and_past_its_end():
    case = gpu_case(20)
    assert isinstance(fact_at(case, "machine.gpus.0.name"), Known)
    past = fact_at(case, "machine.gpus.7.name")
    assert isinstance(past, Unknown)
    assert "machine.gpus.7.name" in past.why
