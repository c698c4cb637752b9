"""The judgement of a server that is only watched, in a line."""

import msgspec
import pytest
from cases import cpu_case, gpu_case, with_facts
from firing import spilled

from unslow.facts.values import not_found
from unslow.live.tick import NORMAL, NOTHING, UNSURE, judgement, suspicion_of, walls_of
from unslow.think.judge.judge import judge
from unslow.think.report import ChecklistItem, Untold


def test_a_finding_comes_with_its_number_and_what_to_do():
    seen = judgement(spilled(), "now").suspicion
    assert (seen.kind, seen.cause, seen.at) == ("found", "weights_spill_to_ram", "now")
    assert seen.speedup > 1
    assert seen.fix == judge(spilled()).findings[0].fixes[0].why


def test_a_fix_has_its_reason_and_the_first_of_its_commands():
    def spell(report, _case):
        first = report.findings[0]
        fix = msgspec.structs.replace(first.fixes[0], why="fewer layers", commands=("-ngl 9", "the whole line"))
        return msgspec.structs.replace(report, findings=(msgspec.structs.replace(first, fixes=(fix,)),))

    seen = judgement(spilled(), spell=spell).suspicion
    assert (seen.fix, seen.command) == ("fewer layers", "-ngl 9")


def test_what_is_expected_comes_from_the_same_prediction():
    case = with_facts(gpu_case(), {"run.decode_tokens_per_s": 100.0})
    seen, report = judgement(case), judge(case)
    assert seen.expected == report.expected.as_configured["decode_tokens_per_s"]
    assert seen.ceiling == report.expected.ceiling_tokens_per_s


def test_walls_add_up_to_the_measured_time_or_to_the_predicted_one():
    case = with_facts(gpu_case(), {"run.decode_tokens_per_s": 50.0})
    walls = walls_of(case, judge(case))
    assert walls["decode"].measured
    assert sum(part.seconds for part in walls["decode"].parts) == pytest.approx(1 / 50)
    assert sum(part.share for part in walls["decode"].parts) == pytest.approx(1)
    assert not walls["prefill"].measured
    shares = [part.share for part in walls["prefill"].parts]
    assert shares == sorted(shares, reverse=True)


def test_without_a_prediction_there_is_no_wall():
    lacking = {"run.decode_tokens_per_s": not_found("no"), "model.weights_bytes": not_found("no")}
    case = with_facts(gpu_case(), {**lacking, "model.tensors": not_found("no"), "model.layers": not_found("no")})
    assert walls_of(case, judge(case)) == {}


def test_normal_is_nothing_to_suspect():
    seen = judgement(with_facts(gpu_case(), {"run.decode_tokens_per_s": 130.0})).suspicion
    assert (seen.kind, seen.title) == ("nothing", NORMAL)


def report_without_findings(**changes):
    report = judge(with_facts(cpu_case(), {"run.decode_tokens_per_s": not_found("nobody asked")}))
    return msgspec.structs.replace(report, findings=(), **changes)


def test_a_suspicion_has_the_title_of_its_cause_and_what_would_settle_it():
    untold = Untold(cause="cpu_contended", missing="", because="1.5 cores", how_to_get="top", suspected=True)
    seen = suspicion_of(report_without_findings(cannot_tell=(untold, untold)))
    assert (seen.kind, seen.because, seen.fix, seen.more) == ("suspected", "1.5 cores", "top", 1)
    assert "_" not in seen.title


def test_a_suspicion_about_a_phase_that_takes_no_time_is_not_the_answer():
    untold = Untold(cause="prompt_reprocessed", missing="", because="of 9", how_to_get="", suspected=True)
    report = report_without_findings(verdict="normal", cannot_tell=(untold,))
    assert suspicion_of(report, shares={"decode": 0.5, "prefill": 0.04}).title == NORMAL
    assert suspicion_of(report, shares={"decode": 0.5, "prefill": 0.1}).kind == "suspected"
    assert suspicion_of(report, shares={"idle": 1.0}).kind == "suspected"


def test_what_cannot_be_told_is_not_called_nothing(wording):
    bad = ChecklistItem(item="Do weights fit?", state="bad", because="6.4 GiB asked, 5.5 GiB free")
    known = {"verdict": "cannot_tell", "cannot_tell": (), "measured": {"decode_tokens_per_s": 30.0}}
    seen = suspicion_of(report_without_findings(**known, checklist=(bad,), summary="Where they lie is not known."))
    assert seen.kind == "cannot_tell"
    wording(seen.title, tells=("6.4 GiB", "5.5 GiB"))
    wording(seen.because)
    assert suspicion_of(report_without_findings(**known, checklist=())).title == UNSURE


def test_slow_without_a_cause_and_no_speed_at_all_are_two_answers():
    slow = {"verdict": "slow", "cannot_tell": ()}
    assert suspicion_of(report_without_findings(**slow, measured={"decode_tokens_per_s": 3.0})).title == NOTHING
    assert suspicion_of(report_without_findings(**slow, measured={})).kind == "cannot_tell"
