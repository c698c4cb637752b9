"""Current devices and host, watch requests, and the watch thread."""

import time

import pytest

from unslow.commands.watch import WatchRequest
from unslow.facts.errors import UserError
from unslow.facts.machine import Cpu, Gpu, Machine, Memory
from unslow.facts.values import reported_fact
from unslow.live.tick import Tick
from unslow.live.watcher import WatchThread, checked_request, devices_now, host_now, is_elsewhere, ticks, watched_url
from unslow.look.sampler.readings import Device
from unslow.look.system.live import LiveSystem


def test_sampled_gpu_has_the_limits_of_the_probe():
    gpu = Gpu(index=0, name=reported_fact("RTX 4090", "nvml"), power_limit_w=reported_fact(450.0, "nvml"))
    seen = {"gpu0_busy": 0.9, "gpu0_power_w": 449.0, "gpu0_reason_sw_power_cap": 0.8, "gpu0_reason_gpu_idle": 0.9}
    machine = Machine(gpus=reported_fact((gpu,), "nvml"))
    (device,) = devices_now(seen, (Device(0, "RTX 4090"),), machine)
    assert (device.name, device.busy, device.power_w, device.power_limit_w) == ("RTX 4090", 0.9, 449.0, 450.0)
    assert device.reasons == ("sw_power_cap",), "that an idle GPU clocks down is no news"


def test_unsampled_gpu_is_shown_as_probed():
    gpu = Gpu(index=1, name=reported_fact("Arc", "sysfs"), busy=reported_fact(0.25, "sysfs"))
    (device,) = devices_now({}, (), Machine(gpus=reported_fact((gpu,), "sysfs")))
    assert (device.number, device.busy) == (1, 0.25)


def test_host_combines_samples_and_machine_facts():
    machine = Machine(
        cpu=Cpu(logical_cpus=reported_fact(8, "/proc")), memory=Memory(total_bytes=reported_fact(100, "/proc/meminfo"))
    )
    host = host_now({"busy_cpus": 3.5, "memory_available_bytes": 40.0}, machine)
    assert (host.cpus, host.busy_cpus, host.ram_total_bytes, host.ram_available_bytes) == (8, 3.5, 100, 40.0)
    assert host.own_cpus is None


@pytest.mark.parametrize(
    "wrong", [{"interval": 0.0}, {"interval": float("nan")}, {"seconds": -1.0}, {"target": "/no/such/file"}]
)
def test_invalid_watch_request_is_a_user_error(wrong):
    with pytest.raises(UserError):
        checked_request(WatchRequest.from_flags(wrong))


def test_remote_and_local_targets_are_distinguished():
    assert is_elsewhere(checked_request(WatchRequest.from_flags({"target": "example.org:8080"})))
    here = checked_request(WatchRequest.from_flags({"target": "localhost:8080"}))
    assert (is_elsewhere(here), watched_url(here)) == (False, "http://localhost:8080")
    assert watched_url(checked_request(WatchRequest.from_flags({"target": "4242"}))) is None


class Counting:
    """A watcher that only counts its looks."""

    def __init__(self, *, broken: bool = False) -> None:
        self.rounds, self.closed, self.broken = 0, False, broken
        self.needs_second_look = False

    def look(self) -> None:
        if self.broken:
            raise ZeroDivisionError
        self.rounds += 1

    def tick(self) -> Tick:
        return Tick(seconds=self.rounds)

    def close(self) -> None:
        self.closed = True


class Unhurried(LiveSystem):
    """Time passes only by sleeping."""

    def __init__(self) -> None:
        super().__init__()
        self.second = 0.0

    def clock(self) -> float:
        return self.second

    def sleep(self, seconds: float) -> None:
        self.second += seconds


def test_ticks_end_after_the_given_seconds():
    watching = Counting()
    assert len(list(ticks(watching, WatchRequest(interval=0.25, seconds=1.0), Unhurried()))) == 4
    assert watching.closed


def test_once_waits_for_enough_looks():
    (tick,) = ticks(Counting(), WatchRequest(interval=0.02, once=True), LiveSystem())
    assert tick.seconds >= 4


def test_exception_in_the_watch_thread_is_raised():
    with pytest.raises(ZeroDivisionError):
        list(ticks(Counting(broken=True), WatchRequest(interval=0.02), LiveSystem()))


def test_response_seen_once_is_looked_at_again_soon():
    watching = Counting()
    watching.needs_second_look = True
    eyes = WatchThread(watching, 7200.0, LiveSystem())
    eyes.start()
    end = time.monotonic() + 5
    while watching.rounds < 2 and time.monotonic() < end:
        time.sleep(0.01)
    eyes.stop()
    assert watching.rounds == 2, "once more, and then when it is time"


def test_watch_thread_ends_on_stop():
    watching = Counting()
    eyes = WatchThread(watching, 0.01, LiveSystem())
    eyes.start()
    eyes.stop()
    rounds = watching.rounds
    assert watching.closed
    assert watching.rounds == rounds
