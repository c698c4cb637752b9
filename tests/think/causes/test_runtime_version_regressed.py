from answers import ask
from cases import gpu_case
from told import compares, pasted, says

from unslow.facts.account import Topic
from unslow.facts.run import Earlier, Run
from unslow.facts.snapshot import Case
from unslow.facts.values import measured_fact
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge.judge import judge

NAME = "runtime_version_regressed"
SLOWER = compares(Topic.VERSION, 80.0, 220.0, "220 -> 80 t/s since the update")


def fires():
    return pasted(SLOWER, gpus=["RTX 4090"], version_before="b8322", version_since="b8323")


def test_two_versions_with_two_speeds_are_found_with_speedup():
    finding = judge(CaseView(fires())).findings[0]
    assert finding.cause == NAME
    assert finding.speedup == 2.75
    assert finding.fixes[0].value == "b8322"


def test_slowdown_factor_since_a_version_is_found():
    assert judge(CaseView(pasted(slowdown=2.5, version_since="b8323"))).findings[0].cause == NAME


def test_version_that_others_see_as_slower_is_found():
    others = says(Topic.SAME_FOR_OTHERS, "a Linux user sees the same")
    assert judge(CaseView(pasted(others, version_since="1.52.0"))).findings[0].cause == NAME


def test_update_without_version_or_without_speeds_is_suspected():
    for case in (pasted(SLOWER), pasted(SLOWER, slowdown=12.0), pasted(version_since="0.5.4")):
        answer = ask(NAME, case)
        assert isinstance(answer, CannotTell)
        assert answer.suspected
        assert judge(CaseView(case)).findings == ()


def test_slowdown_not_tied_to_a_version_gives_cannot_tell():
    answer = ask(NAME, pasted(slowdown=12.0))
    assert isinstance(answer, CannotTell)
    assert not answer.suspected


def test_unused_gpu_after_an_update_is_not_found_as_a_regression():
    unused = says(Topic.GPU_UNUSED, "the GPU is not used any more")
    case = pasted(SLOWER, unused, gpus=["RTX 4090"], version_since="0.5.8")
    assert judge(CaseView(case)).findings == ()


def test_another_cause_rules_out_the_version():
    case = pasted(SLOWER, version_since="0.4.21", runtime={"gpu_layers": 54, "layers": 65})
    report = judge(CaseView(case))
    assert [f.cause for f in report.findings] == ["weights_spill_to_ram"]
    assert NAME in [r.cause for r in report.ruled_out]


def test_two_versions_at_the_same_speed_are_ruled_out():
    assert isinstance(ask(NAME, pasted(compares(Topic.VERSION, 39.0, 40.0), version_since="b2")), Absent)


def measured_before(**other):
    speeds = {"decode_tokens_per_s": 120.0, "now_tokens_per_s": 80.0, "slower": True}
    known = {"bench": "0001", "taken_at": "2026-01-01T10:00:00Z", "version": "b8322", "version_now": "b8323", **speeds}
    return Case(run=Run(earlier=measured_fact(Earlier(**{**known, **other}), "history of benchmarks: 0001")))


def test_slower_version_in_own_benchmarks_is_found(wording):
    found = ask(NAME, measured_before())
    assert isinstance(found, Found)
    assert (found.speedup, found.remedies[0].change.value) == (1.5, "b8322")
    wording(found.evidence[0].value, tells=("120.0", "b8322", "80.0"))
    assert judge(CaseView(measured_before())).findings[0].cause == NAME


def test_driver_that_changed_too_gives_suspicion():
    answer = ask(NAME, measured_before(also_changed=("GPU driver",)))
    assert isinstance(answer, CannotTell)
    assert "GPU driver" in answer.suspected


def test_benchmark_that_is_not_slower_is_ruled_out():
    for other in ({"slower": False}, {"version": "b8323"}, {"now_tokens_per_s": 0.0}):
        assert isinstance(ask(NAME, measured_before(**other)), Absent)
    assert isinstance(ask(NAME, measured_before(version="")), CannotTell)


def test_expected_speed_is_ruled_out():
    assert isinstance(ask(NAME, gpu_case()), Absent)


def test_faster_newer_version_is_an_upgrade(wording):
    answer = ask(NAME, pasted(compares(Topic.VERSION, 30.0, 60.0), version_since="b5000", version_before="b6000"))
    assert isinstance(answer, Found)
    wording(answer.because, tells=("b5000", "2.0", "b6000"))
    assert "newer" in answer.remedies[0].change.why


def test_earlier_benchmark_without_date_is_ruled_out_in_plain_words(wording):
    earlier = Earlier(
        bench="Prometheus", taken_at="", decode_tokens_per_s=40.0, now_tokens_per_s=39.0, slower=False, version="1.0",
        version_now="1.1",
    )  # fmt: skip
    answer = ask(NAME, Case(run=Run(earlier=measured_fact(earlier, "two windows"))))
    assert isinstance(answer, Absent)
    wording(answer.because, tells=("39.0", "40.0", "1.0"))
