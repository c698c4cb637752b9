"""The main job, on doors that refuse."""

import pytest
from doubles import FakeSystem, Quiet

from unslow.commands._diagnosis_options import Looking
from unslow.commands.diagnose.look import look_at
from unslow.commands.diagnose.visit import Measuring
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
        look_at(Measuring(LockedProc(), Looking(passive=True), Quiet()), None)
    assert "URL" in caught.value.hint


def test_passive_with_nothing_running():
    with pytest.raises(UserError, match="no running runtime"):
        look_at(Measuring(FakeSystem(folders={"/proc": ["1"]}), Looking(passive=True), Quiet()), None)


def test_a_process_that_is_no_server():
    with pytest.raises(UserError, match="process 7"):
        look_at(Measuring(FakeSystem(folders={"/proc": ["1"]}), Looking(target="7", passive=True), Quiet()), None)
