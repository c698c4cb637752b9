from doubles import FakeSystem

from unslow.facts.model import Model
from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Subject
from unslow.facts.values import not_found, reported_fact
from unslow.look.running_server import read_model_disks

OWN = "27 1 259:2 / / rw - ext4 /dev/nvme0n1p2 rw\n28 1 0:50 / /mnt/nas rw - nfs4 nas:/models rw\n"


def server(path: str, pid: int | None = 7, container: str = ""):
    runtime = Runtime().with_facts(
        pid=not_found("elsewhere") if pid is None else reported_fact(pid, "/proc"),
        container=reported_fact(container, "x") if container else not_found("none"),
    )
    return Subject(runtime=runtime, model=Model(path=reported_fact(path, "command line")))


def test_the_disk_under_the_servers_model_is_read():
    system = FakeSystem(files={"/proc/self/mountinfo": OWN}, links={"/mnt/nas/llm": "/mnt/nas/llm"})
    (disk,) = read_model_disks(system, [server("/mnt/nas/llm/m.gguf"), server("/mnt/nas/llm/n.gguf")])
    assert (disk.path, disk.kind.need()) == ("/mnt/nas/llm", "network")


def test_in_a_container_its_own_mounts_decide_the_disk():
    own = "27 1 0:45 / / rw - overlay overlay rw\n29 1 0:51 / /models rw - nfs4 nas:/models rw\n"
    system = FakeSystem(files={"/proc/self/mountinfo": OWN, "/proc/7/mountinfo": own})
    (disk,) = read_model_disks(system, [server("/models/m.gguf", container="docker")])
    assert disk.kind.need() == "network"


def test_without_a_local_process_no_disk_is_read():
    assert read_model_disks(FakeSystem(), [server("/models/m.gguf", pid=None), server("m.gguf")]) == ()
