"""Apply and undo under real kills and on a real full disk."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from dying import apply_in, changes_in, child_dies, picture, recover_in, steps_until_it_lives, undo_in

from unslow.act.changes import Edit, PlannedChange
from unslow.facts.errors import UserError

pytestmark = pytest.mark.real
OLD, NEW = b"old\n" * 20_000, b"new!\n" * 20_000
TRIES = 60
LOOP = """
import sys
from pathlib import Path
sys.path[:0] = sys.argv[3:]
from dying import apply_in, undo_in
from test_changes_real_deaths import planned
while True:
    apply_in(Path(sys.argv[2]), planned(Path(sys.argv[1])))
    undo_in(Path(sys.argv[2]))
"""


def planned(home: Path) -> PlannedChange:
    return PlannedChange(
        "a", (Edit(str(home / "start.sh"), OLD, NEW), Edit(str(home / "x.d" / "u.conf"), None, b"x\n"))
    )


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    (home / "start.sh").write_bytes(OLD)
    return home


def test_a_process_killed_at_any_step_of_apply_is_recovered(home, tmp_path):
    before, number, folders = picture(home), 0, []

    def die(work, number: int) -> bool:
        folders.append(tmp_path / f"j{number}")
        return child_dies(work, number)

    for number in steps_until_it_lives(lambda count: apply_in(folders[-1], planned(home), count), die):
        recover_in(folders[-1])
        if changes_in(folders[-1])[0].all():
            undo_in(folders[-1])
        assert picture(home) == before, number
    assert number > 60


def test_sigkill_at_random_moments_of_apply_and_undo_is_recovered(home, tmp_path):
    before, random_moment, seen = picture(home), random.Random(8), set()
    paths = [str(Path(__file__).parent), *sys.path]
    for number in range(TRIES):
        child = subprocess.Popen([sys.executable, "-c", LOOP, str(home), str(tmp_path / "j"), *paths])
        deadline = time.monotonic() + 60
        while not (tmp_path / "j" / "lock").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        time.sleep(random_moment.uniform(0.3, 1.2))
        assert child.poll() is None, "it must be killed, not end"
        child.send_signal(signal.SIGKILL)
        child.wait()
        assert (home / "start.sh").read_bytes() in (OLD, NEW), number
        seen.update(journal.state for journal in changes_in(tmp_path / "j")[0].all())
        recover_in(tmp_path / "j")
        undo_in(tmp_path / "j")
        assert picture(home) == before, number
    assert len(seen) > 2, seen


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")
@pytest.mark.parametrize("kind", ["target", "journal", "both"])
def test_a_real_full_disk_leaves_everything_as_before(tmp_path, kind):
    small = tmp_path / "small"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(small)], check=False).returncode:
        pytest.skip("no tmpfs can be mounted here")
    try:
        home = small / "home" if kind != "journal" else tmp_path / "home"
        journal = tmp_path / "j" if kind == "target" else small / "j"
        home.mkdir()
        (home / "start.sh").write_bytes(OLD)
        before, failures = picture(home), 0
        for left in range(0, 600_000, 20_000):
            filler = small / "filler"
            filler.unlink(missing_ok=True)
            free = os.statvfs(small).f_bavail * os.statvfs(small).f_frsize
            filler.write_bytes(b"\0" * max(0, free - left))
            try:
                apply_in(journal, planned(home))
            except UserError:
                failures += 1
            else:
                filler.unlink()
                undo_in(journal)
            assert picture(home) == before, left
            filler.unlink(missing_ok=True)
            recover_in(journal)
            assert picture(home) == before, left
            subprocess.run(["rm", "-rf", str(journal)], check=True)
        assert 3 < failures < 30
    finally:
        subprocess.run(["umount", str(small)], check=True)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can mount a small disk")
@pytest.mark.parametrize("kind", ["target", "journal"])
def test_a_disk_that_becomes_read_only_is_recovered(tmp_path, kind):
    """As the kernel does when a device fails: before a change, and between the change and its end."""
    small = tmp_path / "small"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(small)], check=False).returncode:
        pytest.skip("no tmpfs can be mounted here")
    home, journal = (small, tmp_path / "j") if kind == "target" else (tmp_path, small / "j")
    (home / "home").mkdir()
    script = home / "home" / "start.sh"
    script.write_bytes(OLD)
    before = picture(home / "home")
    try:
        _remount(small, "ro")
        with pytest.raises(UserError, match=r"Read-only|not writable"):
            apply_in(journal, planned(home / "home"))
        assert picture(home / "home") == before
        _remount(small, "rw")
        apply_in(journal, planned(home / "home"))
        changed = picture(home / "home")
        _remount(small, "ro")
        with pytest.raises(UserError, match=r"Read-only|not writable"):
            undo_in(journal)
        assert picture(home / "home") == changed
        _remount(small, "rw")
        recover_in(journal)
        undo_in(journal)
        assert picture(home / "home") == before
    finally:
        subprocess.run(["umount", str(small)], check=True)


def _remount(place: Path, how: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{how}", str(place)], check=True)
