"""The devices and the host of a moment; and what the flags mean."""

import time

import pytest

from unslow.commands.watch import WatchRequest
from unslow.facts.errors import UserError
from unslow.facts.machine import Cpu, Gpu, Machine, Memory
from unslow.facts.values import reported
from unslow.live.tick import Tick
from unslow.live.watcher import Eyes, checked_request, devices_now, host_now, is_elsewhere, ticks, watched_url
from unslow.look.sampler.readings import Device
from unslow.look.system.live import LiveSystem


def test_a_gpu_that_is_sampled_has_the_limits_that_the_probe_knows():
    gpu = Gpu(index=0, name=reported("RTX 4090", "nvml"), power_limit_w=reported(450.0, "nvml"))
    seen = {"gpu0_busy": 0.9, "gpu0_power_w": 449.0, "gpu0_reason_sw_power_cap": 0.8, "gpu0_reason_gpu_idle": 0.9}
    machine = Machine(gpus=reported((gpu,), "nvml"))
    (device,) = devices_now(seen, (Device(0, "RTX 4090"),), machine)
    assert (device.name, device.busy, device.power_w, device.power_limit_w) == ("RTX 4090", 0.9, 449.0, 450.0)
    assert device.reasons == ("sw_power_cap",), "that an idle GPU clocks down is no news"


def test_a_gpu_that_nobody_samples_is_shown_as_it_was_found():
    gpu = Gpu(index=1, name=reported("Arc", "sysfs"), busy=reported(0.25, "sysfs"))
    (device,) = devices_now({}, (), Machine(gpus=reported((gpu,), "sysfs")))
    assert (device.number, device.busy) == (1, 0.25)


def test_the_host():
    machine = Machine(
        cpu=Cpu(logical_cpus=reported(8, "/proc")), memory=Memory(total_bytes=reported(100, "/proc/meminfo"))
    )
    host = host_now({"busy_cpus": 3.5, "memory_available_bytes": 40.0}, machine)
    assert (host.cpus, host.busy_cpus, host.ram_total_bytes, host.ram_available_bytes) == (8, 3.5, 100, 40.0)
    assert host.own_cpus is None


@pytest.mark.parametrize(
    "wrong", [{"interval": 0.0}, {"interval": float("nan")}, {"seconds": -1.0}, {"target": "/no/such/file"}]
)
def test_flags_that_make_no_sense(wrong):
    with pytest.raises(UserError):
        checked_request(WatchRequest.from_flags(wrong))


def test_a_server_elsewhere_is_told_from_one_here():
    assert is_elsewhere(checked_request(WatchRequest.from_flags({"target": "example.org:8080"})))
    here = checked_request(WatchRequest.from_flags({"target": "localhost:8080"}))
    assert (is_elsewhere(here), watched_url(here)) == (False, "http://localhost:8080")
    assert watched_url(checked_request(WatchRequest.from_flags({"target": "4242"}))) is None


class Counting:
    """Watching that only counts."""

    def __init__(self, *, broken: bool = False) -> None:
        self.rounds, self.closed, self.broken = 0, False, broken
        self.is_half_seen = False

    def look(self) -> None:
        if self.broken:
            raise ZeroDivisionError
        self.rounds += 1

    def tick(self) -> Tick:
        return Tick(seconds=self.rounds)

    def close(self) -> None:
        self.closed = True


class Unhurried(LiveSystem):
    """Its time passes by sleeping alone."""

    def __init__(self) -> None:
        super().__init__()
        self.second = 0.0

    def clock(self) -> float:
        return self.second

    def sleep(self, seconds: float) -> None:
        self.second += seconds


def test_ticks_come_until_the_time_is_over():
    watching = Counting()
    assert len(list(ticks(watching, WatchRequest(interval=0.25, seconds=1.0), Unhurried()))) == 4
    assert watching.closed


def test_one_tick_alone_comes_when_there_is_a_speed_to_tell():
    (tick,) = ticks(Counting(), WatchRequest(interval=0.02, once=True), LiveSystem())
    assert tick.seconds >= 4


def test_a_bug_in_the_thread_that_looks_is_not_lost():
    with pytest.raises(ZeroDivisionError):
        list(ticks(Counting(broken=True), WatchRequest(interval=0.02), LiveSystem()))


def test_an_answer_that_was_seen_once_is_looked_at_again_soon():
    watching = Counting()
    watching.is_half_seen = True
    eyes = Eyes(watching, 7200.0, LiveSystem())
    eyes.start()
    end = time.monotonic() + 5
    while watching.rounds < 2 and time.monotonic() < end:
        time.sleep(0.01)
    eyes.stop()
    assert watching.rounds == 2, "once more, and then when it is time"


def test_the_thread_that_looks_ends():
    watching = Counting()
    eyes = Eyes(watching, 0.01, LiveSystem())
    eyes.start()
    eyes.stop()
    rounds = watching.rounds
    assert watching.closed
    assert watching.rounds == rounds
