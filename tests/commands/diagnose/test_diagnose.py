"""The main job, on doors that refuse."""

import pytest
from doubles import FakeSystem, Quiet

from unslow.commands.diagnose.look import Door, look_here
from unslow.commands.diagnose.request import DiagnoseSpec, Manners
from unslow.facts.errors import UserError
from unslow.facts.values import Absence
from unslow.look.system import LookError


class LockedProc(FakeSystem):
    """A machine whose /proc may not be listed."""

    def list_dir(self, path: str) -> list[str]:
        if path == "/proc":
            raise LookError("/proc: permission denied", Absence.FAILED)
        return super().list_dir(path)


def test_without_proc_nobody_can_say_that_nothing_runs():
    with pytest.raises(UserError, match="permission denied") as caught:
        look_here(Door(LockedProc()), None, DiagnoseSpec(manners=Manners(passive=True)), Quiet())
    assert "URL" in caught.value.hint


def test_passive_with_nothing_running():
    with pytest.raises(UserError, match="no running runtime"):
        look_here(
            Door(FakeSystem(folders={"/proc": ["1"]})), None, DiagnoseSpec(manners=Manners(passive=True)), Quiet()
        )


def test_a_process_that_is_no_server():
    with pytest.raises(UserError, match="process 7"):
        look_here(Door(FakeSystem(folders={"/proc": ["1"]})), None, DiagnoseSpec("7", Manners(passive=True)), Quiet())
