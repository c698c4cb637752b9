"""Looking where processes can't be listed: a server at its port is enough, otherwise the error says what to do."""

import pytest

from unslow.commands.diagnose.look import _check_processes
from unslow.commands.diagnose.runtimes import PROCESSES
from unslow.facts.errors import UserError
from unslow.facts.machine import Machine, System
from unslow.facts.snapshot import ProbeOutcome, Snapshot, Subject
from unslow.facts.values import reported_fact

BLIND = (ProbeOutcome(name=PROCESSES, seconds=0.0, error="cannot list processes: /proc: not there"),)


def seen(system: str, *subjects: Subject) -> Snapshot:
    machine = Machine(system=System(name=reported_fact(system, "x")))
    return Snapshot(unslow_version="0", machine=machine, subjects=subjects, probes=BLIND)


def test_answering_server_needs_no_process_list():
    _check_processes(seen("macOS 15.6", Subject()))


@pytest.mark.parametrize("system", ["macOS 15.6", "Microsoft Windows 11 Pro"])
def test_macos_and_windows_errors_do_not_mention_proc(system: str):
    with pytest.raises(UserError) as caught:
        _check_processes(seen(system))
    assert "/proc" not in f"{caught.value} {caught.value.hint}"
    assert "http://127.0.0.1:11434" in caught.value.hint


def test_linux_error_mentions_hidden_proc():
    with pytest.raises(UserError) as caught:
        _check_processes(seen("Ubuntu 24.04"))
    assert "/proc" in caught.value.hint
