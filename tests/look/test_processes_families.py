"""Parents and children of processes, and where their output goes."""

import pytest
from doubles import FakeSystem

from unslow.look.processes import is_file_path, outermost, read_process, read_processes, started_by

PARENTS = {1: 0, 10: 1, 11: 10, 12: 11, 20: 1, 30: 31, 31: 30}


def family(links: dict[str, str] | None = None) -> FakeSystem:
    files = {f"/proc/{pid}/comm": f"p{pid}\n" for pid in PARENTS}
    files |= {f"/proc/{pid}/status": f"Name:\tp\nPPid:\t{parent}\n" for pid, parent in PARENTS.items()}
    return FakeSystem(files=files, folders={"/proc": [*map(str, PARENTS), "self"]}, links=links or {})


def pids(processes):
    return [process.pid for process in processes]


def test_descendants_of_a_process_are_found():
    everything = read_processes(family())
    assert pids(started_by(everything[1], everything)) == [11, 12]


def test_the_outermost_of_nested_processes_are_found():
    everything = read_processes(family())
    these = [p for p in everything if p.pid in (10, 12, 20)]
    assert pids(outermost(these, everything)) == [10, 20]
    assert pids(outermost(these, everything, [p for p in everything if p.pid == 11])) == [10, 20]


def test_a_cycle_of_parents_terminates():
    everything = read_processes(family())
    assert outermost([p for p in everything if p.pid in (30, 31)], everything) == []


def test_output_files_are_listed_once_without_devices():
    both = dict.fromkeys(("/proc/10/fd/1", "/proc/10/fd/2"), "/var/log/a.log")
    system = family(both | {"/proc/20/fd/1": "/dev/null"})
    assert read_process(system, 10).outputs() == ["/var/log/a.log"]
    assert read_process(system, 20).outputs() == []
    assert read_process(system, 10).roots() == ("/proc/10/root", "")


def test_a_gone_process_has_no_name():
    assert read_process(family(), 99).name == ""


@pytest.mark.parametrize(
    ("path", "holds"), [("/dev/shm/server.log", True), ("/dev/null", False), ("/dev/pts/0", False)]
)
def test_files_in_shared_memory_are_files_and_devices_are_not(path, holds):
    assert is_file_path(path) is holds
