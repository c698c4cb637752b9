import pytest
from doubles import FakeSystem

from unslow.facts.values import GIB, Absence, Unknown
from unslow.look.probes.cgroup import parse_allowed_cpus, parse_throttling, read_limits
from unslow.look.system import LookError

V2 = "31 23 0:28 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"
V1 = (
    "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
    "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
    "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"
)
ROOT = "/sys/fs/cgroup"


def process(cgroup, mounts, pid="self", **files):
    status = "Name:\tx\nCpus_allowed:\tff\nCpus_allowed_list:\t0-7\n"
    return FakeSystem(
        files={
            f"/proc/{pid}/cgroup": cgroup,
            "/proc/self/mountinfo": mounts,
            f"/proc/{pid}/status": status,
            "/sys/devices/system/cpu/online": "0-3\n",
        }
        | files
    )


def test_cgroup_v2_uses_the_tightest_quota_of_all_ancestors():
    system = process("0::/user.slice/ollama.service\n", V2)
    system.files |= {
        f"{ROOT}/user.slice/ollama.service/cpu.max": "max 100000\n",
        f"{ROOT}/user.slice/ollama.service/memory.max": f"{32 * GIB}\n",
        f"{ROOT}/user.slice/cpu.max": "150000 100000\n",
        f"{ROOT}/user.slice/memory.max": f"{16 * GIB}\n",
        f"{ROOT}/user.slice/cpu.stat": "usage_usec 5\nnr_periods 100\nnr_throttled 40\nthrottled_usec 2500000\n",
    }
    machine = read_limits(system)
    assert machine.cpu.quota_cpus.need() == 1.5
    assert machine.cpu.quota_cpus.source == f"{ROOT}/user.slice"
    assert machine.cpu.throttled_s.need() == 2.5
    assert [machine.cpu.throttled_periods.need(), machine.cpu.periods.need()] == [40, 100]
    assert machine.memory.limit_bytes.need() == 16 * GIB


def test_cgroup_v1_is_read_beside_an_empty_v2(wording):
    system = process("4:memory:/docker/abc\n1:cpu,cpuacct:/docker/abc\n0::/\n", V1, pid=77)
    system.files |= {
        f"{ROOT}/cpu,cpuacct/docker/abc/cpu.cfs_quota_us": "200000\n",
        f"{ROOT}/cpu,cpuacct/docker/abc/cpu.cfs_period_us": "100000\n",
        f"{ROOT}/cpu,cpuacct/cpu.cfs_quota_us": "-1\n",
        f"{ROOT}/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
        f"{ROOT}/cpu,cpuacct/docker/abc/cpu.stat": "nr_periods 10\nnr_throttled 1\nthrottled_time 30000000\n",
        f"{ROOT}/memory/docker/abc/memory.limit_in_bytes": "9223372036854771712\n",
    }
    machine = read_limits(system, 77)
    assert machine.cpu.quota_cpus.need() == 2.0
    assert machine.cpu.throttled_s.need() == pytest.approx(0.03)
    assert isinstance(machine.memory.limit_bytes, Unknown)
    wording(machine.memory.limit_bytes.why)


def test_a_container_that_sees_its_cgroup_as_root_is_read():
    mounts = "32 31 0:29 /docker/abc /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu\n"
    system = process("1:cpu:/docker/abc\n", mounts)
    system.files |= {f"{ROOT}/cpu/cpu.cfs_quota_us": "50000", f"{ROOT}/cpu/cpu.cfs_period_us": "100000"}
    assert read_limits(system).cpu.quota_cpus.need() == 0.5


def test_a_missing_cpu_quota_is_not_found():
    system = process("0::/\n", V2)
    cpu = read_limits(system).cpu
    assert cpu.quota_cpus == Unknown("no CPU quota set", absence=Absence.NOT_FOUND)
    assert isinstance(cpu.throttled_s, Unknown)


def test_a_cgroup_outside_the_mounted_tree_is_not_supported():
    cpu = read_limits(process("0::/../other\n", V2)).cpu
    assert cpu.quota_cpus.absence is Absence.NOT_SUPPORTED
    elsewhere = V2.replace(" / ", " /docker/abc ", 1)
    assert read_limits(process("0::/docker/abcdef\n", elsewhere)).cpu.quota_cpus.absence is Absence.NOT_SUPPORTED


def test_an_unreadable_quota_is_a_failure():
    system = process("0::/a\n", V2)
    system.files[f"{ROOT}/a/cpu.max"] = LookError("cpu.max: permission denied")
    assert read_limits(system).cpu.quota_cpus.absence is Absence.FAILED


def test_allowed_cpus_are_limited_to_existing_ones():
    assert read_limits(process("0::/\n", V2)).cpu.allowed_cpus.need() == 4


def test_without_cgroups_limits_are_not_found():
    machine = read_limits(FakeSystem())
    assert machine.cpu.quota_cpus.absence is Absence.NOT_FOUND
    assert machine.memory.limit_bytes.absence is Absence.NOT_FOUND
    assert isinstance(machine.cpu.allowed_cpus, Unknown)


@pytest.mark.parametrize("text", ["", "max 100000", "100000", "0 100000", "100000 0", "-1 100000", "\x00", "9" * 99])
def test_cpu_max_without_a_quota_is_unknown(text):
    system = process("0::/a\n", V2)
    system.files[f"{ROOT}/a/cpu.max"] = text
    assert isinstance(read_limits(system).cpu.quota_cpus, Unknown)


def test_garbage_cgroup_text_gives_no_limits():
    garbage = read_limits(process("\x00\n::\nnonsense\n", V2))
    assert isinstance(garbage.cpu.quota_cpus, Unknown)
    assert isinstance(garbage.memory.limit_bytes, Unknown)
    assert parse_allowed_cpus("Cpus_allowed_list:\tnone\n") == frozenset()
    assert isinstance(parse_throttling("nr_periods x\nthrottled_usec 5\n", "cpu.stat").throttled_s, Unknown)


def test_memory_high_is_a_memory_limit():
    system = process("0::/system.slice/llama.service\n", V2)
    folder = f"{ROOT}/system.slice/llama.service"
    system.files |= {f"{folder}/memory.max": "max\n", f"{folder}/memory.high": f"{5 * GIB}\n"}
    limit = read_limits(system).memory.limit_bytes
    assert limit.need() == 5 * GIB
    assert limit.source == f"{folder}/memory.high"
