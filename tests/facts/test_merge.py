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


def test_of_two_alike_only_one_is_the_gpu_that_a_program_names():
    """A server that may see one of two cards names it; the driver lists both."""
    named = Machine(gpus=reported((Gpu(index=0, name=reported("NVIDIA H200", "log")),), "log"))
    both = tuple(
        Gpu(index=n, name=reported("NVIDIA H200", "smi"), bus_id=reported(f"00000000:0{n}:00.0", "smi")) for n in (1, 2)
    )
    gpus = overlaid(named, Machine(gpus=reported(both, "smi"))).gpus.need()
    assert [gpu.bus_id.need() for gpu in gpus] == ["00000000:01:00.0", "00000000:02:00.0"]
