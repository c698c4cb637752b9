"""The view of recorded machines: every panel is there, or says why not and how to get it."""

from pathlib import Path

import msgspec
import pytest
from tests.bench_cases import bench as kept_bench
from tests.recorded_machines import MACHINES, recorded

from unslow.commands._formats import Looking
from unslow.commands._output import Silent
from unslow.commands.diagnose.look import LookResult
from unslow.facts.bench import Bench, parse_bench
from unslow.facts.snapshot import Snapshot, Subject, parse_snapshot
from unslow.look.stored.history import History
from unslow.page.build import Sources, build_view, last_change, setup_bench, stored_benches, view_of, view_target
from unslow.page.view import View
from unslow.think.case.view import CaseView
from unslow.think.judge.judge import diagnose

BENCHES = Path(__file__).parents[1] / "benches"
PANELS = ("memory", "roofline", "timeline", "depth", "users", "change")
SAMPLE = (
    "h200_live_healthy",
    "h200_live_router",
    "h200_llama_server_weights_allocation_fails",
    "h200_transformers_8b_eager",
    "built_m2_max_healthy",
    "built_rtx_4060_llama_70b",
    "built_two_rtx_3090_layer_split",
    "built_vllm_eight_h100",
    "built_windows_igpu_while_rtx_4060_idles",
    "lab_cpu_cpu_contended",
)


def bench(name: str) -> Bench:
    return parse_bench((BENCHES / name).read_bytes(), name)


def drawn(name: str, **more: object) -> View:
    snapshot = recorded(MACHINES / name)
    return view_of(diagnose(snapshot), Sources(snapshot, **more))  # type: ignore[arg-type]


@pytest.mark.parametrize("name", SAMPLE)
def test_every_panel_is_built_or_says_why_not(name: str):
    view = drawn(name)
    assert len(view.subjects) == len(view.report.subjects) > 0
    for subject in view.subjects:
        for panel in PANELS:
            assert (getattr(subject, panel) is None) == (panel in subject.missing)
        for missing in subject.missing.values():
            assert missing.why
            assert missing.how_to_get
    assert len(msgspec.json.encode(view)) < 1_000_000
    assert msgspec.json.decode(msgspec.json.encode(view), type=View) == view


def test_view_target_diagnoses_a_stored_target():
    seen = view_target(Looking(target=str(MACHINES / "lab_cpu_cpu_contended")), Silent())
    assert seen.view.report.subjects[0].verdict == "slow"
    assert seen.view.subjects[0].speeds[0].measured == pytest.approx(18.79, rel=0.01)
    assert seen.view.taken_at == seen.snapshot.taken_at
    assert seen.benches == ()
    assert not seen.view.masked


def test_samples_of_a_diagnosis_become_the_timeline(wording):
    data = (BENCHES.parent / "snapshots" / "h200_watched_timeline.json").read_bytes()
    snapshot = parse_snapshot(data, "h200")
    (subject,) = view_of(diagnose(snapshot), Sources(snapshot)).subjects
    assert subject.timeline is not None
    tracks = {track.name: track for track in subject.timeline.tracks}
    assert tracks["power_w"].device == "NVIDIA H200"
    assert tracks["power_w"].limit == 700
    assert tracks["ram_used_bytes"].device == "host"
    assert {span.phase for span in subject.timeline.spans} == {"queue", "prefill", "decode"}
    wording(subject.timeline.summary)


def test_benchmark_samples_are_the_timeline_if_the_diagnosis_has_none(wording):
    (subject,) = drawn("h200_live_healthy", benches=[bench("h200_slope.json"), bench("h200_timeline.json")]).subjects
    assert subject.timeline is not None
    wording(subject.timeline.summary, tells=("2026-11-16", "10:17", "5 s"))


@pytest.mark.parametrize(("taken_at", "is_newer"), [("2020-01-01T00:00:00Z", False), ("2099-01-01T00:00:00Z", True)])
def test_newer_benchmark_replaces_the_timeline_of_the_diagnosis(taken_at, is_newer):
    data = (BENCHES.parent / "snapshots" / "h200_watched_timeline.json").read_bytes()
    snapshot = parse_snapshot(data, "h200")
    after = msgspec.structs.replace(bench("h200_timeline.json"), taken_at=taken_at)
    (subject,) = view_of(diagnose(snapshot), Sources(snapshot, benches=(after,))).subjects
    assert subject.timeline is not None
    assert (taken_at[:10] in subject.timeline.summary) == is_newer


