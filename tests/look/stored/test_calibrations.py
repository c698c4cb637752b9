"""Calibrations are stored, found again, and invalid files reported."""

from pathlib import Path

import msgspec
import pytest

from unslow.facts.calibration import LARGEST_BYTES, Calibration, MachineMark, parse_calibration
from unslow.facts.errors import UserError
from unslow.facts.stored_json import dump_stored
from unslow.look.stored import CalibrationStore, own_folder, read_calibrations
from unslow.look.system.live import LiveSystem

SYSTEM = LiveSystem()
ONE = Calibration(
    unslow_version="1",
    taken_at="2026-01-01T00:00:00+00:00",
    seconds=30.0,
    machine=MachineMark(cpu="Ryzen 7", cores=8),
    engine="embedded llama.cpp",
    engine_version="7",
    backend="cpu",
    device="cpu",
    threads=8,
)


@pytest.fixture
def store(tmp_path) -> CalibrationStore:
    return CalibrationStore(tmp_path / "calibrations")


def test_a_saved_calibration_is_found_again(store):
    assert store.read_all(SYSTEM) == []
    path = store.save(ONE)
    assert path.name.startswith("calibration-embedded_llama_cpp-")
    assert read_calibrations(SYSTEM, store) == [ONE]
    assert [p.name for p in store.folder.iterdir()] == [path.name]


def test_a_newer_calibration_replaces_its_predecessor(store):
    store.save(ONE)
    newer = msgspec.structs.replace(ONE, engine_version="8", taken_at="2026-02-01T00:00:00+00:00")
    store.save(newer)
    assert read_calibrations(SYSTEM, store) == [newer]
    store.save(msgspec.structs.replace(ONE, threads=4))
    assert [c.threads for c in read_calibrations(SYSTEM, store)] == [8, 4]


def test_forgetting_removes_only_the_calibration(store):
    path = store.save(ONE)
    (store.folder / "notes.txt").write_text("mine")
    store.forget(str(path))
    assert [p.name for p in store.folder.iterdir()] == ["notes.txt"]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "is not a calibration"),
        (b"[]", "has the schema 'None'"),
        (b'{"schema": "unslow.calibration/2"}', "this version reads unslow.calibration/1"),
        (b'{"schema": "unslow.calibration/1"}', "missing required field"),
        (b"[" * 100_000, "is not a calibration"),
        (b"\xff\xfe", "is not a calibration"),
        (dump_stored(ONE).replace(b'"threads": 8', b'"threads": -8'), "$.threads"),
        (dump_stored(ONE).replace(b'"seconds": 30.0', b'"seconds": "x"'), "$.seconds"),
    ],
)
def test_a_hostile_calibration_file_is_reported_and_skipped(store, data, words):
    good = store.save(ONE)
    bad = store.folder / good.name.replace(good.name[-17:-5], "0" * 12)
    bad.write_bytes(data)
    (problem,) = [s.problem for s in store.read_all(SYSTEM) if not s.calibration]
    assert words in problem
    assert read_calibrations(SYSTEM, store) == [ONE]


def test_a_calibration_file_above_1_mib_is_refused(store):
    path = store.save(ONE)
    path.write_bytes(b" " * (LARGEST_BYTES + 1))
    (stored,) = store.read_all(SYSTEM)
    assert "more than" in stored.problem
    with pytest.raises(UserError, match="larger than 1 MiB"):
        parse_calibration(path.read_bytes(), "x")


def test_an_unwritable_calibration_folder_is_a_user_error(tmp_path):
    (tmp_path / "calibrations").write_text("a file")
    with pytest.raises(UserError, match="can't write") as error:
        CalibrationStore(tmp_path / "calibrations").save(ONE)
    assert "UNSLOW_DATA_DIR" in error.value.hint


def test_data_folder_per_platform_and_variable():
    home = Path("/home/me")
    assert own_folder("DATA", {}, "linux", home) == home / ".local/share/unslow"
    assert own_folder("DATA", {"XDG_DATA_HOME": "/d"}, "linux", home) == Path("/d/unslow")
    assert own_folder("DATA", {"UNSLOW_DATA_DIR": "/e", "XDG_DATA_HOME": "/d"}, "linux", home) == Path("/e")
    assert own_folder("DATA", {}, "darwin", home) == home / "Library/Application Support/unslow"
    assert own_folder("DATA", {}, "win32", home) == home / "AppData/Local/unslow"


def test_calibration_file_names_differ_by_machine_device_engine_and_threads(tmp_path):
    others = ({"threads": 4}, {"device": "RTX 4090"}, {"machine": MachineMark(cpu="Xeon")}, {"engine": "llama.cpp"})
    store = CalibrationStore(tmp_path)
    assert len({store.save(msgspec.structs.replace(ONE, **change)) for change in ({}, *others)}) == 5
