"""A second change before the server was restarted."""

import os
from pathlib import Path

import pytest
from doubles import FakeSystem

from unslow.act.changes import Edit, PlannedChange
from unslow.act.disk import Disk
from unslow.act.journal import ModelStep
from unslow.commands.apply import UndoRequest
from unslow.commands.apply.changes import check_in_force, journals_at, process_of, undone
from unslow.commands.apply.prepare import PreparedChange, perform_change
from unslow.facts.errors import UserError
from unslow.look.system.live import LiveSystem
from unslow.think.change import ApplyReport

THEN = ("systemctl daemon-reload", "systemctl restart llama.service")
REPORT = ApplyReport(unslow_version="0", runtime="r", model="m", option="o", how="systemd", outcome="would_change")


def made(folder: Path, process: str, then: tuple[str, ...] = THEN) -> str:
    edit = Edit(str(folder / f"{len(list(folder.iterdir()))}.conf"), None, b"[Service]\n")
    planned = PlannedChange("fewer layers", (edit,), (), then, process)
    return perform_change(LiveSystem(), PreparedChange(REPORT, planned), str(folder / "j")).change


def check(folder: Path, process: str) -> None:
    check_in_force(journals_at(str(folder / "j"), Disk()), process)


def test_second_change_before_a_restart_is_refused_with_restart_and_undo_commands(tmp_path, wording):
    change = made(tmp_path, "7 1234")
    with pytest.raises(UserError) as told:
        check(tmp_path, "7 1234")
    wording(told.value.message.replace(change, "CHANGE"), tells=("CHANGE", "fewer layers"))
    line = f"unslow undo CHANGE --journal {tmp_path / 'j'}"
    wording(told.value.hint.replace(change, "CHANGE"), tells=(" && ".join(THEN), line))
    check(tmp_path, "7 1235")  # the same number, and another process
    check(tmp_path, "")
    undone(LiveSystem(), UndoRequest(change=change, journal=str(tmp_path / "j")))
    check(tmp_path, "7 1234")


def test_refusal_before_a_restart_includes_manual_steps(tmp_path, wording):
    change = made(tmp_path, "7 1", ("by hand: stop the server and start it again with start.sh",))
    with pytest.raises(UserError) as told:
        check(tmp_path, "7 1")
    wording(told.value.hint.replace(change, "CHANGE"), tells="start.sh")


def test_derived_model_needs_no_restart(tmp_path):
    journals = journals_at(str(tmp_path / "j"), Disk())
    with journals.lock():
        pass
    change = made(tmp_path, "7 1")
    first = journals.read(change)
    assert first is not None
    step = ModelStep(url="http://127.0.0.1:1", name="a", parent="b", parameters={})
    journals.write(type(first)(**{**_fields(first), "files": (), "models": (step,)}))
    check(tmp_path, "7 1")


def _fields(journal) -> dict[str, object]:
    return {name: getattr(journal, name) for name in journal.__struct_fields__}


def test_process_identity_is_pid_and_start_time():
    own = process_of(LiveSystem(), os.getpid())
    assert own.split()[0] == str(os.getpid())
    assert own != process_of(LiveSystem(), os.getppid())
    assert process_of(FakeSystem(), 7) == ""
