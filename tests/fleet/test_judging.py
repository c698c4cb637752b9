"""Members are judged in this or in other processes; a failing one affects no other."""

import os

import msgspec
import pytest
from fleet_members import gpu, member

from unslow.facts.snapshot import Case
from unslow.fleet import judging
from unslow.fleet.judging import CHUNK, FEW, exporter_causes, judge_member, judge_members, workers_for
from unslow.fleet.member import Member, OwnDiagnosis, Reading
from unslow.think.report import SubjectReport

DEADLY = "NVIDIA Deadly"
"""The name of a GPU that crashes the judging process."""
HOT = {"clock_hz": 0.75e9, "thermal_throttled": 0.8, "temperature_max_c": 91.0}


class Steps:
    """Keeps what was said."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, float]] = []

    def step(self, text: str, share: float) -> None:
        """One more."""
        self.seen.append((text, share))


def members(count: int) -> list[Member]:
    return [msgspec.structs.replace(member(token_gap_s=0.007), key=f"m{n}") for n in range(count)]


def deadly_finish(report: SubjectReport, case: Case) -> SubjectReport:
    """Crashes the process on one GPU."""
    if case.machine.gpus.value_or(())[0].name.value_or("") == DEADLY:
        os._exit(1)
    return report


def test_few_members_are_judged_in_process():
    steps = Steps()
    found = judge_members(members(3), 0, steps.step)
    assert [one.instance.key for one in found] == ["m0", "m1", "m2"]
    assert {one.instance.verdict for one in found} == {"normal"}
    assert steps.seen == [("judging 3 instances", 1.0)]
    assert found[0].facts["machine.gpus.0.name"] == "NVIDIA H100 80GB HBM3"


def test_no_members_give_no_judgements():
    assert judge_members([], 0, Steps().step) == []


def test_worker_processes_start_only_for_many_members():
    assert workers_for(FEW - 1) == 1
    assert 1 <= workers_for(10_000) <= (os.cpu_count() or 1)


def test_exception_affects_only_its_member(monkeypatch, wording):
    def broken(case: Case, *, brief: bool) -> SubjectReport:
        raise ZeroDivisionError("by nought")

    monkeypatch.setattr(judging, "judge", broken)
    found = judge_member(member(about={"doubts": ("started anew within the window",)})).instance
    assert found.verdict == "cannot_tell"
    wording(found.notes[0])
    assert "ZeroDivisionError: by nought" in found.notes[1]
    assert (found.key, found.model) == ("gpu-1:8000", "meta-llama/Llama-3.1-8B-Instruct")


def test_impossible_readings_affect_only_their_member():
    wild = member(about={"engine": {"running": Reading(float("inf"), "x"), "token_gap_s": Reading(1e-300, "x")}})
    found = judge_members([*members(1), wild], 1, Steps().step)
    assert found[0].instance.verdict == "normal"
    assert found[1].instance.verdict == "cannot_tell"


def test_crashed_worker_marks_only_the_crashing_member():
    fleet = members(CHUNK + 6)
    killers = {3, CHUNK + 2}
    for place in killers:
        fleet[place] = msgspec.structs.replace(
            member(gpu(name=DEADLY, **HOT), preemptions=400.0, waiting=6.0, queue_s=4.0), key=f"m{place}"
        )
    found = judge_members(fleet, 2, Steps().step, deadly_finish)
    assert [one.instance.key for one in found] == [f"m{n}" for n in range(len(fleet))]
    ended = {n for n, one in enumerate(found) if "the worker process crashed" in one.instance.notes}
    assert ended == killers
    assert {one.instance.verdict for n, one in enumerate(found) if n not in killers} == {"normal"}
    here = judge_member(fleet[0])
    assert found[0] == here, "as judged in this process"


@pytest.mark.parametrize(
    ("own", "verdict"),
    [
        (OwnDiagnosis(verdict="slow", findings={"weights_spill_to_ram": 0.9}, age_s=60.0), "slow"),
        (OwnDiagnosis(verdict="slow", findings={"weights_spill_to_ram": 0.9}, age_s=90_000.0), "cannot_tell"),
        (OwnDiagnosis(verdict="slow", findings={"weights_spill_to_ram": 0.9}), "cannot_tell"),
        (OwnDiagnosis(verdict="cannot_tell", age_s=60.0), "cannot_tell"),
        (None, "cannot_tell"),
    ],
)
def test_exporter_verdict_is_used_where_prometheus_cannot_tell(own, verdict):
    one = judge_member(member(about={"model": "inhouse", "own": own})).instance
    assert one.verdict == verdict
    assert one.by_itself == (("weights_spill_to_ram",) if verdict == "slow" else ())
    told = [note for note in one.notes if "unslow exporter" in note]
    assert bool(told) is (own is not None and own.verdict == "slow")


def test_exporter_speeds_fill_measured_and_expected():
    own = OwnDiagnosis(
        verdict="normal",
        speed_tokens_per_s=41.0,
        expected_tokens_per_s=(30.0, 40.0, 50.0),
        achievable_tokens_per_s=42.0,
        age_s=60.0,
    )
    bare = Member(key="a", runtime="Ollama", window_s=900.0, own=own)
    one = judge_member(bare).instance
    assert one.verdict == "normal"
    assert one.measured["decode_tokens_per_s"] == 41.0
    assert one.expected.as_configured["decode_tokens_per_s"].high == 50.0
    assert one.expected.achievable["decode_tokens_per_s"].mid == 42.0


def test_loss_goes_to_the_costliest_exporter_cause(wording):
    named = {"cpu_contended": 1.0, "threads_exceed_cores": 0.9, "model_reloads": 0.2}
    own = OwnDiagnosis(
        verdict="slow",
        findings=named,
        costs_s={"cpu_contended": 0.0, "threads_exceed_cores": 0.054},
        speed_tokens_per_s=15.0,
        achievable_tokens_per_s=100.0,
        age_s=60.0,
    )
    one = judge_member(member(about={"model": "inhouse", "own": own})).instance
    assert one.by_itself == ("threads_exceed_cores", "cpu_contended"), "and not what was there for a moment"
    assert [*one.lost_by] == ["threads_exceed_cores"]
    wording(one.summary)


def test_longest_lasting_exporter_cause_comes_first():
    own = OwnDiagnosis(verdict="slow", findings={"swapping": 0.6, "eager_mode": 0.9}, age_s=60.0)
    assert exporter_causes(member(about={"own": own})) == ("eager_mode", "swapping")


def test_own_verdict_is_not_overruled_by_the_exporter():
    own = OwnDiagnosis(verdict="normal", age_s=10.0)
    assert judge_member(member(about={"own": own}, token_gap_s=0.022)).instance.verdict == "slow"


def test_down_instance_is_never_normal():
    down = "it is down: the last scrapes of it failed"
    was_well = judge_member(member(token_gap_s=0.007, about={"down": down})).instance
    assert (was_well.verdict, was_well.lost.because, was_well.lost.tokens_per_s) == ("cannot_tell", down, None)
    assert down in was_well.summary
    was_hot = judge_member(member(gpu(**HOT), token_gap_s=0.022, about={"down": down})).instance
    assert was_hot.verdict == "slow", "what was wrong before it went down is still told"
    assert down in was_hot.notes


def test_exporter_verdict_wins_over_a_failed_scrape():
    own = OwnDiagnosis(verdict="normal", age_s=30.0)
    assert (
        judge_member(member(token_gap_s=0.007, about={"down": "it is down", "own": own})).instance.verdict == "normal"
    )
