from unslow.facts.machine import Cpu, Disk, Gpu, Machine
from unslow.facts.merge import overlaid
from unslow.facts.values import failed_fact, reported_fact


def test_facts_of_two_looks_are_combined():
    first = Machine(
        cpu=Cpu(sockets=reported_fact(1, "a")), disks=(Disk(path="/"),), gpus=reported_fact((Gpu(index=0),), "nvml")
    )
    second = Machine(
        cpu=Cpu(physical_cores=reported_fact(8, "b")),
        disks=(Disk(path="/x"),),
        gpus=reported_fact((Gpu(index=1),), "amd"),
    )
    both = overlaid(first, second)
    assert both.cpu.sockets.need() == 1
    assert both.cpu.physical_cores.need() == 8
    assert [d.path for d in both.disks] == ["/", "/x"]
    assert [g.index for g in both.gpus.need()] == [0, 1]
    assert both.gpus.source == "nvml, amd"


def test_a_failed_look_does_not_replace_a_known_fact():
    good, bad = Cpu(sockets=reported_fact(1, "a")), Cpu(sockets=failed_fact("no"))
    assert overlaid(good, bad).sockets.need() == 1
    assert overlaid(bad, good).sockets.need() == 1


def test_a_named_gpu_is_matched_to_only_one_of_two_identical_gpus():
    """A server that sees one of two GPUs names it; the driver lists both."""
    named = Machine(gpus=reported_fact((Gpu(index=0, name=reported_fact("NVIDIA H200", "log")),), "log"))
    both = tuple(
        Gpu(index=n, name=reported_fact("NVIDIA H200", "smi"), bus_id=reported_fact(f"00000000:0{n}:00.0", "smi"))
        for n in (1, 2)
    )
    gpus = overlaid(named, Machine(gpus=reported_fact(both, "smi"))).gpus.need()
    assert [gpu.bus_id.need() for gpu in gpus] == ["00000000:01:00.0", "00000000:02:00.0"]
