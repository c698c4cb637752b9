from answers import ask
from cases import gpu_case
from told import compares, pasted, says

from unslow.facts.account import Topic
from unslow.facts.run import Earlier, Run
from unslow.facts.snapshot import Case
from unslow.facts.values import measured
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge.judge import judge

NAME = "runtime_version_regressed"
SLOWER = compares(Topic.VERSION, 80.0, 220.0, "220 -> 80 t/s since the update")


def fires():
    return pasted(SLOWER, gpus=["RTX 4090"], version_before="b8322", version_since="b8323")


def test_two_versions_and_two_speeds():
    finding = judge(fires()).findings[0]
    assert finding.cause == NAME
    assert finding.speedup == 2.75
    assert finding.fixes[0].value == "b8322"


def test_a_factor_in_words_counts_as_a_loss():
    assert judge(pasted(slowdown=2.5, version_since="b8323")).findings[0].cause == NAME


def test_others_who_see_the_same_count_too():
    others = says(Topic.SAME_FOR_OTHERS, "a Linux user sees the same")
    assert judge(pasted(others, version_since="1.52.0")).findings[0].cause == NAME


def test_an_update_without_a_version_or_without_numbers_is_a_suspicion():
    for case in (pasted(SLOWER), pasted(SLOWER, slowdown=12.0), pasted(version_since="0.5.4")):
        answer = ask(NAME, case)
        assert isinstance(answer, CannotTell)
        assert answer.suspected
        assert judge(case).findings == ()


def test_a_loss_that_nobody_ties_to_a_version():
    answer = ask(NAME, pasted(slowdown=12.0))
    assert isinstance(answer, CannotTell)
    assert not answer.suspected


def test_a_gpu_that_is_gone_with_an_update_is_more_likely_its_backend():
    unused = says(Topic.GPU_UNUSED, "the GPU is not used any more")
    case = pasted(SLOWER, unused, gpus=["RTX 4090"], version_since="0.5.8")
    assert judge(case).findings == ()


def test_it_is_the_last_thing_to_believe():
    case = pasted(SLOWER, version_since="0.4.21", runtime={"gpu_layers": 54, "layers": 65})
    report = judge(case)
    assert [f.cause for f in report.findings] == ["weights_spill_to_ram"]
    assert NAME in [r.cause for r in report.ruled_out]


def test_two_speeds_that_are_one():
    assert isinstance(ask(NAME, pasted(compares(Topic.VERSION, 39.0, 40.0), version_since="b2")), Absent)


def measured_before(**other):
    speeds = {"decode_tokens_per_s": 120.0, "now_tokens_per_s": 80.0, "slower": True}
    known = {"bench": "0001", "taken_at": "2026-01-01T10:00:00Z", "version": "b8322", "version_now": "b8323", **speeds}
    return Case(run=Run(earlier=measured(Earlier(**{**known, **other}), "history of benchmarks: 0001")))


def test_both_versions_were_measured_here(wording):
    found = ask(NAME, measured_before())
    assert isinstance(found, Found)
    assert (found.speedup, found.remedies[0].change.value) == (1.5, "b8322")
    wording(found.evidence[0].value, tells=("120.0", "b8322", "80.0"))
    assert judge(measured_before()).findings[0].cause == NAME


def test_near_miss_settings_changed_too():
    answer = ask(NAME, measured_before(also_changed=("GPU driver",)))
    assert isinstance(answer, CannotTell)
    assert "GPU driver" in answer.suspected


def test_as_fast_as_with_the_earlier_version():
    for other in ({"slower": False}, {"version": "b8323"}, {"now_tokens_per_s": 0.0}):
        assert isinstance(ask(NAME, measured_before(**other)), Absent)
    assert isinstance(ask(NAME, measured_before(version="")), CannotTell)


def test_nothing_is_lost_where_the_speed_is_what_the_hardware_gives():
    assert isinstance(ask(NAME, gpu_case()), Absent)


def test_a_newer_version_that_is_faster_is_no_way_back(wording):
    answer = ask(NAME, pasted(compares(Topic.VERSION, 30.0, 60.0), version_since="b5000", version_before="b6000"))
    assert isinstance(answer, Found)
    wording(answer.because, tells=("b5000", "2.0", "b6000"))
    assert "newer" in answer.remedies[0].change.why


def test_an_earlier_time_without_a_date(wording):
    earlier = Earlier(
        bench="Prometheus", taken_at="", decode_tokens_per_s=40.0, now_tokens_per_s=39.0, slower=False, version="1.0",
        version_now="1.1",
    )  # fmt: skip
    answer = ask(NAME, Case(run=Run(earlier=measured(earlier, "two windows"))))
    assert isinstance(answer, Absent)
    wording(answer.because, tells=("39.0", "40.0", "1.0"))
