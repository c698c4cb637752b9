import sys

import pytest

from unslow.facts.values import Absence
from unslow.look.system import LookError
from unslow.look.system.live import LiveSystem

SYSTEM = LiveSystem()


def test_files_are_read_whole_by_tail_and_up_to_a_limit(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"0123456789")
    assert SYSTEM.read_bytes(str(path)) == b"0123456789"
    assert SYSTEM.read_tail(str(path), 3) == b"789"
    assert SYSTEM.list_dir(str(tmp_path)) == ["a"]
    with pytest.raises(LookError, match="more than 5"):
        SYSTEM.read_bytes(str(path), 5)


def test_missing_files_and_programs_are_not_found(tmp_path):
    for ask in (SYSTEM.read_bytes, SYSTEM.list_dir, SYSTEM.read_link, lambda p: SYSTEM.run([p])):
        with pytest.raises(LookError) as caught:
            ask(str(tmp_path / "missing"))
        assert caught.value.absence is Absence.NOT_FOUND


def test_reading_a_folder_as_a_file_fails(tmp_path):
    with pytest.raises(LookError) as caught:
        SYSTEM.read_bytes(str(tmp_path))
    assert caught.value.absence is Absence.FAILED


def test_an_endless_file_is_limited():
    with pytest.raises(LookError, match="more than"):
        SYSTEM.read_bytes("/dev/zero", 1000)


def test_a_command_gives_status_and_both_outputs():
    done = SYSTEM.run([sys.executable, "-c", "import sys; print('out'); print('err', file=sys.stderr); sys.exit(3)"])
    assert (done.status, done.stdout, done.stderr) == (3, "out\n", "err\n")


def test_a_hanging_command_times_out():
    with pytest.raises(LookError, match="no answer"):
        SYSTEM.run([sys.executable, "-c", "import time; time.sleep(30)"], timeout_s=0.3)
