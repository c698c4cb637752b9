import msgspec
import pytest
from answers import ask
from cases import gpu_case, r, with_facts
from under_load import saying, tried

from unslow.facts.account import Topic
from unslow.facts.machine import Disk
from unslow.think.causes._cause import Absent, CannotTell, Found
from unslow.think.judge import judge

NAME = "slow_model_load"


def fires(kind: str = "hdd", seconds: float = 40.0):
    case = with_facts(gpu_case(), {"run.load_s": seconds, "model.path": "/models/m.gguf"})
    disks = (Disk(path="/", kind=r("nvme")), Disk(path="/models", kind=r(kind)))
    return msgspec.structs.replace(case, machine=msgspec.structs.replace(case.machine, disks=disks))


def test_five_gigabytes_from_a_hard_disk():
    report = judge(fires())
    assert report.findings[0].cause == NAME
    assert "0.12 GB/s" in report.findings[0].because
    assert "hdd" in report.findings[0].because


@pytest.mark.parametrize(("kind", "seconds"), [("hdd", 5.0), ("nvme", 40.0), ("memory", 40.0)])
def test_a_quick_load_or_a_disk_that_could_do_more(kind, seconds):
    assert isinstance(ask(NAME, fires(kind, seconds)), Absent)


def test_without_the_disk_it_asks():
    case = fires()
    bare = msgspec.structs.replace(case, machine=msgspec.structs.replace(case.machine, disks=()))
    answer = ask(NAME, bare)
    assert isinstance(answer, CannotTell)
    assert "lsblk" in answer.how_to_get


def test_a_trial_from_another_disk():
    assert isinstance(ask(NAME, tried(1 / 1175, 1 / 30, Topic.DISK, metric="load")), Found)
    assert not isinstance(ask(NAME, tried(3.0, 30.0, Topic.DISK, metric="decode")), Found)


def test_a_long_load_alone_is_no_proof():
    assert isinstance(ask(NAME, with_facts(saying(slow="load"), {"run.load_s": 1175.0})), CannotTell)
