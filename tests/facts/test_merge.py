from unslow.facts.machine import Cpu, Disk, Gpu, Machine
from unslow.facts.merge import overlaid
from unslow.facts.values import failed, reported


def test_looks_add_up():
    first = Machine(cpu=Cpu(sockets=reported(1, "a")), disks=(Disk(path="/"),), gpus=reported((Gpu(index=0),), "nvml"))
    second = Machine(
        cpu=Cpu(physical_cores=reported(8, "b")), disks=(Disk(path="/x"),), gpus=reported((Gpu(index=1),), "amd")
    )
    both = overlaid(first, second)
    assert both.cpu.sockets.need() == 1
    assert both.cpu.physical_cores.need() == 8
    assert [d.path for d in both.disks] == ["/", "/x"]
    assert [g.index for g in both.gpus.need()] == [0, 1]
    assert both.gpus.source == "nvml, amd"


def test_a_failed_look_does_not_undo_a_good_one():
    good, bad = Cpu(sockets=reported(1, "a")), Cpu(sockets=failed("no"))
    assert overlaid(good, bad).sockets.need() == 1
    assert overlaid(bad, good).sockets.need() == 1
