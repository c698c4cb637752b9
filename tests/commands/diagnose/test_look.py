"""Looking where no process can be listed: a server at its port is enough, and else a person is told what to do."""

import pytest

from unslow.commands.diagnose.look import _check_processes
from unslow.commands.diagnose.runtimes import PROCESSES
from unslow.facts.errors import UserError
from unslow.facts.machine import Machine, System
from unslow.facts.snapshot import ProbeOutcome, Snapshot, Subject
from unslow.facts.values import reported

BLIND = (ProbeOutcome(name=PROCESSES, seconds=0.0, error="cannot list processes: /proc: not there"),)


def seen(system: str, *subjects: Subject) -> Snapshot:
    machine = Machine(system=System(name=reported(system, "x")))
    return Snapshot(unslow_version="0", machine=machine, subjects=subjects, probes=BLIND)


def test_a_server_that_answers_is_enough():
    _check_processes(seen("macOS 15.6", Subject()))


@pytest.mark.parametrize("system", ["macOS 15.6", "Microsoft Windows 11 Pro"])
def test_a_system_without_proc_is_not_told_to_read_it(system: str):
    with pytest.raises(UserError) as caught:
        _check_processes(seen(system))
    assert "/proc" not in f"{caught.value} {caught.value.hint}"
    assert "http://127.0.0.1:11434" in caught.value.hint


def test_where_proc_is_hidden_that_is_said():
    with pytest.raises(UserError) as caught:
        _check_processes(seen("Ubuntu 24.04"))
    assert "/proc" in caught.value.hint
