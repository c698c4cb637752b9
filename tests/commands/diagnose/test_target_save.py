"""Writing a snapshot keeps links, pipes and devices."""

import os
import stat
from pathlib import Path

import pytest
from doubles import Quiet

from unslow.commands.diagnose.target import save
from unslow.facts.snapshot import Snapshot

SNAPSHOT = Snapshot(unslow_version="0")


def test_symlink_stays_a_symlink(tmp_path):
    (tmp_path / "real.json").write_text("old")
    (tmp_path / "link.json").symlink_to(tmp_path / "real.json")
    save(SNAPSHOT, str(tmp_path / "link.json"), Quiet())
    assert (tmp_path / "link.json").is_symlink()
    assert "unslow.snapshot" in (tmp_path / "real.json").read_text()


def test_pipe_is_written_and_not_replaced(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        save(SNAPSHOT, str(pipe), Quiet())
        assert b"unslow.snapshot" in os.read(reader, 65536)
    finally:
        os.close(reader)
    assert stat.S_ISFIFO(pipe.stat().st_mode)


@pytest.mark.skipif(not Path("/dev/null").exists(), reason="no /dev/null here")
def test_device_stays_a_device():
    save(SNAPSHOT, "/dev/null", Quiet())
    assert stat.S_ISCHR(Path("/dev/null").stat().st_mode)
