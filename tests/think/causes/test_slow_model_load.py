import msgspec
import pytest
from answers import ask
from cases import gpu_case, r, with_facts
from under_load import saying, tried

from unslow.facts.account import Topic
from unslow.facts.machine import Disk
from unslow.think.case.view import CaseView
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge.judge import judge

NAME = "slow_model_load"


def fires(kind: str = "hdd", seconds: float = 40.0):
    case = with_facts(gpu_case(), {"run.load_s": seconds, "model.path": "/models/m.gguf"})
    disks = (Disk(path="/", kind=r("nvme")), Disk(path="/models", kind=r(kind)))
    return msgspec.structs.replace(case, machine=msgspec.structs.replace(case.machine, disks=disks))


def test_a_load_at_the_rate_of_a_hard_disk_is_found_with_a_cost_per_request():
    report = judge(CaseView(fires()))
    assert report.findings[0].cause == NAME
    assert "0.12 GB/s" in report.findings[0].because
    assert "a hard disk" in report.findings[0].because
    assert report.findings[0].cost.per == "request"
    assert 35 < report.findings[0].cost.seconds < 40


@pytest.mark.parametrize(("kind", "seconds"), [("hdd", 5.0), ("nvme", 40.0), ("memory", 40.0)])
def test_a_quick_load_or_a_faster_disk_rules_it_out(kind, seconds):
    assert isinstance(ask(NAME, fires(kind, seconds)), Absent)


def test_an_unknown_disk_gives_cannot_tell():
    case = fires()
    bare = msgspec.structs.replace(case, machine=msgspec.structs.replace(case.machine, disks=()))
    answer = ask(NAME, bare)
    assert isinstance(answer, CannotTell)
    assert "lsblk" in answer.how_to_get


def test_a_trial_of_load_times_from_another_disk_decides():
    assert isinstance(ask(NAME, tried(1 / 1175, 1 / 30, Topic.DISK, metric="load")), Found)
    assert not isinstance(ask(NAME, tried(3.0, 30.0, Topic.DISK, metric="decode")), Found)


def test_a_long_load_of_unknown_size_gives_cannot_tell():
    assert isinstance(ask(NAME, with_facts(saying(slow="load"), {"run.load_s": 1175.0})), CannotTell)


def from_disk(kind: str, read_bytes: float, seconds: float = 200.0):
    return with_facts(fires(kind, seconds), {"runtime.process.disk_read_bytes": int(read_bytes)})


def test_a_virtual_disk_slower_than_a_hard_disk_is_found_where_reads_are_counted(wording):
    answer = ask(NAME, from_disk("virtual", 5e9))
    assert isinstance(answer, Found)
    wording(answer.because)
    assert isinstance(ask(NAME, fires("virtual", 200.0)), CannotTell)


def test_an_unknown_disk_that_delivered_all_bytes_slowly_is_found():
    case = from_disk("other", 5e9)
    bare = msgspec.structs.replace(case, machine=msgspec.structs.replace(case.machine, disks=()))
    assert isinstance(ask(NAME, bare), Found)


def test_a_file_in_the_page_cache_rules_it_out():
    assert isinstance(ask(NAME, from_disk("virtual", 1e6)), Absent)
    assert isinstance(ask(NAME, from_disk("hdd", 1e6, 40.0)), Absent)


def on(disk: Disk, read_bytes: int, seconds: float = 40.0, **facts):
    case = with_facts(fires(seconds=seconds), {"runtime.process.disk_read_bytes": read_bytes} | facts)
    return msgspec.structs.replace(case, machine=msgspec.structs.replace(case.machine, disks=(disk,)))


def test_a_windows_drive_through_wsl_is_found_though_no_reads_are_counted(wording):
    drive = Disk(path="/models", kind=r("network"), device=r("C:\\"), filesystem=r("9p"))
    answer = ask(NAME, on(drive, 0, **{"machine.system.wsl": True}))
    assert isinstance(answer, Found)
    wording(answer.because)
    wording(answer.remedies[0].change.why, tells="WSL")
    volume = Disk(path="/models", kind=r("network"), device=r("/dev/nvme1n1"), filesystem=r("ext4"))
    assert isinstance(ask(NAME, on(volume, 0)), Absent)


def test_for_a_slow_cloud_volume_more_throughput_is_a_fix(wording):
    volume = Disk(path="/models", kind=r("network"), device=r("/dev/nvme1n1"), filesystem=r("ext4"))
    answer = ask(NAME, on(volume, 5 * 10**9))
    assert isinstance(answer, Found)
    wording(answer.because)
    assert "more throughput" in answer.remedies[0].change.why
    assert "more throughput" not in ask(NAME, fires()).remedies[0].change.why


def test_a_virtual_disk_slower_than_any_ssd_is_found(wording):
    answer = ask(NAME, from_disk("virtual", 5e9, 36.0))
    assert isinstance(answer, Found)
    wording(answer.because)
