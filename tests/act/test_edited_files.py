import errno
import fcntl
import os
import subprocess
from pathlib import Path

import pytest
from dying import Counted, apply_in, changes_in, picture, undo_in

from unslow.act.changes import Edit, PlannedChange
from unslow.act.disk import Disk, Looks
from unslow.act.journal import Journals, default_folder
from unslow.facts.errors import UserError


def planned(path: Path, before: bytes | None = b"old\n", after: bytes = b"new\n") -> PlannedChange:
    return PlannedChange("a file", (Edit(str(path), before, after),))


@pytest.fixture
def script(tmp_path: Path) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "start.sh").write_bytes(b"old\n")
    return folder / "start.sh"


def refused(tmp_path: Path, path: Path, **what) -> str:
    before = picture(path.parent)
    with pytest.raises(UserError) as told:
        apply_in(tmp_path / "j", planned(path, **what))
    assert picture(path.parent) == before
    return told.value.message


def test_a_file_changed_since_the_plan_is_not_edited(script, tmp_path):
    script.write_bytes(b"edited meanwhile\n")
    assert "changed since" in refused(tmp_path, script)
    assert "already" in refused(tmp_path, script, before=b"edited meanwhile\n", after=b"edited meanwhile\n")


def test_the_full_disk_is_named(script, tmp_path):
    def full(what: str, path: str) -> None:
        if what == "write" and path.endswith(".new") and "start.sh" in path:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(UserError, match=f"{script.parent}/.*: No space left"):
        apply_in(tmp_path / "j", planned(script), full)
    assert script.read_bytes() == b"old\n"


def test_a_file_with_hard_links_is_not_edited(script, tmp_path):
    os.link(script, script.with_name("other"))
    assert "hard links" in refused(tmp_path, script)


def test_a_read_only_file_is_not_edited(script, tmp_path):
    script.chmod(0o555)
    assert "read-only" in refused(tmp_path, script)


def test_a_pipe_or_large_file_is_not_edited(script, tmp_path):
    os.mkfifo(script.parent / "fifo")
    assert "regular" in refused(tmp_path, script.parent / "fifo")
    (script.parent / "large").write_bytes(b"x" * (1024**2 + 1))
    assert "larger" in refused(tmp_path, script.parent / "large")


def as_nobody(work) -> int:
    """Do it as another user; 7 where it was refused."""
    pid = os.fork()
    if pid == 0:
        status = 3
        try:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            work()
            status = 0
        except UserError as error:
            status = 7 if "belongs to another user" in error.message or "not writable" in error.message else 4
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_files_and_folders_of_other_users_are_not_edited(tmp_path, request):
    top = Path(subprocess.run(["mktemp", "-d"], capture_output=True, text=True, check=True).stdout.strip())
    request.addfinalizer(lambda: subprocess.run(["rm", "-rf", str(top)], check=True))
    top.chmod(0o777)
    (top / "open").mkdir()
    (top / "open").chmod(0o777)
    (top / "open" / "start.sh").write_bytes(b"old\n")
    (top / "closed").mkdir()
    before = picture(top)
    assert as_nobody(lambda: apply_in(top / "j1", planned(top / "open" / "start.sh"))) == 7
    assert as_nobody(lambda: apply_in(top / "j2", planned(top / "closed" / "sub" / "x.conf", None))) == 7
    seen = {name: what for name, what in picture(top).items() if "/j" not in name}
    assert seen == before


def test_owner_mode_time_and_attributes_are_kept_and_restored(script, tmp_path):
    script.chmod(0o640)
    if os.geteuid() == 0:
        os.chown(script, 65534, 65534)
    try:
        os.setxattr(script, "user.note", b"mine")
    except OSError:
        pytest.skip("this file system keeps no attributes")
    before = picture(script.parent)
    apply_in(tmp_path / "j", planned(script))
    now = script.stat()
    assert (now.st_mode & 0o777, os.getxattr(script, "user.note")) == (0o640, b"mine")
    assert now.st_uid == (65534 if os.geteuid() == 0 else os.geteuid())
    undo_in(tmp_path / "j")
    assert picture(script.parent) == before
    assert os.getxattr(script, "user.note") == b"mine"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a file immutable")
def test_an_immutable_file_is_not_edited(script, tmp_path):
    if subprocess.run(["chattr", "+i", str(script)], capture_output=True, check=False).returncode:
        pytest.skip("this file system knows no immutable files")
    try:
        assert "not permitted" in refused(tmp_path, script)
    finally:
        subprocess.run(["chattr", "-i", str(script)], check=True)


