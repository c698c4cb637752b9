import errno
import os
from pathlib import Path

import pytest
from dying import Counted, apply_in, changes_in, dies, picture, recover_in, steps_until_it_lives, undo_in

from unslow.act.changes import Edit, PlannedChange
from unslow.facts.errors import UserError

OLD, NEW, CONF = b"#!/bin/sh\nllama-server -c 32768\n" * 40, b"#!/bin/sh\nllama-server -c 8192\n" * 40, b"[Service]\n"


@pytest.fixture(autouse=True)
def quick_disk(monkeypatch):
    """A process that dies leaves what it has written to the kernel; waiting for the disk would take minutes here."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A script with a mode and a time of its own, reached by a link, and a folder where a drop-in will be made."""
    home = tmp_path / "home"
    (home / "bin").mkdir(parents=True)
    (home / "units").mkdir()
    script = home / "bin" / "start.sh"
    script.write_bytes(OLD)
    script.chmod(0o750)
    os.utime(script, ns=(10**18, 10**18 + 123))
    (home / "start").symlink_to(script)
    return home


def planned(home: Path) -> PlannedChange:
    unit = home / "units" / "llama.service.d" / "deep" / "90-unslow.conf"
    return PlannedChange("two files", (Edit(str(home / "start"), OLD, NEW), Edit(str(unit), None, CONF)))


def is_new(home: Path) -> bool:
    unit = home / "units" / "llama.service.d" / "deep" / "90-unslow.conf"
    return (home / "bin" / "start.sh").read_bytes() == NEW and unit.exists() and unit.read_bytes() == CONF


def said_by(work) -> str:
    """What it complains of; empty where it does not."""
    try:
        work()
    except UserError as error:
        return error.message
    return ""


def no_scraps(home: Path) -> bool:
    return not [path for path in home.rglob("*") if "unslow-" in path.name]


def test_a_change_is_applied_and_undone_byte_for_byte(home, tmp_path):
    before = picture(home)
    journal = apply_in(tmp_path / "journal", planned(home))
    assert journal.state == "done"
    assert is_new(home)
    assert (home / "start").is_symlink()
    assert (home / "bin" / "start.sh").stat().st_mode & 0o777 == 0o750
    assert no_scraps(home)
    assert undo_in(tmp_path / "journal").state == "undone"
    assert picture(home) == before
    assert undo_in(tmp_path / "journal").state == "undone"
    assert picture(home) == before


def test_dying_before_any_step_of_apply_loses_nothing(home, tmp_path):
    before, seen, whole, folders = picture(home), 0, set(), (tmp_path / f"j{n}" for n in range(1000))
    used: list[Path] = []

    def work(count):
        used.append(next(folders))
        apply_in(used[-1], planned(home), count)

    for number in steps_until_it_lives(work):
        folder = used[-1]
        assert (home / "bin" / "start.sh").read_bytes() in (OLD, NEW)  # never a part of either, at any moment
        recover_in(folder)
        whole.add(is_new(home))
        assert is_new(home) or picture(home) == before, number
        assert no_scraps(home)
        if changes_in(folder)[0].all():
            undo_in(folder)
        assert picture(home) == before, number
        seen = number
    assert seen > 60
    assert whole == {True, False}
    assert is_new(home)


def test_dying_before_any_step_of_undo_loses_nothing(home, tmp_path):
    before, seen, folders = picture(home), 0, [tmp_path / "journal"]
    apply_in(folders[-1], planned(home))
    for number in steps_until_it_lives(lambda count: undo_in(folders[-1], count)):
        folder = folders[-1]
        script = (home / "bin" / "start.sh").read_bytes()
        assert script in (OLD, NEW)
        said = recover_in(folder)
        assert is_new(home) or picture(home) == before, number
        assert not said or "everything is as before" in said[0]
        undo_in(folder)
        assert picture(home) == before, number
        folders.append(tmp_path / f"journal{number}")
        apply_in(folders[-1], planned(home))
        seen = number
    assert seen > 25
    assert picture(home) == before


def test_dying_again_during_recovery_loses_nothing(home, tmp_path):
    """Starts at the worst moment of an apply: both files replaced, one of them already restored."""
    before = picture(home)
    counted = Counted()
    apply_in(tmp_path / "count", planned(home), counted)
    undo_in(tmp_path / "count")
    second = next(n for n, (what, path) in enumerate(counted.steps, 1) if what == "rename" and path.endswith(".conf"))
    for number in range(1, 200):
        folder = tmp_path / f"j{number}"
        assert dies(lambda count, folder=folder: apply_in(folder, planned(home), count), second)
        died = dies(lambda count, folder=folder: recover_in(folder, count), number)
        recover_in(folder)
        assert picture(home) == before, number
        if not died:
            break
    assert number > 10


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EPERM])
def test_an_error_at_any_step_of_apply_restores_everything(home, tmp_path, error):
    before, failed = picture(home), 0
    for number in range(1, 400):
        counted = Counted(number, lambda: _fail(error))
        folder = tmp_path / f"journal{number}"
        if told := said_by(lambda folder=folder, counted=counted: apply_in(folder, planned(home), counted)):
            failed = number
            assert os.strerror(error) in told
        else:
            assert is_new(home)
            undo_in(folder)
        assert picture(home) == before, (number, counted.steps[-3:])
        if len(counted.steps) < number:
            break
    assert failed > 50


def test_a_disk_full_from_any_step_on_leaves_everything_as_before(home, tmp_path):
    """Nothing can be written any more, only removed and renamed."""
    before, failed = picture(home), 0
    for number in range(1, 400):
        full = _FullFrom(number)
        folder = tmp_path / f"journal{number}"
        if told := said_by(lambda folder=folder, full=full: apply_in(folder, planned(home), full)):
            failed = number
            assert "No space left" in told
        else:
            undo_in(folder)
        assert picture(home) == before, number
        if full.count < number:
            break
    assert failed > 40


class _FullFrom:
    def __init__(self, number: int) -> None:
        self.number, self.count = number, 0

    def __call__(self, what: str, path: str) -> None:
        self.count += 1
        if self.count >= self.number and what in ("open", "write", "mkdir", "fsync", "setxattr"):
            _fail(errno.ENOSPC)


def _fail(number: int) -> None:
    raise OSError(number, os.strerror(number))


def test_an_undo_that_failed_at_any_step_can_be_repeated(home, tmp_path):
    before, failed = picture(home), 0
    for number in range(1, 400):
        folder = tmp_path / f"journal{number}"
        apply_in(folder, planned(home))
        counted = Counted(number, lambda: _fail(errno.ENOSPC))
        if told := said_by(lambda folder=folder, counted=counted: undo_in(folder, counted)):
            failed = number
            assert "No space left" in told
            undo_in(folder)
        assert picture(home) == before, number
        if len(counted.steps) < number:
            break
    assert failed > 25
