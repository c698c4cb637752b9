"""The verdict, where it is easy to get wrong."""

import msgspec
import pytest
from all_firing import FIRING
from cases import cpu_case, gpu_case, r, with_facts, with_tensors
from firing import clamped, spilled

from unslow.facts.machine import Gpu
from unslow.facts.run import AtDepth, LongPrompt, Turn
from unslow.facts.runtime import SeenDevice
from unslow.facts.snapshot import Snapshot, Subject
from unslow.facts.values import GIB, failed, not_found
from unslow.think.causes._cause import Found
from unslow.think.judge.chains import can_fail_a_load
from unslow.think.judge.findings import worthy_findings
from unslow.think.judge.judge import diagnose, judge
from unslow.think.judge.phases import outlook


def test_faster_than_the_bandwidth_allows_is_a_contradiction_not_normal(wording):
    report = judge(with_facts(gpu_case(), {"run.decode_tokens_per_s": 2000.0}))
    assert report.verdict == "cannot_tell"
    wording(report.summary)


def test_a_wide_interval_hides_no_cause():
    estimated = with_facts(cpu_case(), {"machine.memory.read_bytes_per_s": not_found("no"), "runtime.threads": 64})
    report = judge(with_facts(estimated, {"run.decode_tokens_per_s": 1.2}))
    assert report.verdict == "slow"
    assert report.findings[0].cause == "threads_exceed_cores"


def test_a_cause_that_costs_little_is_ruled_out_with_the_reason(wording):
    fine = with_facts(clamped(32), {"run.decode_tokens_per_s": 128.0})
    report = judge(fine)
    assert report.verdict == "normal"
    assert not report.findings
    wording(next(r.because for r in report.ruled_out if r.cause == "gpu_layers_set_too_low"), tells="1 of 33")


def test_a_spill_under_a_setting_that_already_takes_all_there_is():
    full = with_facts(gpu_case(layers_on_gpu=21, free_gib=4.3, context=4096), {"runtime.gpu_layers_set": 21})
    assert judge(full).findings[0].cause == "weights_spill_to_ram"


def test_layers_left_on_the_cpu_without_a_reason_are_not_normal():
    case = with_facts(gpu_case(layers_on_gpu=10), {"run.decode_tokens_per_s": 5.0, "runtime.fit": True})
    report = judge(case)
    assert report.verdict == "slow"
    assert not report.findings, "what is free was read before the load, so that nothing tells whether they would fit"


def test_slow_without_a_reason_that_was_seen(wording):
    report = judge(with_facts(gpu_case(), {"run.decode_tokens_per_s": 60.0}))
    assert report.verdict == "slow"
    assert not report.findings
    wording(report.summary, tells="60")


def test_a_build_that_offloads_nothing_by_default(wording):
    case = with_facts(gpu_case(layers_on_gpu=0), {"run.decode_tokens_per_s": 3.0})
    finding = judge(case).findings[0]
    assert finding.cause == "gpu_layers_set_too_low"
    wording(finding.because)
    assert finding.fixes[0].value == 33


def two_gpus(**second):
    case = gpu_case()
    first = case.machine.gpus.value[0]
    other = Gpu(
        **{"index": 1, "name": r("Tesla P4"), "vram_total_bytes": r(8 * GIB), "vram_free_bytes": r(8 * GIB)} | second
    )
    seen = [SeenDevice(name="CUDA0", description="NVIDIA GeForce RTX 4090", free_bytes=r(20 * GIB))]
    return with_facts(case, {"machine.gpus": r((first, other)), "runtime.devices": seen})


def test_an_idle_second_gpu_does_not_set_the_pace():
    both, one = judge(two_gpus()), judge(gpu_case())
    assert both.expected.achievable == one.expected.achievable
    assert judge(two_gpus(name=r("Matrox G200"))).verdict == "normal"


def test_a_failed_measurement_is_not_replaced_by_old_counters():
    case = with_facts(
        gpu_case(), {"run.decode_tokens_per_s": failed("broke off"), "runtime.decode_tokens_per_s": 130.0}
    )
    assert judge(case).verdict == "cannot_tell"


def test_a_long_wait_is_not_normal_though_the_answer_is_fast(wording):
    waits = with_facts(gpu_case(), {"run.queue_s": 6.0})
    report = judge(waits)
    assert (report.verdict, report.phase) == ("slow", "queue")
    wording(report.summary, tells="6 s")
    assert sum(b.seconds for b in report.budget if b.phase == "queue") == 6


def test_a_finding_of_a_phase_that_costs_nothing_is_not_first():
    first, *others = judge(with_facts(spilled(), {"run.queue_s": 0.6, "run.time_to_first_token_s": 0.7})).findings
    assert first.phase == "decode"
    assert "queueing" in [f.cause for f in others]


