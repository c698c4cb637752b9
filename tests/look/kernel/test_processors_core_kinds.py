from doubles import FakeSystem

from unslow.look.kernel.processors import read_slow_cpus

ONLINE = {"/sys/devices/system/cpu/online": "0-3\n"}


def test_intel_names_the_fast_ones():
    assert read_slow_cpus(FakeSystem(files={**ONLINE, "/sys/devices/cpu_core/cpus": "0-1\n"})) == {2, 3}


def test_arm_rates_them():
    rated = {f"/sys/devices/system/cpu/cpu{n}/cpu_capacity": f"{c}\n" for n, c in enumerate((1024, 980, 440, 440))}
    assert read_slow_cpus(FakeSystem(files={**ONLINE, **rated})) == {2, 3}


def test_cores_of_one_kind():
    assert read_slow_cpus(FakeSystem(files=ONLINE)) == frozenset()
    assert read_slow_cpus(FakeSystem()) == frozenset()
