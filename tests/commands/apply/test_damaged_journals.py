"""Journals that can't be read: the others are still listed and undone, and the damaged one is named."""

import json
import os
from pathlib import Path

import pytest

from unslow.__main__ import main
from unslow.act.changes import Edit, PlannedChange
from unslow.commands.apply import UndoRequest
from unslow.commands.apply.changes import list_changes, undone, would_undo
from unslow.commands.apply.prepare import PreparedChange, perform_change
from unslow.facts.errors import UserError
from unslow.look.system.live import LiveSystem
from unslow.think.change import ApplyReport

SYSTEM = LiveSystem()


@pytest.fixture(autouse=True)
def quick_disk(monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


@pytest.fixture
def changes(tmp_path: Path) -> list[str]:
    """Three changes of three files."""
    made = []
    for name in "abc":
        path = tmp_path / f"{name}.sh"
        path.write_bytes(b"old\n")
        report = ApplyReport(
            unslow_version="0", runtime="r", model="m", option=name, how="script", outcome="would_change"
        )
        ready = PreparedChange(report, PlannedChange(f"the file {name}", (Edit(str(path), b"old\n", b"new\n"),)))
        made.append(perform_change(SYSTEM, ready, str(tmp_path / "j")).change)
    return made


def journal(tmp_path: Path, change: str) -> Path:
    return tmp_path / "j" / change / "journal.json"


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:100])


def of_another(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b'"id": "2', b'"id": "1', 1))


def of_another_version(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b"unslow.change/1", b"unslow.change/9"))


def folder_of_that_name(path: Path) -> None:
    path.unlink()
    path.mkdir()


def loop(path: Path) -> None:
    path.unlink()
    path.symlink_to(path)


def no_folder(path: Path) -> None:
    for other in path.parent.iterdir():
        other.unlink()
    path.parent.rmdir()
    path.parent.write_bytes(b"")


DAMAGES = {
    "cut short": cut,
    "empty": lambda path: path.write_bytes(b""),
    "no text": lambda path: path.write_bytes(b"\xff\xfe{"),
    "nested": lambda path: path.write_bytes(b"[" * 100_000),
    "larger than any": lambda path: path.write_bytes(b" " * (1024**2 + 1)),
    "of another change": of_another,
    "of another version": of_another_version,
    "gone": Path.unlink,
    "a folder": folder_of_that_name,
    "a link to itself": loop,
    "no folder": no_folder,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_undo_list_shows_intact_changes_and_names_the_damaged_journal(changes, tmp_path, capsys, damage):
    first, second, third = changes
    DAMAGES[damage](journal(tmp_path, second))
    report = list_changes(UndoRequest(journal=str(tmp_path / "j")))
    assert [change.id for change in report.changes] == [third, first]
    assert [one.id for one in report.damaged] == [second]
    assert str(journal(tmp_path, second)) in report.damaged[0].because
    assert f"the previous contents are in {journal(tmp_path, second).parent}" in report.damaged[0].because
    assert main(["undo", "--list", "--journal", str(tmp_path / "j")]) == 0
    assert f"{second} damaged: " in " ".join(capsys.readouterr().out.split())
    assert main(["undo", "--list", "--json", "--journal", str(tmp_path / "j")]) == 0
    assert json.loads(capsys.readouterr().out)["damaged"][0]["id"] == second


@pytest.mark.parametrize("damage", ["cut short", "gone", "of another change"])
def test_damaged_latest_journal_is_not_replaced_by_an_older_change(changes, tmp_path, damage, wording):
    first, second, third = changes
    DAMAGES[damage](journal(tmp_path, third))
    where = str(tmp_path / "j")
    for name in (None, third):
        with pytest.raises(UserError, match="cannot read"):
            undone(SYSTEM, UndoRequest(change=name, journal=where))
    assert (tmp_path / "c.sh").read_bytes() == (tmp_path / "b.sh").read_bytes() == b"new\n"
    assert (journal(tmp_path, third).parent / "before-0").read_bytes() == b"old\n"  # to be mended from by hand
    assert would_undo(SYSTEM, UndoRequest(change=second, journal=where)).changes[0].id == second
    assert undone(SYSTEM, UndoRequest(change=second, journal=where)).outcome == "undone"
    assert (tmp_path / "b.sh").read_bytes() == b"old\n"
    with pytest.raises(UserError) as caught:
        undone(SYSTEM, UndoRequest(change=first[:4], journal=where))
    wording(str(caught.value), tells="3")


def test_journal_path_that_is_a_file_is_refused(tmp_path):
    (tmp_path / "j").write_bytes(b"")
    with pytest.raises(UserError) as told:
        list_changes(UndoRequest(journal=str(tmp_path / "j")))
    assert "--journal" in told.value.hint
