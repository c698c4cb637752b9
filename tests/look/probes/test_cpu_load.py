from types import MappingProxyType

import pytest
from doubles import FakeSystem

from unslow.facts.values import Absence, Unknown
from unslow.look.probes.cpu import parse_average, read
from unslow.look.system import LookError

PRESSURE = "some avg10=12.50 avg60=12.16 avg300=6.19 total=28949323\nfull avg10=1.00 avg60=0.00 avg300=0.00 total=0\n"


def stat(pid, name, ticks):
    return f"{pid} ({name}) R 1 1 1 0 -1 0 0 0 0 0 {ticks} 0 0 0 20 0 1 0 5 0 0"


class Moving(FakeSystem):
    """Answers from one picture of /proc until it sleeps, then from the next; one second passes."""

    later = MappingProxyType({})
    moment = 0.0

    def sleep(self, seconds):
        self.files |= self.later
        self.moment += 1.0

    def clock(self):
        return self.moment


def test_cpu_load_of_other_processes_is_measured_over_a_window():
    system = Moving(
        files={
            "/proc/stat": "cpu 100 0 0 0 0 0 0 0 0 0\n",
            "/proc/self/stat": stat(3, "unslow", 10),
            "/proc/3/stat": stat(3, "unslow", 10),
            "/proc/9/stat": stat(9, "ffmpeg", 10),
            "/proc/loadavg": "0.89 0.58 0.28 1/90 6518\n",
            "/proc/pressure/cpu": PRESSURE,
        },
        folders={"/proc": ["3", "9", "stat"]},
    )
    system.later = {
        "/proc/stat": "cpu 260 0 0 0 0 0 0 30 0 0\n",
        "/proc/3/stat": stat(3, "unslow", 20),
        "/proc/9/stat": stat(9, "ffmpeg", 150),
    }
    load = read(system).load
    assert load.busy_cpus.need() == pytest.approx(1.6 - 0.1 + 0.3)
    assert [(p.pid, p.cpus) for p in load.busiest.need()] == [(9, 1.4), (0, 0.3)]
    assert load.average_1min.need() == 0.89
    assert load.cpu_pressure.need() == 0.125
    assert load.memory_pressure.absence is Absence.NOT_SUPPORTED


def test_an_unreadable_proc_fails_busy_cpus_but_not_the_load_average():
    locked = LookError("/proc/self/stat: permission denied")
    system = FakeSystem(files={"/proc/self/stat": locked, "/proc/loadavg": "1.0 "})
    load = read(system).load
    assert load.busy_cpus.absence is Absence.FAILED
    assert load.busiest.absence is Absence.FAILED
    assert load.average_1min.need() == 1.0


def test_disabled_pressure_stall_information_is_not_supported():
    path = "/proc/pressure/cpu"
    system = FakeSystem(files={path: LookError(f"{path}: Operation not supported")})
    assert read(system).load.cpu_pressure.absence is Absence.NOT_SUPPORTED


@pytest.mark.parametrize("text", ["", "some avg10=", "some avg10=250.0 avg60=0", "full avg10=1.00", "\x00"])
def test_malformed_pressure_text_is_unknown(text):
    assert isinstance(read(FakeSystem(files={"/proc/pressure/io": text})).load.io_pressure, Unknown)


def test_malformed_load_average_is_unknown():
    assert isinstance(parse_average("high"), Unknown)