def test_prompts_as_fast_as_they_should_be_are_normal():
    fine = with_facts(with_tensors(gpu_case()), {"run.long_prompt": LongPrompt(tokens=2048, seconds=0.35)})
    report = judge(fine)
    assert report.verdict == "normal"
    assert report.measured["prefill_tokens_per_s"] > 5000
    assert report.expected.achievable["prefill_tokens_per_s"].low < 6000


def test_a_failed_load_is_open_only_for_what_can_fail_a_load():
    report = judge(FIRING["memory_allocation_failed"]())
    assert report.verdict == "failed"
    assert all(can_fail_a_load(untold.cause) for untold in report.cannot_tell)
    assert can_fail_a_load("vram_fragmented")
    assert can_fail_a_load("other_process_holds_vram")
    assert not can_fail_a_load("queueing")


def deep(**facts):
    depths = (AtDepth(depth_tokens=0, tokens_per_s=130.0), AtDepth(depth_tokens=16384, tokens_per_s=25.0))
    return with_facts(gpu_case(), {"runtime.flash_attention": False, "run.depths": depths} | facts)


def test_what_was_tried_deep_in_the_context_stands_beside_a_usual_speed(wording):
    report = judge(deep())
    assert (report.verdict, report.findings[0].cause) == ("slow", "flash_attention_off")
    cost = report.findings[0].cost
    assert cost.depth_tokens == 16384
    assert cost.seconds == pytest.approx((1 - 1 / report.findings[0].speedup) / 25)
    wording(report.summary, tells=("130", "25", "16,384"))
    assert report.expected.achievable["decode_tokens_per_s"].mid < 2 * 130, "the start of the context stays as it is"
    assert judge(deep(**{"runtime.flash_attention": True})).verdict == "normal"


def test_what_costs_nothing_is_never_first():
    seen = outlook(spilled(), None)
    one = Found("so", (), speedup=1.01)
    kept, costless = worthy_findings(spilled(), {"context_larger_than_needed": one}, seen)
    assert (kept, [f.cause for f in costless]) == ((), ["context_larger_than_needed"])
    both = {"context_larger_than_needed": one, "weights_spill_to_ram": Found("so", (), speedup=3.0)}
    kept, costless = worthy_findings(spilled(), both, seen)
    assert [f.cause for f in kept] == ["weights_spill_to_ram"]
    assert kept[0].cost.seconds > 0


def test_a_phase_that_only_a_later_turn_shows(wording):
    turns = (
        Turn(prompt_tokens=8000, new_tokens=8000, computed_tokens=8000, first_token_s=4.0),
        Turn(prompt_tokens=8200, new_tokens=200, computed_tokens=8200, first_token_s=4.1),
    )
    report = judge(with_facts(gpu_case(), {"run.turns": turns}))
    assert (report.verdict, report.phase, report.findings[0].cause) == ("slow", "prefill", "prompt_reprocessed")
    wording(report.summary)
    soon = report.expected.achievable["time_to_first_token_s"].mid
    assert soon == pytest.approx(200 * 4.1 / 8200, rel=0.1)
    assert report.findings[0].fixes[0].predicted["time_to_first_token_s"] == soon
    wording(report.summary, tells="0.11 s")


def test_fixes_promise_no_more_than_all_of_them_give():
    for case in (spilled(), clamped(4)):
        report = judge(case)
        most = report.expected.achievable["decode_tokens_per_s"].mid
        promised = [f.predicted.get("decode_tokens_per_s", 0) for one in report.findings for f in one.fixes]
        assert max(promised) <= most


def test_the_worst_comes_first():
    cases = [gpu_case(), spilled(), with_facts(spilled(), {"run.decode_tokens_per_s": not_found("no")})]
    subjects = tuple(Subject(runtime=c.runtime, model=c.model, run=c.run) for c in cases)
    report = diagnose(Snapshot(unslow_version="0", machine=spilled().machine, subjects=subjects))
    assert [s.verdict for s in report.subjects][-1] == "normal"
    assert sorted(s.number for s in report.subjects) == [0, 1, 2]
    assert msgspec.json.encode(report)


def test_slots_that_divide_a_short_context_are_said(wording):
    facts = {
        "runtime.name": "llama.cpp",
        "runtime.context_length": 4096,
        "runtime.slots": 8,
        "runtime.kv_unified": False,
    }
    notes = judge(with_facts(gpu_case(), facts)).notes
    wording(notes, tells="512")
    for other in (
        {"runtime.kv_unified": True},
        {"runtime.slots": 1},
        {"runtime.context_length": 65536},
        {"runtime.name": "Ollama"},  # whose context is that of one slot
    ):
        assert not any("divided" in note for note in judge(with_facts(gpu_case(), facts | other)).notes)
