from doubles import FakeSystem

from unslow.look.kernel.processors import read_slow_cpus

ONLINE = {"/sys/devices/system/cpu/online": "0-3\n"}


def test_intel_hybrid_slow_cpus_are_those_outside_cpu_core():
    assert read_slow_cpus(FakeSystem(files={**ONLINE, "/sys/devices/cpu_core/cpus": "0-1\n"})) == {2, 3}


def test_arm_slow_cpus_have_the_lower_cpu_capacity():
    rated = {f"/sys/devices/system/cpu/cpu{n}/cpu_capacity": f"{c}\n" for n, c in enumerate((1024, 980, 440, 440))}
    assert read_slow_cpus(FakeSystem(files={**ONLINE, **rated})) == {2, 3}


def test_a_processor_with_one_kind_of_core_has_no_slow_cpus():
    assert read_slow_cpus(FakeSystem(files=ONLINE)) == frozenset()
    assert read_slow_cpus(FakeSystem()) == frozenset()
