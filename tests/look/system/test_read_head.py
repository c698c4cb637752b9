import os

import pytest

from unslow.facts.values import Absence
from unslow.look.system import LookError
from unslow.look.system.live import LiveSystem
from unslow.look.system.recorded import RecordedSystem, Recorder


def test_the_head_of_a_file_of_any_size_is_read(tmp_path):
    (tmp_path / "log").write_bytes(b"abcdef")
    assert LiveSystem().read_head(str(tmp_path / "log"), 3) == b"abc"
    assert LiveSystem().read_head(str(tmp_path / "log"), 30) == b"abcdef"


def test_reading_the_head_of_a_pipe_is_not_supported(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(LookError) as error:
        LiveSystem().read_head(str(tmp_path / "pipe"), 3)
    assert error.value.absence is Absence.NOT_SUPPORTED


def test_reading_the_head_of_a_device_or_folder_fails(tmp_path):
    for path in ("/dev/null", str(tmp_path)):
        with pytest.raises(LookError):
            LiveSystem().read_head(path, 3)


def test_reading_the_head_of_a_missing_file_is_not_found():
    with pytest.raises(LookError) as error:
        LiveSystem().read_head("/nowhere/log", 3)
    assert error.value.absence is Absence.NOT_FOUND


def test_a_file_head_replays_identically(tmp_path):
    (tmp_path / "log").write_bytes(b"abcdef")
    recorder = Recorder(LiveSystem(), tmp_path / "recording")
    recorder.read_head(str(tmp_path / "log"), 3)
    recorder.close()
    assert RecordedSystem(tmp_path / "recording").read_head(str(tmp_path / "log"), 3) == b"abc"
