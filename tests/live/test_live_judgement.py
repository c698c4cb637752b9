"""The diagnosis of a watched server."""

import msgspec
import pytest
from cases import cpu_case, gpu_case, with_facts
from firing import spilled

from unslow.facts.values import not_found
from unslow.live.tick import NORMAL, NOTHING, UNSURE, judge_case, suspicion_of, walls_of
from unslow.think.case.view import CaseView
from unslow.think.judge.judge import judge
from unslow.think.report import ChecklistItem, Untold


def test_finding_has_its_speedup_and_fix():
    seen = judge_case(CaseView(spilled()), "now").suspicion
    assert (seen.kind, seen.cause, seen.at) == ("found", "weights_spill_to_ram", "now")
    assert seen.speedup > 1
    assert seen.fix == judge(CaseView(spilled())).findings[0].fixes[0].why


def test_fix_has_its_reason_and_first_command():
    def spell(report, _case):
        first = report.findings[0]
        fix = msgspec.structs.replace(first.fixes[0], why="fewer layers", commands=("-ngl 9", "the whole line"))
        return msgspec.structs.replace(report, findings=(msgspec.structs.replace(first, fixes=(fix,)),))

    seen = judge_case(CaseView(spilled()), spell=spell).suspicion
    assert (seen.fix, seen.command) == ("fewer layers", "-ngl 9")


def test_expected_speed_equals_that_of_the_report():
    case = with_facts(gpu_case(), {"run.decode_tokens_per_s": 100.0})
    seen, report = judge_case(CaseView(case)), judge(CaseView(case))
    assert seen.expected == report.expected.as_configured["decode_tokens_per_s"]
    assert seen.ceiling == report.expected.ceiling_tokens_per_s


def test_time_parts_add_up_to_the_measured_or_predicted_time():
    case = with_facts(gpu_case(), {"run.decode_tokens_per_s": 50.0})
    walls = walls_of(CaseView(case), judge(CaseView(case)))
    assert walls["decode"].measured
    assert sum(part.seconds for part in walls["decode"].parts) == pytest.approx(1 / 50)
    assert sum(part.share for part in walls["decode"].parts) == pytest.approx(1)
    assert not walls["prefill"].measured
    shares = [part.share for part in walls["prefill"].parts]
    assert shares == sorted(shares, reverse=True)


def test_no_time_parts_without_a_prediction():
    lacking = {"run.decode_tokens_per_s": not_found("no"), "model.weights_bytes": not_found("no")}
    case = with_facts(gpu_case(), {**lacking, "model.tensors": not_found("no"), "model.layers": not_found("no")})
    assert walls_of(CaseView(case), judge(CaseView(case))) == {}


def test_normal_verdict_has_no_suspicion():
    seen = judge_case(CaseView(with_facts(gpu_case(), {"run.decode_tokens_per_s": 130.0}))).suspicion
    assert (seen.kind, seen.title) == ("nothing", NORMAL)


def report_without_findings(**changes):
    report = judge(CaseView(with_facts(cpu_case(), {"run.decode_tokens_per_s": not_found("nobody asked")})))
    return msgspec.structs.replace(report, findings=(), **changes)


def test_suspicion_has_the_title_of_its_cause_and_how_to_confirm():
    untold = Untold(cause="cpu_contended", missing="", because="1.5 cores", how_to_get="top", suspected=True)
    seen = suspicion_of(report_without_findings(cannot_tell=(untold, untold)))
    assert (seen.kind, seen.because, seen.fix, seen.more) == ("suspected", "1.5 cores", "top", 1)
    assert "_" not in seen.title


def test_suspicion_about_a_negligible_phase_is_ignored():
    untold = Untold(cause="prompt_reprocessed", missing="", because="of 9", how_to_get="", suspected=True)
    report = report_without_findings(verdict="normal", cannot_tell=(untold,))
    assert suspicion_of(report, shares={"decode": 0.5, "prefill": 0.04}).title == NORMAL
    assert suspicion_of(report, shares={"decode": 0.5, "prefill": 0.1}).kind == "suspected"
    assert suspicion_of(report, shares={"idle": 1.0}).kind == "suspected"


def test_undetermined_verdict_is_not_reported_as_nothing(wording):
    bad = ChecklistItem(item="Do weights fit?", state="bad", because="6.4 GiB asked, 5.5 GiB free")
    known = {"verdict": "cannot_tell", "cannot_tell": (), "measured": {"decode_tokens_per_s": 30.0}}
    seen = suspicion_of(report_without_findings(**known, checklist=(bad,), summary="Where they lie is not known."))
    assert seen.kind == "cannot_tell"
    wording(seen.title, tells=("6.4 GiB", "5.5 GiB"))
    wording(seen.because)
    assert suspicion_of(report_without_findings(**known, checklist=())).title == UNSURE


def test_slow_without_a_cause_differs_from_no_speed():
    slow = {"verdict": "slow", "cannot_tell": ()}
    assert suspicion_of(report_without_findings(**slow, measured={"decode_tokens_per_s": 3.0})).title == NOTHING
    assert suspicion_of(report_without_findings(**slow, measured={})).kind == "cannot_tell"
