"""Answers of the checklist that a report does not show elsewhere."""

import pytest
from cases import gpu_case, with_facts

from unslow.facts.run import GpuUnderLoad
from unslow.facts.values import measured
from unslow.think.judge import judge

QUESTION = "Is the GPU busy while tokens are generated?"


@pytest.mark.parametrize(("busy", "state"), [(0.07, "unknown"), (0.5, "ok"), (0.9, "ok")])
def test_a_gpu_that_hardly_works_is_no_tick_however_fast_it_is(busy, state):
    load = GpuUnderLoad(index=0, samples=9, busy=measured(busy, "nvml"))
    report = judge(with_facts(gpu_case(), {"run.gpus": (load,)}))
    assert report.verdict == "normal"
    assert next(item.state for item in report.checklist if item.item == QUESTION) == state
