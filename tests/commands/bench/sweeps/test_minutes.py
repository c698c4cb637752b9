import random
from itertools import pairwise

import pytest
from doubles import Quiet
from simulated_server import SimulatedServer

from unslow.commands.bench.bencher import Bencher
from unslow.commands.bench.sweeps import Limits, minutes
from unslow.facts.bench import DECODE, Sweep
from unslow.facts.errors import UserError
from unslow.facts.snapshot import Subject
from unslow.look.requests import Target
from unslow.look.system import ExchangeError, LookError

URL = "http://127.0.0.1:1"


def bencher_of(system: SimulatedServer) -> Bencher:
    return Bencher(system, Subject(), Target(URL), Quiet())


def swept(system: SimulatedServer, *values: float, seconds: float = 600.0) -> tuple[Sweep, Bencher]:
    bencher = bencher_of(system)
    return minutes.sweep(bencher, Limits(values=values, seconds=seconds)), bencher


def noisy(system: SimulatedServer, level: float) -> SimulatedServer:
    dice = random.Random(1)
    system.rate = lambda _now: level * (1 + dice.gauss(0, 0.01))
    return system


def test_steady_server_gives_verdict_steady_with_half_minute_points():
    found, bencher = swept(noisy(SimulatedServer(), 50.0))
    assert found.verdict == "steady"
    assert [point.at for point in found.points] == [0.5 * n for n in range(10)]
    assert all(point.figures[DECODE].median == pytest.approx(50, rel=0.05) for point in found.points)
    assert f"{len(bencher.passes)} requests: {len(bencher.passes)} answered, 0 failed" in found.because
    assert found.stopped_early == ""


def test_requests_take_about_five_seconds_at_any_speed():
    for rate, tokens in ((3.0, 16), (50.0, 250), (2000.0, 2048)):
        bencher = bencher_of(noisy(SimulatedServer(), rate))
        minutes.sustained_sweep(bencher, Limits(values=(0.3,)), minutes.REQUEST_S)
        assert bencher.passes[-1].asked_tokens == pytest.approx(tokens, rel=0.1)


def test_short_run_requests_fewer_tokens():
    found, bencher = swept(noisy(SimulatedServer(), 50.0), 0.5)
    assert bencher.passes[-1].asked_tokens == pytest.approx(50, rel=0.1)
    assert all(DECODE in point.figures for point in found.points)


def test_first_request_is_a_warm_up():
    _, bencher = swept(noisy(SimulatedServer(), 50.0), 1.0)
    assert [one.round for one in bencher.passes[:3]] == [0, 2, 3]


def test_slice_length_gives_at_most_240_points():
    assert minutes.slice_s(60) == 60
    assert minutes.slice_s(5) == 30
    assert minutes.slice_s(1440) == 360


def test_throttling_gives_verdict_falls_with_its_minute():
    found, _ = swept(SimulatedServer(rate=lambda now: 50.0 if now < 130 else 40.0))
    assert found.verdict == "falls"
    assert found.knee == pytest.approx(2.0, abs=0.5)


def test_long_run_stops_after_speed_fell_and_settled(wording):
    found, _ = swept(SimulatedServer(rate=lambda now: 50.0 if now < 600 else 40.0), 60.0)
    assert found.verdict == "falls"
    wording(found.stopped_early, tells="10")
    assert len(found.points) < 40


def test_time_limit_shorter_than_usual_is_kept():
    system = SimulatedServer()
    swept(system, seconds=60)
    assert system.since_s == pytest.approx(60, abs=6)


def test_unreachable_server_is_waited_for_and_downtime_counted(wording):
    system = SimulatedServer(is_up=lambda now: not 60 <= now < 100)
    found, bencher = swept(system)
    assert [failure.kind for failure in bencher.failures] == ["refused"]
    wording(found.because, tells="1 refused")
    down = sum(point.seen.get("down_s", 0.0) for point in found.points)
    assert 38 <= down <= 52
    assert sum(point.failures for point in found.points) == 1
    assert system.polled < 20


