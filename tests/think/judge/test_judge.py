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
from unslow.facts.values import GIB, failed_fact, not_found
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Found
from unslow.think.judge.findings import worthy_findings
from unslow.think.judge.judge import diagnose, judge
from unslow.think.judge.phases import outlook
from unslow.think.judge.verdict import can_fail_a_load


def test_speed_above_the_bandwidth_ceiling_gives_cannot_tell(wording):
    report = judge(CaseView(with_facts(gpu_case(), {"run.decode_tokens_per_s": 2000.0})))
    assert report.verdict == "cannot_tell"
    wording(report.summary)


def test_wide_interval_hides_no_cause():
    estimated = with_facts(
        cpu_case(), {"machine.memory.read_bytes_per_s": not_found("no"), "runtime.compute.threads": 64}
    )
    report = judge(CaseView(with_facts(estimated, {"run.decode_tokens_per_s": 1.2})))
    assert report.verdict == "slow"
    assert report.findings[0].cause == "threads_exceed_cores"


def test_cause_that_costs_little_is_ruled_out_with_the_reason(wording):
    fine = with_facts(clamped(32), {"run.decode_tokens_per_s": 128.0})
    report = judge(CaseView(fine))
    assert report.verdict == "normal"
    assert not report.findings
    wording(next(r.because for r in report.ruled_out if r.cause == "gpu_layers_set_too_low"), tells="1 of 33")


def test_spill_with_gpu_layers_set_to_the_maximum_is_weights_spill():
    full = with_facts(gpu_case(layers_on_gpu=21, free_gib=4.3, context=4096), {"runtime.placement.gpu_layers_set": 21})
    assert judge(CaseView(full)).findings[0].cause == "weights_spill_to_ram"


def test_unexplained_cpu_layers_are_slow_without_a_finding():
    case = with_facts(gpu_case(layers_on_gpu=10), {"run.decode_tokens_per_s": 5.0, "runtime.placement.fit": True})
    report = judge(CaseView(case))
    assert report.verdict == "slow"
    assert not report.findings, "what is free was read before the load, so that nothing tells whether they would fit"


def test_slow_without_an_observed_cause_says_so(wording):
    report = judge(CaseView(with_facts(gpu_case(), {"run.decode_tokens_per_s": 60.0})))
    assert report.verdict == "slow"
    assert not report.findings
    wording(report.summary, tells="60")


def test_build_that_offloads_nothing_by_default_is_gpu_layers_set_too_low(wording):
    case = with_facts(gpu_case(layers_on_gpu=0), {"run.decode_tokens_per_s": 3.0})
    finding = judge(CaseView(case)).findings[0]
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
    return with_facts(case, {"machine.gpus": r((first, other)), "runtime.placement.devices": seen})


def test_idle_second_gpu_does_not_change_the_expectation():
    both, one = judge(CaseView(two_gpus())), judge(CaseView(gpu_case()))
    assert both.expected.achievable == one.expected.achievable
    assert judge(CaseView(two_gpus(name=r("Matrox G200")))).verdict == "normal"


def test_failed_measurement_is_not_replaced_by_old_counters():
    case = with_facts(
        gpu_case(), {"run.decode_tokens_per_s": failed_fact("broke off"), "runtime.history.decode_tokens_per_s": 130.0}
    )
    assert judge(CaseView(case)).verdict == "cannot_tell"


def test_long_queue_is_slow_though_decode_is_fast(wording):
    waits = with_facts(gpu_case(), {"run.queue_s": 6.0})
    report = judge(CaseView(waits))
    assert (report.verdict, report.phase) == ("slow", "queue")
    wording(report.summary, tells="6 s")
    assert sum(b.seconds for b in report.budget if b.phase == "queue") == 6


def test_finding_of_a_cheap_phase_is_not_first():
    first, *others = judge(
        CaseView(with_facts(spilled(), {"run.queue_s": 0.6, "run.time_to_first_token_s": 0.7}))
    ).findings
    assert first.phase == "decode"
    assert "queueing" in [f.cause for f in others]


def test_expected_prefill_speed_is_normal():
    fine = with_facts(with_tensors(gpu_case()), {"run.long_prompt": LongPrompt(tokens=2048, seconds=0.35)})
    report = judge(CaseView(fine))
    assert report.verdict == "normal"
    assert report.measured["prefill_tokens_per_s"] > 5000
    assert report.expected.achievable["prefill_tokens_per_s"].low < 6000


