"""A recording gives the same snapshot again, on any machine."""

from doubles import Quiet

from unslow.commands.diagnose.target import collect, read_stored, save, write_snapshot
from unslow.facts.masking import mask_snapshot
from unslow.facts.snapshot import parse_snapshot
from unslow.look.system.live import LiveSystem
from unslow.look.system.recorded import RecordedSystem, Recorder


def test_recording_replays_to_the_same_snapshot(tmp_path):
    recorder = Recorder(LiveSystem(), tmp_path / "rec")
    seen = collect(recorder, bandwidth=True)
    recorder.close()
    again = collect(RecordedSystem(tmp_path / "rec"), bandwidth=True)
    assert mask_snapshot(again) == mask_snapshot(seen)
    assert seen.machine.cpu.logical_cpus.need() >= 1
    assert seen.machine.memory.read_bytes_per_s.need() > 1e8
    assert all(not p.error for p in seen.probes), seen.probes


def test_snapshot_file_and_recording_agree(tmp_path):
    out, rec = tmp_path / "seen.json", tmp_path / "rec"
    write_snapshot(str(out), None, str(rec), bandwidth=False, progress=Quiet())
    again = tmp_path / "again.json"
    write_snapshot(str(again), str(rec), None, bandwidth=False, progress=Quiet())
    first, second = parse_snapshot(out.read_bytes()), parse_snapshot(again.read_bytes())
    assert first.machine == second.machine
    assert first.subjects == second.subjects


def test_save_leaves_no_temporary_file(tmp_path):
    snapshot = read_stored("tests/machines/h200_llama_server_healthy_full_gpu")
    save(snapshot, str(tmp_path / "a.json"), Quiet())
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]
    assert parse_snapshot((tmp_path / "a.json").read_bytes()).subjects