def test_failures_are_counted_by_kind(wording):
    kinds = {20: "silent", 50: "broke_off", 80: "error", 110: "silent"}

    def fails(now: float) -> ExchangeError | None:
        due = [at for at in kinds if at <= now]
        return ExchangeError(kinds.pop(due[0]), "as planned") if due else None  # type: ignore[arg-type]

    system = SimulatedServer(fails=fails)
    found, bencher = swept(system)
    assert [failure.kind for failure in bencher.failures] == ["stalled", "broke_off", "error", "stalled"]
    assert len(system.asked) == len(bencher.passes) + len(bencher.failures)
    assert f"{len(system.asked)} requests" in found.because
    wording(found.because)
    assert "longest silence 6" in found.because
    assert [failure.generated_tokens > 0 for failure in bencher.failures] == [True, True, False, True]


def test_server_that_always_fails_gets_at_most_40_requests(wording):
    system = SimulatedServer(fails=lambda _now: ExchangeError("error", "answered 500"))
    found, bencher = swept(system)
    assert found.verdict == "cannot_tell"
    wording(found.stopped_early)
    assert len(bencher.failures) <= 40


def test_server_that_comes_up_late_is_measured():
    found, bencher = swept(SimulatedServer(is_up=lambda now: now > 200))
    assert len(bencher.passes) > 10
    assert found.points[0].figures == {}


def test_interrupt_keeps_measured_points(wording):
    found, bencher = swept(SimulatedServer(interrupt_at_s=1100.0))
    assert bencher.interrupted
    wording(found.stopped_early)
    assert len(found.points) == 3
    assert f"{len(bencher.passes)} answered" in found.because


def test_passes_are_flushed_at_least_every_45_s():
    system = SimulatedServer()
    bencher, flushed = bencher_of(system), []
    bencher.flush = lambda: flushed.append(system.since_s)
    minutes.sweep(bencher, Limits())
    assert max(b - a for a, b in pairwise([0.0, *flushed, 300.0])) <= 45


def test_timeouts_of_the_bencher_are_restored():
    bencher = bencher_of(SimulatedServer())
    minutes.sweep(bencher, Limits(values=(1.0,)))
    assert (bencher.silence_s, bencher.deadline_s) == (300.0, 3600.0)


def test_earlier_requests_are_not_counted():
    system = noisy(SimulatedServer(), 50.0)
    bencher = bencher_of(system)
    first = minutes.sweep(bencher, Limits(values=(1.0,)))
    count = len(bencher.passes)
    second = minutes.sweep(bencher, Limits(values=(1.0,)))
    assert f"{count} requests" in first.because
    assert f"{len(bencher.passes) - count} requests" in second.because


def test_ten_hours_give_240_points_with_every_request():
    system = SimulatedServer(rate=lambda _now: 0.5)
    found, bencher = swept(system, 600.0)
    assert len(found.points) == 240
    assert len(bencher.passes) == len(system.asked)
    assert sum(point.seen["answered"] for point in found.points) == len(bencher.passes) - 1


@pytest.mark.parametrize("value", [0.0, -5.0, 1e9, float("nan"), float("inf")])
def test_invalid_durations_are_refused(value: float, wording):
    with pytest.raises(UserError) as caught:
        swept(SimulatedServer(), value)
    wording(str(caught.value))


def test_interrupt_during_an_outage_keeps_the_outage():
    found, bencher = swept(SimulatedServer(is_up=lambda now: now < 60, interrupt_at_s=1120.0))
    assert bencher.interrupted
    assert "in 1 outage" in found.because


def test_restarted_server_is_counted_as_one_failure():
    failing = iter([None, None, ExchangeError("broke_off", "hung up"), *[None] * 100])
    system = SimulatedServer(fails=lambda _now: next(failing), files={"/proc/self/stat": "1 (python) R 1"})
    bencher = Bencher(system, Subject(), Target(URL, pid=77), Quiet())
    minutes.sweep(bencher, Limits(values=(1.0,)))
    assert bencher.target.pid is None
    assert [failure.kind for failure in bencher.failures] == ["broke_off"]


def test_server_whose_process_ended_fails_as_gone():
    files: dict[str, str | bytes | LookError] = {"/proc/self/stat": "1 (python) R 1", "/proc/77/stat": "77 (s) R 1"}

    def is_up(now: float) -> bool:
        if now >= 20:
            files.pop("/proc/77/stat", None)
        return now < 20

    system = SimulatedServer(is_up=is_up, files=files)
    bencher = Bencher(system, Subject(), Target(URL, pid=77), Quiet())
    minutes.sweep(bencher, Limits(values=(1.0,)))
    assert [failure.kind for failure in bencher.failures] == ["gone"]
