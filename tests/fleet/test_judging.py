"""Many members judged, here or in other processes, and what happens when one of them can't be."""

import os

import msgspec
import pytest
from fleet_members import gpu, member

from unslow.facts.snapshot import Case
from unslow.fleet import judging
from unslow.fleet.judging import CHUNK, FEW, judged, judged_member, named_by_itself, workers_for
from unslow.fleet.member import Member, OwnDiagnosis, Reading
from unslow.think.report import SubjectReport

DEADLY = "NVIDIA Deadly"
"""The name of a GPU at whose sight a process ends."""
HOT = {"clock_hz": 0.75e9, "thermal_throttled": 0.8, "temperature_max_c": 91.0}


class Steps:
    """Keeps what was said."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, float]] = []

    def step(self, text: str, share: float) -> None:
        """One more."""
        self.seen.append((text, share))


def members(count: int) -> list[Member]:
    return [msgspec.structs.replace(member(token_gap_s=0.009), key=f"m{n}") for n in range(count)]


def deadly_finish(report: SubjectReport, case: Case) -> SubjectReport:
    """Ends the process that meets one GPU."""
    if case.machine.gpus.value_or(())[0].name.value_or("") == DEADLY:
        os._exit(1)
    return report


def test_a_few_are_judged_here():
    steps = Steps()
    found = judged(members(3), 0, steps.step)
    assert [one.instance.key for one in found] == ["m0", "m1", "m2"]
    assert {one.instance.verdict for one in found} == {"normal"}
    assert steps.seen == [("judging 3 instances", 1.0)]
    assert found[0].facts["machine.gpus.0.name"] == "NVIDIA H100 80GB HBM3"


def test_nobody_at_all():
    assert judged([], 0, Steps().step) == []


def test_processes_are_for_many():
    assert workers_for(FEW - 1) == 1
    assert 1 <= workers_for(10_000) <= (os.cpu_count() or 1)


def test_a_bug_is_one_members_own(monkeypatch, wording):
    def broken(case: Case, *, brief: bool) -> SubjectReport:
        raise ZeroDivisionError("by nought")

    monkeypatch.setattr(judging, "judge", broken)
    found = judged_member(member(about={"doubts": ("started anew within the window",)})).instance
    assert found.verdict == "cannot_tell"
    wording(found.notes[0])
    assert "ZeroDivisionError: by nought" in found.notes[1]
    assert (found.key, found.model) == ("gpu-1:8000", "meta-llama/Llama-3.1-8B-Instruct")


def test_readings_that_can_not_be_stay_with_their_member():
    wild = member(about={"engine": {"running": Reading(float("inf"), "x"), "token_gap_s": Reading(1e-300, "x")}})
    found = judged([*members(1), wild], 1, Steps().step)
    assert found[0].instance.verdict == "normal"
    assert found[1].instance.verdict == "cannot_tell"


def test_a_process_that_dies_names_who_killed_it_and_nobody_else():
    fleet = members(CHUNK + 6)
    killers = {3, CHUNK + 2}
    for place in killers:
        fleet[place] = msgspec.structs.replace(
            member(gpu(name=DEADLY, **HOT), preemptions=400.0, waiting=6.0, queue_s=4.0), key=f"m{place}"
        )
    found = judged(fleet, 2, Steps().step, deadly_finish)
    assert [one.instance.key for one in found] == [f"m{n}" for n in range(len(fleet))]
    ended = {n for n, one in enumerate(found) if "the process that judged it ended" in one.instance.notes}
    assert ended == killers
    assert {one.instance.verdict for n, one in enumerate(found) if n not in killers} == {"normal"}
    here = judged_member(fleet[0])
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
def test_where_prometheus_can_not_tell_the_machine_itself_does(own, verdict):
    one = judged_member(member(about={"model": "inhouse", "own": own})).instance
    assert one.verdict == verdict
    assert one.by_itself == (("weights_spill_to_ram",) if verdict == "slow" else ())
    told = [note for note in one.notes if "unslow exporter" in note]
    assert bool(told) is (own is not None and own.verdict == "slow")


def test_the_speed_that_the_machine_itself_expects():
    own = OwnDiagnosis(
        verdict="normal",
        speed_tokens_per_s=41.0,
        expected_tokens_per_s=(30.0, 40.0, 50.0),
        achievable_tokens_per_s=42.0,
        age_s=60.0,
    )
    bare = Member(key="a", runtime="Ollama", window_s=900.0, own=own)
    one = judged_member(bare).instance
    assert one.verdict == "normal"
    assert one.measured["decode_tokens_per_s"] == 41.0
    assert one.expected.as_configured["decode_tokens_per_s"].high == 50.0
    assert one.expected.achievable["decode_tokens_per_s"].mid == 42.0


def test_of_what_the_machine_itself_names_the_costliest_has_the_loss(wording):
    named = {"cpu_contended": 1.0, "threads_exceed_cores": 0.9, "model_reloads": 0.2}
    own = OwnDiagnosis(
        verdict="slow",
        findings=named,
        costs_s={"cpu_contended": 0.0, "threads_exceed_cores": 0.054},
        speed_tokens_per_s=15.0,
        achievable_tokens_per_s=100.0,
        age_s=60.0,
    )
    one = judged_member(member(about={"model": "inhouse", "own": own})).instance
    assert one.by_itself == ("threads_exceed_cores", "cpu_contended"), "and not what was there for a moment"
    assert [*one.lost_by] == ["threads_exceed_cores"]
    wording(one.summary)


def test_of_what_the_machine_itself_names_the_longest_comes_first():
    own = OwnDiagnosis(verdict="slow", findings={"swapping": 0.6, "eager_mode": 0.9}, age_s=60.0)
    assert named_by_itself(member(about={"own": own})) == ("eager_mode", "swapping")


def test_what_is_sure_here_is_not_overruled():
    own = OwnDiagnosis(verdict="normal", age_s=10.0)
    assert judged_member(member(about={"own": own}, token_gap_s=0.03)).instance.verdict == "slow"


def test_one_that_is_down_is_not_well_however_fast_it_was():
    down = "it is down: the last scrapes of it failed"
    was_well = judged_member(member(token_gap_s=0.009, about={"down": down})).instance
    assert (was_well.verdict, was_well.lost.because, was_well.lost.tokens_per_s) == ("cannot_tell", down, None)
    assert down in was_well.summary
    was_hot = judged_member(member(gpu(**HOT), token_gap_s=0.03, about={"down": down})).instance
    assert was_hot.verdict == "slow", "what was wrong before it went down is still told"
    assert down in was_hot.notes


def test_a_machine_that_sees_its_engine_work_knows_better_than_a_scrape_that_fails():
    own = OwnDiagnosis(verdict="normal", age_s=30.0)
    assert (
        judged_member(member(token_gap_s=0.009, about={"down": "it is down", "own": own})).instance.verdict == "normal"
    )
