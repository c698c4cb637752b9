"""Whatever a snapshot says, there is a page: a panel that can't be worked out is missing, and takes nothing with it."""

import json

import msgspec
import pytest
from tests.recorded_machines import MACHINES, recorded
from tests.scrambled import variants
from tests.test_hostile_snapshots import changed

from unslow.facts.snapshot import Case, Snapshot, Subject, dump_snapshot, parse_snapshot
from unslow.page import build
from unslow.page.build import Sources, view_of
from unslow.page.view import View
from unslow.think.judge.judge import diagnose

SLOW = "h200_llama_server_gpu_layers_set_too_low"
MIXED = (SLOW, "built_rtx_4060_llama_70b", "built_vllm_eight_h100", "lab_cpu_cpu_contended")


def first(name: str) -> Case:
    return next(iter(recorded(MACHINES / name).cases()))


def drawn(snapshot: Snapshot) -> View:
    view = view_of(diagnose(snapshot), Sources(snapshot))
    assert msgspec.json.decode(msgspec.json.encode(view), type=View) == view
    return view


def why_missing(view: View) -> list[str]:
    return [missing.why for subject in view.subjects for missing in subject.missing.values()]


@pytest.mark.parametrize("kind", ["", "x", "[/]\x1b[31m"])
@pytest.mark.parametrize("name", ["type_k", "type_v"])
def test_invalid_cache_type_costs_one_panel(name: str, kind: str, wording):
    raw = json.loads(dump_snapshot(recorded(MACHINES / SLOW)))
    fact = {"is": "known", "value": kind, "origin": "reported", "source": "a log"}
    raw["subjects"][0]["runtime"]["cache"][name] = fact
    (subject,) = drawn(parse_snapshot(json.dumps(raw).encode())).subjects
    wording(subject.missing["memory"].why)
    assert subject.roofline


def test_failing_panel_reports_the_bug_in_its_place(monkeypatch: pytest.MonkeyPatch):
    def broken(*_: object) -> None:
        raise ZeroDivisionError("no parts")

    for name in ("roofline_view", "depth_curve", "speed_rows"):
        monkeypatch.setattr(build, name, broken)
    (subject,) = drawn(recorded(MACHINES / SLOW)).subjects
    assert subject.memory
    for name in ("roofline", "depth", "speeds"):
        assert build.BUG in subject.missing[name].why
        assert "ZeroDivisionError at test_build_hostile_snapshots.py" in subject.missing[name].why


@pytest.mark.parametrize("name", MIXED)
def test_view_survives_missing_and_contradicting_facts(name: str):
    for _, case in variants(first(name), [first(other) for other in MIXED], name, each=6):
        subject = Subject(runtime=case.runtime, model=case.model, run=case.run)
        view = drawn(Snapshot(unslow_version="1", machine=case.machine, subjects=(subject,)))
        assert not [why for why in why_missing(view) if build.BUG in why]


def test_model_without_layers_is_judged_and_drawn():
    raw = json.loads(dump_snapshot(recorded(MACHINES / "lab_gpu_slow_client")))
    path = ("subjects", 0, "model", "metadata", "value", "llama.block_count")
    assert not [why for why in why_missing(drawn(parse_snapshot(changed(raw, path, 1e-320)))) if build.BUG in why]
