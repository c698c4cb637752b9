"""From members that were read to a report, one instance in full, and how it ends."""

import time
from pathlib import Path

import msgspec
import pytest
from fleet_members import gpu, member

from unslow.commands._formats import Looking
from unslow.commands._output import Silent
from unslow.commands.fleet import FleetRequest as FleetAsked
from unslow.facts.errors import UserError
from unslow.fleet.actions import Fleet, fleet_exit_status, member_named, queries_text, report_on
from unslow.fleet.member import Member
from unslow.fleet.prometheus.connection import Access
from unslow.fleet.report import FleetReport, Statement
from unslow.fleet.settings import FleetSettings

REQUEST = FleetSettings(Access(url="http://127.0.0.1:9090"))
HOT = gpu(clock_hz=0.75e9, thermal_throttled=0.8, temperature_max_c=91.0)


def named(key: str, one: Member) -> Member:
    return msgspec.structs.replace(one, key=key)


def report(*members: Member, statements: tuple[Statement, ...] = ()) -> FleetReport:
    fleet = Fleet(list(members), statements, "http://127.0.0.1:9090", 1_763_290_800.0, 31)
    return report_on(fleet, REQUEST, Silent(), time.monotonic())


def test_slow_instance_is_first_with_its_fix_command():
    found = report(named("a", member()), named("b", member(HOT, token_gap_s=0.022)), named("c", member()))
    assert found.instances[0].key == "b"
    assert found.verdicts["slow"] == 1
    assert found.causes[0].cause == "gpu_thermal_throttling"
    assert (found.queries, found.taken_at, found.window_s) == (31, "2025-11-16T11:00:00Z", 900.0)
    assert found.complete
    assert fleet_exit_status(found) == 1


def test_fix_names_a_vllm_flag():
    full = report(named("a", member(preemptions=400.0, cache_used=0.97, waiting=6.0, queue_s=4.0, first_token_s=4.3)))
    commands = [command for fix in full.instances[0].findings[0].fixes for command in fix.commands]
    assert any("--kv-cache-dtype fp8" in command for command in commands)


def test_fleet_exit_status_by_verdict():
    assert fleet_exit_status(report(named("a", member()))) == 0
    assert fleet_exit_status(report()) == 3
    assert fleet_exit_status(report(named("a", member(about={"model": "inhouse"})))) == 3
    assert fleet_exit_status(report(named("a", member()), named("b", member(about={"model": "inhouse"})))) == 0


def test_incomplete_response_marks_the_report_incomplete():
    partial = Statement(kind="partial", text="a store did not answer")
    assert report(named("a", member()), statements=(partial,)).complete is False
    note = Statement(kind="note", text="1 engine started anew within the window")
    assert report(named("a", member()), statements=(note,)).complete is True


def test_instance_is_found_by_key_or_part_of_it():
    fleet = [named(key, member()) for key in ("llm/pod-1", "llm/pod-12", "gpu-7:8000")]
    assert member_named(fleet, "llm/pod-1").key == "llm/pod-1"
    assert member_named(fleet, "gpu-7").key == "gpu-7:8000"
    with pytest.raises(UserError) as several:
        member_named(fleet, "pod-")
    assert "llm/pod-1, llm/pod-12" in several.value.message
    with pytest.raises(UserError) as near:
        member_named(fleet, "gpu-8:8000")
    assert "gpu-7:8000" in near.value.hint
    with pytest.raises(UserError) as none:
        member_named([], "zz")
    assert "lists the keys" in none.value.hint


@pytest.mark.parametrize("form", ["terminal", "json", "markdown"])
def test_queries_text_has_window_and_matchers(form):
    text = queries_text(FleetAsked.from_flags({"window": "30m", "match": 'cluster="a"', "format": form}))
    assert "vllm:num_requests_running" in text
    assert "[1800s]" in text
    assert "cluster=" in text


def test_unknown_queries_format_is_refused():
    with pytest.raises(UserError):
        queries_text(FleetAsked.from_flags({"format": "html"}))


def test_saved_instance_snapshot_gives_the_same_finding(tmp_path: Path):
    from unslow.commands.diagnose.look import diagnose_target
    from unslow.commands.diagnose.target import save
    from unslow.fleet.snapshots import snapshot_of

    file = tmp_path / "one.json"
    save(snapshot_of(member(HOT, token_gap_s=0.022)), str(file), Silent())
    again = diagnose_target(Looking(target=str(file)), Silent()).report.subjects[0]
    assert again.findings[0].cause == "gpu_thermal_throttling"
