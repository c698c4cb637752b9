"""Diagnosis where the system refuses to be read."""

import pytest
from doubles import FakeSystem, Quiet

from unslow.commands._formats import Looking
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


def test_unreadable_proc_is_a_user_error_that_suggests_a_url():
    with pytest.raises(UserError, match="permission denied") as caught:
        look_at(Measuring(LockedProc(), Looking(passive=True), Quiet()), None)
    assert "URL" in caught.value.hint


def test_passive_without_a_running_runtime_is_a_user_error():
    with pytest.raises(UserError, match="no running runtime"):
        look_at(Measuring(FakeSystem(folders={"/proc": ["1"]}), Looking(passive=True), Quiet()), None)


def test_target_process_that_is_not_a_runtime_is_refused():
    with pytest.raises(UserError, match="process 7"):
        look_at(Measuring(FakeSystem(folders={"/proc": ["1"]}), Looking(target="7", passive=True), Quiet()), None)
