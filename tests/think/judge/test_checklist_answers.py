"""Answers of the checklist that a report does not show elsewhere."""

import pytest
from cases import gpu_case, with_facts
from made_up_telemetry import traffic

from unslow.facts.run import GpuUnderLoad
from unslow.facts.values import measured, not_found
from unslow.think.judge.judge import judge

NOTHING = not_found("nobody looked")
QUESTION = "Is the GPU busy while tokens are generated?"


@pytest.mark.parametrize(("busy", "state"), [(0.07, "unknown"), (0.5, "ok"), (0.9, "ok")])
def test_a_gpu_that_hardly_works_is_no_tick_however_fast_it_is(busy, state):
    load = GpuUnderLoad(index=0, samples=9, busy=measured(busy, "nvml"))
    report = judge(with_facts(gpu_case(), {"run.gpus": (load,)}))
    assert report.verdict == "normal"
    assert next(item.state for item in report.checklist if item.item == QUESTION) == state


def test_a_gpu_that_nobody_asks_anything_of_need_not_be_busy():
    load = GpuUnderLoad(index=0, samples=9, busy=measured(0.0, "nvml"))
    facts = {"run.gpus": (load,), "run.decode_tokens_per_s": NOTHING}
    for tokens, state in ((0.0, "unknown"), (40.0, "bad")):
        seen = traffic(0.0 if not tokens else 1.0, tokens_per_s=measured(tokens, "looks"))
        report = judge(with_facts(gpu_case(), {**facts, "run.traffic": seen}))
        assert next(item.state for item in report.checklist if item.item == QUESTION) == state


def test_an_engine_that_is_loaded_on_gpus_alone():
    case = with_facts(gpu_case(), {"runtime.name": "vLLM", "runtime.state": "loaded", "runtime.buffers": NOTHING})
    seen = traffic(8.0, each_tokens_per_s=measured(2.0, "looks"), each_among=8.0)
    watched = with_facts(case, {"run.decode_tokens_per_s": NOTHING, "run.traffic": seen})
    said = {item.item: item for item in judge(watched).checklist}
    assert said["Do weights and KV cache fit into the GPU's memory?"].state == "ok"
    assert said["Is it as fast as this hardware allows?"].because.startswith("2 tok/s, "), "as seen among others"


def test_a_brief_report_has_no_checklist_and_the_same_verdict():
    whole, brief = judge(gpu_case()), judge(gpu_case(), brief=True)
    assert brief.checklist == ()
    assert (brief.verdict, brief.summary) == (whole.verdict, whole.summary)
    slow = with_facts(gpu_case(), {"run.decode_tokens_per_s": 2.0})
    assert judge(slow, brief=True).summary == judge(slow).summary
    assert judge(slow, brief=True).cannot_tell == judge(slow).cannot_tell