def test_given_benchmarks_become_curves():
    (subject,) = drawn("h200_live_healthy", benches=[bench("h200_slope.json"), bench("h200_users.json")]).subjects
    assert subject.depth is not None
    assert subject.depth.verdict == "slope"
    assert subject.users is not None
    assert subject.users.measured_at == bench("h200_users.json").taken_at


def test_two_given_benchmarks_are_compared(tmp_path: Path, wording):
    looked = LookResult(recorded(MACHINES / "h200_live_healthy"))
    pair = [bench("h200_after.json"), bench("h200_standard.json")]
    seen = build_view(diagnose(looked.snapshot), looked, live=False, benches=pair, history=History(tmp_path / "none"))
    change = seen.view.subjects[0].change
    assert change is not None
    wording(change.source, tells=("2026-11-15", "15:45", "15:46"))
    assert {row.metric for row in change.rows} >= {"decode_tokens_per_s"}


def test_history_is_searched_for_the_same_setup_only(tmp_path: Path):
    snapshot = recorded(MACHINES / "h200_live_healthy")
    mine = msgspec.structs.replace(
        setup_bench(CaseView(next(snapshot.cases()))),
        id="mine",
        taken_at="2026-01-02T00:00:00Z",
        sweeps=bench("h200_slope.json").sweeps,
    )
    other = msgspec.structs.replace(mine, id="other", settings={**mine.settings, "runtime.compute.threads": "3"})
    history = History(tmp_path / "h.sqlite3")
    for one in (mine, other, kept_bench(3)):
        history.keep(one)
    assert [one.id for one in stored_benches(snapshot, history)] == ["mine"]
    looked = LookResult(snapshot)
    depth = build_view(diagnose(snapshot), looked, live=True, history=history).view.subjects[0].depth
    assert depth is not None
    assert depth.measured_at == "2026-01-02T00:00:00Z"


def test_last_two_stored_benchmarks_are_compared(tmp_path: Path):
    snapshot = recorded(MACHINES / "h200_live_healthy")
    model = setup_bench(CaseView(next(snapshot.cases())))
    history = History(tmp_path / "h.sqlite3")
    for number, rate in ((1, 100.0), (2, 200.0)):
        known = kept_bench(number, rate)
        history.keep(
            msgspec.structs.replace(
                known, runtime=model.runtime, model=model.model, machine=model.machine, settings=model.settings
            )
        )
    found = last_change(snapshot, (), history)
    assert found is not None
    assert found.verdict == "faster"
    assert found.rows[0].after.mid > found.rows[0].before.mid
    assert last_change(snapshot, (), history, live=False) is None


def test_unreadable_history_is_ignored(tmp_path: Path):
    broken = tmp_path / "h.sqlite3"
    broken.write_text("no database")
    snapshot = recorded(MACHINES / "h200_live_healthy")
    assert stored_benches(snapshot, History(broken)) == ()
    assert last_change(snapshot, (), History(broken)) is None


def test_each_subject_gets_the_benchmarks_of_its_model(tmp_path: Path):
    snapshot = recorded(MACHINES / "h200_live_healthy")
    twice = msgspec.structs.replace(snapshot, subjects=(*snapshot.subjects, Subject()))
    slope = msgspec.structs.replace(bench("h200_slope.json"), model=next(snapshot.cases()).model.name.need())
    view = view_of(diagnose(twice), Sources(twice, benches=(slope,)))
    depths = {view.report.subjects[s.number].model: s.depth for s in view.subjects}
    own = next(depth for name, depth in depths.items() if name != "unknown")
    assert own is not None
    assert own.verdict == "slope"
    assert depths["unknown"] is None
    assert last_change(twice, (), History(tmp_path / "none")) is None


def test_empty_snapshot_gives_an_empty_view():
    empty = Snapshot(unslow_version="1")
    assert view_of(diagnose(empty), Sources(empty)).subjects == ()