def test_failed_load_leaves_only_load_causes_undetermined():
    report = judge(CaseView(FIRING["memory_allocation_failed"]()))
    assert report.verdict == "failed"
    assert all(can_fail_a_load(untold.cause) for untold in report.cannot_tell)
    assert can_fail_a_load("vram_fragmented")
    assert can_fail_a_load("other_process_holds_vram")
    assert not can_fail_a_load("queueing")


def deep(**facts):
    depths = (AtDepth(depth_tokens=0, tokens_per_s=130.0), AtDepth(depth_tokens=16384, tokens_per_s=25.0))
    return with_facts(gpu_case(), {"runtime.compute.flash_attention": False, "run.depths": depths} | facts)


def test_slow_decode_at_depth_is_a_finding_beside_a_normal_speed(wording):
    report = judge(CaseView(deep()))
    assert (report.verdict, report.findings[0].cause) == ("slow", "flash_attention_off")
    cost = report.findings[0].cost
    assert cost.depth_tokens == 16384
    assert cost.seconds == pytest.approx((1 - 1 / report.findings[0].speedup) / 25)
    wording(report.summary, tells=("130", "25", "16,384"))
    assert report.expected.achievable["decode_tokens_per_s"].mid < 2 * 130, "the start of the context stays as it is"
    assert judge(CaseView(deep(**{"runtime.compute.flash_attention": True}))).verdict == "normal"


def test_costless_finding_is_never_first():
    seen = outlook(CaseView(spilled()), None)
    one = Found("so", (), speedup=1.01)
    kept, costless = worthy_findings(CaseView(spilled()), {"context_larger_than_needed": one}, seen)
    assert (kept, [f.cause for f in costless]) == ((), ["context_larger_than_needed"])
    both = {"context_larger_than_needed": one, "weights_spill_to_ram": Found("so", (), speedup=3.0)}
    kept, costless = worthy_findings(CaseView(spilled()), both, seen)
    assert [f.cause for f in kept] == ["weights_spill_to_ram"]
    assert kept[0].cost.seconds > 0


def test_reprocessed_prompt_in_a_later_turn_is_slow_prefill(wording):
    turns = (
        Turn(prompt_tokens=8000, new_tokens=8000, computed_tokens=8000, first_token_s=4.0),
        Turn(prompt_tokens=8200, new_tokens=200, computed_tokens=8200, first_token_s=4.1),
    )
    report = judge(CaseView(with_facts(gpu_case(), {"run.turns": turns})))
    assert (report.verdict, report.phase, report.findings[0].cause) == ("slow", "prefill", "prompt_reprocessed")
    wording(report.summary)
    soon = report.expected.achievable["time_to_first_token_s"].mid
    assert soon == pytest.approx(200 * 4.1 / 8200, rel=0.1)
    assert report.findings[0].fixes[0].predicted["time_to_first_token_s"] == soon
    wording(report.summary, tells="0.11 s")


def test_fixes_predict_at_most_the_achievable_speed():
    for case in (spilled(), clamped(4)):
        report = judge(CaseView(case))
        most = report.expected.achievable["decode_tokens_per_s"].mid
        promised = [f.predicted.get("decode_tokens_per_s", 0) for one in report.findings for f in one.fixes]
        assert max(promised) <= most


def test_worst_subject_comes_first():
    cases = [gpu_case(), spilled(), with_facts(spilled(), {"run.decode_tokens_per_s": not_found("no")})]
    subjects = tuple(Subject(runtime=c.runtime, model=c.model, run=c.run) for c in cases)
    report = diagnose(Snapshot(unslow_version="0", machine=spilled().machine, subjects=subjects))
    assert [s.verdict for s in report.subjects][-1] == "normal"
    assert sorted(s.number for s in report.subjects) == [0, 1, 2]
    assert msgspec.json.encode(report)


def test_slots_that_divide_a_short_context_are_noted(wording):
    facts = {
        "runtime.name": "llama.cpp",
        "runtime.context.length": 4096,
        "runtime.scheduling.slots": 8,
        "runtime.cache.unified": False,
    }
    notes = judge(CaseView(with_facts(gpu_case(), facts))).notes
    wording(notes, tells="512")
    for other in (
        {"runtime.cache.unified": True},
        {"runtime.scheduling.slots": 1},
        {"runtime.context.length": 65536},
        {"runtime.name": "Ollama"},  # whose context is that of one slot
    ):
        assert not any("divided" in note for note in judge(CaseView(with_facts(gpu_case(), facts | other))).notes)
