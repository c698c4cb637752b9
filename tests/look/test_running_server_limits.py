from cases import r
from doubles import FakeSystem

from unslow.facts.runtime import Runtime
from unslow.facts.snapshot import Subject
from unslow.facts.values import Known, Unknown
from unslow.look.running_server import with_limits

MOUNTS = "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
SERVER = Subject(runtime=Runtime().with_facts(pid=r(77)))


def machine(quota: str) -> FakeSystem:
    return FakeSystem(
        files={
            "/proc/77/cgroup": "0::/box\n",
            "/proc/77/status": "Name:\tx\nCpus_allowed_list:\t0-3\n",
            "/proc/self/mountinfo": MOUNTS,
            "/sys/devices/system/cpu/online": "0-7\n",
            "/sys/fs/cgroup/box/cpu.max": quota,
        }
    )


def test_quota_and_cpuset_of_the_servers_process_are_read():
    runtime = with_limits(machine("150000 100000\n"), SERVER).runtime
    assert runtime.process.quota_cpus.value == 1.5
    assert runtime.process.allowed_cpus.value == 4


def test_without_a_quota_the_allowed_cpus_are_the_limit():
    runtime = with_limits(machine("max 100000\n"), SERVER).runtime
    assert isinstance(runtime.process.quota_cpus, Known)
    assert runtime.process.quota_cpus.value == 4.0
    assert "no CPU quota" in runtime.process.quota_cpus.source


def test_an_invisible_process_has_unknown_limits():
    assert with_limits(FakeSystem(), Subject()) == Subject()
    assert isinstance(with_limits(FakeSystem(), SERVER).runtime.process.quota_cpus, Unknown)


def test_the_memory_limit_of_the_servers_cgroup_is_read():
    box = machine("max 100000\n")
    box.files |= {"/sys/fs/cgroup/box/memory.max": "524288000\n"}
    limit = with_limits(box, SERVER).runtime.process.memory_limit_bytes
    assert (limit.value, limit.source) == (524_288_000, "/sys/fs/cgroup/box/memory.max")
