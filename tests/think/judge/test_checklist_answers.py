"""Checklist answers that a report shows nowhere else."""

import pytest
from cases import gpu_case, with_facts
from made_up_telemetry import traffic

from unslow.facts.run import GpuUnderLoad
from unslow.facts.values import measured_fact, not_found
from unslow.think.case.view import CaseView
from unslow.think.judge.judge import judge

NOTHING = not_found("nobody looked")
QUESTION = "Is the GPU busy during decode?"


@pytest.mark.parametrize(("busy", "state"), [(0.07, "unknown"), (0.5, "ok"), (0.9, "ok")])
def test_idle_gpu_at_normal_speed_is_unknown_not_ok(busy, state):
    load = GpuUnderLoad(index=0, samples=9, busy=measured_fact(busy, "nvml"))
    report = judge(CaseView(with_facts(gpu_case(), {"run.gpus": (load,)})))
    assert report.verdict == "normal"
    assert next(item.state for item in report.checklist if item.item == QUESTION) == state


def test_idle_gpu_without_traffic_is_unknown_not_bad():
    load = GpuUnderLoad(index=0, samples=9, busy=measured_fact(0.0, "nvml"))
    facts = {"run.gpus": (load,), "run.decode_tokens_per_s": NOTHING}
    for tokens, state in ((0.0, "unknown"), (40.0, "bad")):
        seen = traffic(0.0 if not tokens else 1.0, tokens_per_s=measured_fact(tokens, "looks"))
        report = judge(CaseView(with_facts(gpu_case(), {**facts, "run.traffic": seen})))
        assert next(item.state for item in report.checklist if item.item == QUESTION) == state


def test_gpu_only_engine_that_is_loaded_fits_in_vram():
    case = with_facts(
        gpu_case(), {"runtime.name": "vLLM", "runtime.state": "loaded", "runtime.memory.buffers": NOTHING}
    )
    seen = traffic(8.0, each_tokens_per_s=measured_fact(2.0, "looks"), each_among=8.0)
    watched = with_facts(case, {"run.decode_tokens_per_s": NOTHING, "run.traffic": seen})
    said = {item.item: item for item in judge(CaseView(watched)).checklist}
    assert said["Do weights and KV cache fit in VRAM?"].state == "ok"
    assert said["Is it as fast as this hardware allows?"].because.startswith("2 tok/s, "), "as seen among others"


def test_brief_report_has_no_checklist_and_the_same_verdict():
    whole, brief = judge(CaseView(gpu_case())), judge(CaseView(gpu_case()), brief=True)
    assert brief.checklist == ()
    assert (brief.verdict, brief.summary) == (whole.verdict, whole.summary)
    slow = with_facts(gpu_case(), {"run.decode_tokens_per_s": 2.0})
    assert judge(CaseView(slow), brief=True).summary == judge(CaseView(slow)).summary
    assert judge(CaseView(slow), brief=True).cannot_tell == judge(CaseView(slow)).cannot_tell
