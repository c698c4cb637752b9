"""Kills, full disks and refusing servers at every step of undoing a change with an Ollama model."""

import errno
import os
from pathlib import Path

import pytest
from dying import Counted, apply_in, changes_in, picture, recover_in, steps_until_it_lives, undo_in
from lab.replay import serve
from lab.replay.behaviour import Behaviour
from lab.replay.server import serving, started
from test_act_changes import said_by
from test_derived_models import models, planned

from unslow.facts.errors import UserError

MADE = "qwen3:8b-unslow"


@pytest.fixture(autouse=True)
def quick_disk(monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


def test_dying_before_any_step_of_undo_ends_with_neither_file_nor_model(tmp_path):
    with serve("ollama") as url:
        had, ends, folders, seen = models(url), set(), [tmp_path / "t0"], 0

        def make() -> None:
            folders[-1].mkdir()
            apply_in(folders[-1] / "j", planned(url, folders[-1] / "etc"))

        make()
        for number in steps_until_it_lives(lambda count: undo_in(folders[-1] / "j", count)):
            died_with = (folders[-1] / "etc").exists(), MADE in models(url)
            ends.add(died_with)
            recover_in(folders[-1] / "j")
            undo_in(folders[-1] / "j")
            assert models(url) == had, number
            assert not (folders[-1] / "etc").exists(), number
            seen = number
            folders.append(tmp_path / f"t{number}")
            make()
        assert seen > 15
        assert {(True, True), (False, True), (False, False)} <= ends  # before, in the middle, and after


@pytest.mark.parametrize("what", ["apply", "undo"])
def test_a_full_disk_at_any_step_leaves_no_partial_change(tmp_path, what):
    with serve("ollama") as url:
        had, failed = models(url), 0
        for number in range(1, 300):
            folder = tmp_path / str(number)
            folder.mkdir()
            counted = Counted(number, _full)
            if what == "undo":
                apply_in(folder / "j", planned(url, folder / "etc"))
                told = said_by(lambda f=folder, c=counted: undo_in(f / "j", c))
            else:
                told = said_by(lambda f=folder, c=counted: apply_in(f / "j", planned(url, f / "etc"), c))
                assert (folder / "etc").exists() == (MADE in models(url)) == (not told), number
            if told:
                failed = number
                assert "No space left" in told
            if (folder / "j").is_dir() and changes_in(folder / "j")[0].all():
                undo_in(folder / "j")
            assert models(url) == had, number
            assert not (folder / "etc").exists(), number
            if len(counted.steps) < number:
                break
        assert failed > 15


def _full() -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("fail", ["refused", "cut", "cut_at_once", "huge", "rubbish"])
@pytest.mark.parametrize("done_first", [False, True])
def test_a_failed_model_deletion_is_reported_and_can_be_repeated(tmp_path, fail, done_first):
    server = started("ollama", None, Behaviour(fail=fail, fail_at="/api/delete", done_first=done_first))
    with serving(server):
        had = models(server.url)
        apply_in(tmp_path / "j", planned(server.url, tmp_path / "etc"))
        told = said_by(lambda: undo_in(tmp_path / "j"))
        if told:
            assert "127.0.0.1" in told
            assert changes_in(tmp_path / "j")[0].all()[0].state == "undoing"
        assert not (tmp_path / "etc").exists()
        server.behaviour = server.behaviour._replace(fail_at="/no such place")  # it is well again
        recover_in(tmp_path / "j")
        assert undo_in(tmp_path / "j").state == "undone"
        assert models(server.url) == had


def test_an_unreachable_server_is_reported_and_nothing_is_partly_undone(tmp_path):
    with serve("ollama") as url:
        port = int(url.rpartition(":")[2])
        apply_in(tmp_path / "j", planned(url, tmp_path / "etc"))
    before = picture(tmp_path / "etc")
    with pytest.raises(UserError) as told:
        undo_in(tmp_path / "j")
    assert "nothing is lost" in told.value.hint
    assert picture(tmp_path / "etc") == before
    with serve("ollama", port=port):  # one that never had the model
        assert undo_in(tmp_path / "j").state == "undone"
    assert not (tmp_path / "etc").exists()


def test_dying_at_any_step_of_a_forced_undo_keeps_foreign_edits(tmp_path):
    path, theirs = tmp_path / "home" / "start.sh", b"of somebody else\n" * 50
    path.parent.mkdir()
    folders: list[Path] = []

    def make() -> None:
        from test_edited_files import planned as of_file

        path.write_bytes(b"old\n")
        folders.append(tmp_path / f"j{len(folders)}")
        apply_in(folders[-1], of_file(path))
        path.write_bytes(theirs)

    make()
    seen = 0
    for number in steps_until_it_lives(lambda count: undo_in(folders[-1], count, force=True)):
        kept = folders[-1] / changes_in(folders[-1])[0].ids()[0] / "theirs-0"
        assert path.read_bytes() == theirs or kept.read_bytes() == theirs, number
        recover_in(folders[-1])
        undo_in(folders[-1], force=True)
        assert path.read_bytes() == b"old\n", number
        assert kept.read_bytes() == theirs, number
        assert [p.name for p in path.parent.iterdir()] == ["start.sh"]
        seen = number
        make()
    assert seen > 15