def test_new_bytes_are_synced_before_the_rename(script, tmp_path):
    counted = Counted()
    apply_in(tmp_path / "j", planned(script), counted)
    steps = counted.steps
    rename = steps.index(("rename", str(script)))
    new = next(path for what, path in steps if what == "write" and path.endswith(".new"))
    assert steps.index(("fsync", new)) < rename
    assert steps[rename + 1] == ("fsync folder", str(script.parent))
    kept = [path for what, path in steps[:rename] if what == "rename"]
    assert len(kept) == 2  # the journal says prepared and backed up before the file changes
    backup = next(path for what, path in steps if path.endswith("before-0"))
    assert steps.index(("fsync", backup)) < rename


def test_a_foreign_edit_is_not_undone_unless_forced(script, tmp_path):
    before = picture(script.parent)
    apply_in(tmp_path / "j", planned(script))
    script.write_bytes(b"theirs\n")
    with pytest.raises(UserError, match="something else") as told:
        undo_in(tmp_path / "j")
    assert "--force" in told.value.hint
    assert script.read_bytes() == b"theirs\n"
    journal = undo_in(tmp_path / "j", force=True)
    assert picture(script.parent) == before
    assert (tmp_path / "j" / journal.id / "theirs-0").read_bytes() == b"theirs\n"


def test_a_deleted_file_counts_as_a_foreign_edit(script, tmp_path):
    apply_in(tmp_path / "j", planned(script))
    script.unlink()
    with pytest.raises(UserError, match="something else"):
        undo_in(tmp_path / "j")
    undo_in(tmp_path / "j", force=True)
    assert script.read_bytes() == b"old\n"


def test_a_folder_with_other_files_is_not_removed(tmp_path):
    path = tmp_path / "unit.d" / "90-unslow.conf"
    apply_in(tmp_path / "j", planned(path, None))
    (path.parent / "other.conf").write_bytes(b"x")
    undo_in(tmp_path / "j")
    assert [p.name for p in path.parent.iterdir()] == ["other.conf"]


def test_stacked_changes_are_undone_in_reverse_order(script, tmp_path):
    apply_in(tmp_path / "j", planned(script))
    apply_in(tmp_path / "j", planned(script, b"new\n", b"newer\n"))
    journals, changes = changes_in(tmp_path / "j")
    first, second = journals.all()
    assert (first.id, second.id) == ("20260102-030405-0000", "20260102-030405-0001")
    assert journals.new_id("2025-01-01T00:00:00") == "20260102-030405-0002"  # whatever the clock says
    assert journals.new_id("2027-01-01T00:00:00") == "20270101-000000-0000"
    with journals.lock(), pytest.raises(UserError, match="something else"):
        changes.undo(first)
    with journals.lock():
        changes.undo(second)
        changes.undo(first)
    assert script.read_bytes() == b"old\n"


def test_a_damaged_backup_is_not_restored(script, tmp_path):
    journal = apply_in(tmp_path / "j", planned(script))
    (tmp_path / "j" / journal.id / "before-0").write_bytes(b"ol")
    with pytest.raises(UserError, match="damaged"):
        undo_in(tmp_path / "j")
    assert script.read_bytes() == b"new\n"


def test_an_unreadable_journal_does_not_block_changes(script, tmp_path):
    journal = apply_in(tmp_path / "j", planned(script))
    (tmp_path / "j" / journal.id / "journal.json").write_bytes(b'{"id": 1')
    changes = changes_in(tmp_path / "j")[1]
    assert "cannot read" in changes.recover()[0]
    apply_in(tmp_path / "j", planned(script, b"new\n", b"newer\n"))
    assert script.read_bytes() == b"newer\n"


def test_only_one_process_changes_files_at_a_time(script, tmp_path):
    (tmp_path / "j").mkdir()
    with (tmp_path / "j" / "lock").open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        assert "another unslow" in refused(tmp_path, script)
    apply_in(tmp_path / "j", planned(script))
    assert script.read_bytes() == b"new\n"


def test_journals_are_in_the_state_folder_with_owner_only_permissions(script, tmp_path):
    assert default_folder({"XDG_STATE_HOME": "/s"}) == Path("/s/unslow/changes")
    assert default_folder({}, Path("/home/a")) == Path("/home/a/.local/state/unslow/changes")
    journal = apply_in(tmp_path / "j", planned(script))
    folder = tmp_path / "j" / journal.id
    assert folder.stat().st_mode & 0o077 == 0
    assert all(path.stat().st_mode & 0o077 == 0 for path in folder.iterdir())


def test_an_unwritable_journal_folder_is_a_user_error(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(UserError) as told, Journals(tmp_path / "file" / "j", Disk()).lock():
        pass
    assert "--journal" in told.value.hint


def test_a_new_file_never_overwrites_an_existing_one(script):
    with pytest.raises(FileExistsError):
        Disk().write_new(str(script), b"x", Looks(mode=0o600))
    assert script.read_bytes() == b"old\n"
