import csv
import os
import time
from itertools import pairwise
from pathlib import Path
from threading import Event, Thread
from types import SimpleNamespace

import pytest
from doubles import FakeSystem
from sampled_machine import PROCESS, STAT, LiveFake

from unslow.facts.errors import UserError
from unslow.facts.run import Span
from unslow.look import sampler as sampler_module
from unslow.look.sampler import RowWriter, Sampler, ScheduledThread
from unslow.look.sampler import rows as series_module
from unslow.look.sampler import sources as sources_module
from unslow.look.sampler.readings import Device, Reader, Reading
from unslow.look.sampler.rows import SampledRows
from unslow.look.system.live import LiveSystem
from unslow.look.system.recorded import RecordedSystem, Recorder

MOST_S = 20.0
"""That a thread of a busy machine is waited for."""
THIS = PROCESS.replace("7 (", "9 (", 1)


def pretend(monkeypatch: pytest.MonkeyPatch, **sources: object) -> None:
    monkeypatch.setattr(sources_module, "all_sources", lambda: list(sources.items()))


def source(*readings: Reading, driver: bool = False) -> SimpleNamespace:
    return SimpleNamespace(DRIVER=driver, open_readings=lambda _live, _pids, _closing: list(readings))


def watched(sampler: Sampler, rows: int = 2) -> None:
    """Wait until it has written so many more rows."""
    wanted, end = sampler.telemetry().samples + rows, time.monotonic() + MOST_S
    while sampler.telemetry().samples < wanted and time.monotonic() < end:
        time.sleep(0.02)


def test_this_machine_is_sampled_for_half_a_second():
    system = LiveSystem()
    with Sampler(system, [os.getpid()], hz=20) as sampler:
        start = system.clock()
        while system.clock() < start + 0.5:
            sum(range(10_000))
        watched(sampler, 4)
        sampler.note(Span(phase="decode", start_s=start, end_s=system.clock()))
        seen = sampler.means_between(0)
    telemetry = sampler.telemetry()
    assert telemetry.samples >= 4
    assert telemetry.asked_hz == 20
    assert 0 < telemetry.cost.seconds_per_sample < 0.05
    assert seen["memory_available_bytes"] > 0
    assert 0 <= seen["busiest_core"] <= 1.0
    assert seen["own_rss_bytes"] > 1e6
    decode = next(phase for phase in telemetry.phases if phase.phase == "decode")
    assert decode.host["busy_cpus"].high <= (os.cpu_count() or 1)


def test_a_recording_is_not_sampled_and_says_why(tmp_path: Path, wording):
    Recorder(FakeSystem(), tmp_path).close()
    with Sampler(RecordedSystem(tmp_path), [1]) as sampler:
        sampler.note(Span(phase="decode", start_s=0, end_s=1))
    assert sampler.telemetry().samples == 0
    assert list(sampler.telemetry().unread) == ["all"]
    wording(sampler.telemetry().unread["all"])
    assert sampler.means_between(0) == {}
    assert sampler.clock() == 0.0


def test_samples_are_not_written_into_a_recording(tmp_path: Path):
    recorder = Recorder(LiveSystem(), tmp_path)
    with Sampler(recorder, [os.getpid()], hz=50) as sampler:
        watched(sampler)
    recorder.close()
    assert (tmp_path / "recording.jsonl").read_bytes() == b""


def test_a_machine_without_sources_gives_reasons_and_no_values():
    system = LiveFake()
    with Sampler(system, hz=10) as sampler:
        pass
    telemetry = sampler.telemetry()
    assert {"processors", "memory", "paging", "disks", "pressure", "nvml"} <= set(telemetry.unread)
    assert all(not phase.host for phase in telemetry.phases)


def test_a_source_that_fails_to_open_does_not_affect_others(monkeypatch: pytest.MonkeyPatch):
    def broken(*_args: object) -> list[Reading]:
        raise RuntimeError("unheard of")

    pretend(
        monkeypatch,
        bad=SimpleNamespace(DRIVER=False, open_readings=broken),
        good=source(Reading("good", ("a",), lambda _n: (1,))),
    )
    with Sampler(LiveSystem(), hz=50) as sampler:
        watched(sampler)
    assert sampler.telemetry().unread == {"bad": "RuntimeError: unheard of"}
    assert sampler.means_between(0)["a"] == 1.0


def test_a_driver_that_hangs_while_opening_is_abandoned(monkeypatch: pytest.MonkeyPatch, wording):
    release = Event()
    hanging = SimpleNamespace(DRIVER=True, open_readings=lambda *_args: release.wait(10) and [])
    monkeypatch.setattr(sources_module, "OPEN_LIMIT_S", 0.05)
    pretend(monkeypatch, hangs=hanging, good=source(Reading("good", ("a",), lambda _n: (1,))))
    with Sampler(LiveSystem(), hz=50) as sampler:
        watched(sampler)
    release.set()
    assert list(sampler.telemetry().unread) == ["hangs"]
    wording(sampler.telemetry().unread["hangs"], tells="0.05 s")
    assert sampler.means_between(0) == {"a": 1.0}


def test_a_driver_that_fails_to_close_does_not_affect_the_samples(monkeypatch: pytest.MonkeyPatch):
    def open_readings(_live, _pids, closing):
        closing.callback(int, "no goodbye")
        return [Reading("clock", ("clock_hz",), lambda _now: (1e9,), Device(0, "A GPU"))]

    pretend(monkeypatch, driver=SimpleNamespace(DRIVER=True, open_readings=open_readings))
    with Sampler(LiveSystem(), hz=50) as sampler:
        watched(sampler)
    assert sampler.telemetry().samples > 0


def test_a_hanging_gpu_leaves_its_columns_empty(monkeypatch: pytest.MonkeyPatch):
    release = Event()

    def hang(_now: float) -> tuple[float]:
        release.wait(10)
        return (1.0,)

    hung, well = Device(0, "hung"), Device(1, "well")
    gpus = source(
        Reading("gpu0 power", ("power_w",), hang, hung), Reading("gpu1 power", ("power_w",), lambda _n: (5.0,), well),
        driver=True,
    )  # fmt: skip
    monkeypatch.setattr(sampler_module, "STUCK_S", 0.3)
    monkeypatch.setattr(sampler_module, "JOIN_S", 0.05)
    pretend(monkeypatch, gpus=gpus, host=source(Reading("host", ("a",), lambda _n: (1,))))
    with Sampler(LiveSystem(), hz=50) as sampler:
        for _ in range(20):
            watched(sampler, 5)
            if "gpu0" in (unread := sampler.unread()):
                break
        seen = sampler.means_between(0)
    release.set()
    assert "has not answered for" in unread["gpu0"]
    assert (seen["a"], seen["gpu1_power_w"]) == (1.0, 5.0)
    assert "gpu0_power_w" not in seen
    assert sampler.telemetry().samples >= 5


def test_a_sampler_can_be_stopped_while_starting_and_restarted(monkeypatch: pytest.MonkeyPatch):
    opening, release = Event(), Event()

    def slow(*_args: object) -> list[Reading]:
        opening.set()
        release.wait(5)
        return []

    pretend(monkeypatch, slow=SimpleNamespace(DRIVER=False, open_readings=slow))
    sampler = Sampler(LiveSystem())
    thread = Thread(target=sampler.start)
    thread.start()
    opening.wait(5)
    stopping = Thread(target=sampler.stop)
    stopping.start()
    release.set()
    thread.join(5)
    stopping.join(5)
    assert not thread.is_alive()
    assert not stopping.is_alive()
    sampler.start()
    sampler.stop()
    assert sampler.telemetry().samples <= 1


def scripted(live: LiveFake) -> tuple[RowWriter, SampledRows]:
    """The whole of a sampler but for its threads."""
    readings, _unread = sources_module.open_sources(live, [7], sampler_module.ExitStack())
    host = Reader("files", readings, live.clock, live.cpu_s, 0.1, 0.002)
    book = SampledRows(host.columns, ())
    return RowWriter(live, host, [], book), book


def test_own_cpu_time_is_separated_from_other_processes():
    live = LiveFake(
        files={
            "/proc/stat": STAT.format(0, 0), "/proc/7/stat": PROCESS.format(faults=0, ticks=0, pages=100),
            "/proc/self/stat": THIS.format(faults=0, ticks=0, pages=1),
        }
    )  # fmt: skip
    scribe, book = scripted(live)
    for number in range(11):
        busy = number * 9
        live.files["/proc/stat"] = STAT.format(busy, number)
        live.files["/proc/7/stat"] = PROCESS.format(faults=number, ticks=number * 5, pages=1000)
        live.files["/proc/self/stat"] = THIS.format(faults=0, ticks=number, pages=1)
        scribe.round(number)
        live.sleep(0.1)
    seen = book.means_between(100.05, 1e9)
    assert seen["busy_cpus"] == pytest.approx(0.9)
    assert seen["own_cpus"] == pytest.approx(0.5)
    assert seen["others_cpus"] == pytest.approx(0.3)
    assert seen["own_rss_bytes_max"] == pytest.approx(4_096_000, rel=1e-6)
    assert seen["own_major_faults_per_s"] == pytest.approx(10.0)
    del live.files["/proc/7/stat"]
    live.files["/proc/stat"] = STAT.format(100, 11)
    scribe.round(11)
    assert book.samples == 12


def test_a_day_takes_no_more_memory_than_a_few_hours(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(series_module, "HOUR_ROWS", 1)  # as few as there may be
    live = LiveFake(files={"/proc/stat": STAT.format(0, 0)})
    scribe, book = scripted(live)
    sizes = []
    for number in range(24 * 900):
        if number % 900 == 0:
            sizes.append(sum(len(block) for block in book._blocks()))
            book.note(Span(phase="decode", start_s=live.time_s - 60, end_s=live.time_s))
        scribe.round(number)
        live.time_s += 4
    rows = [seconds for seconds, _, _ in book.rows()]
    assert max(sizes) <= 3 * 9 * 256
    assert rows[0] < 100 + 64 * 4  # the first seconds of the day are still there
    assert rows[-1] - rows[-2] == pytest.approx(4.0)
    assert max(b - a for a, b in pairwise(rows)) < 400
    decode = next(phase for phase in book.phases() if phase.phase == "decode")
    assert decode.seconds == pytest.approx(23 * 60, rel=0.05)


def test_a_late_round_is_counted_and_does_not_shift_the_schedule():
    beat = ScheduledThread(
        LiveFake(),
        RowWriter(LiveFake(), Reader("", [], float, float, 1, 1), [], SampledRows((), ())),
        0.1,
        Event(),
        10.0,
    )
    assert beat.caught_up(5, 10.51) == 5
    assert beat.late == 0
    assert beat.caught_up(6, 10.95) == 9
    assert beat.late == 3


def test_series_csv_has_units_in_names_and_start_in_a_comment(tmp_path: Path):
    system = LiveSystem()
    with Sampler(system, hz=50) as sampler:
        start = system.clock()
        watched(sampler)
        sampler.note(Span(phase="decode", start_s=start, end_s=system.clock()))
        watched(sampler)
    path = tmp_path / "series.csv"
    sampler.write_series(str(path))
    lines = path.read_text().splitlines()
    assert lines[0].startswith("# start=20")
    rows = list(csv.DictReader(lines[1:]))
    assert lines[1].startswith("seconds,phase,")
    assert len(rows) == sampler.telemetry().samples
    assert {row["phase"] for row in rows} == {"decode", "idle"}
    assert float(rows[-1]["memory_available_bytes"] or rows[0]["memory_available_bytes"]) > 0


def test_an_unknown_extension_or_missing_folder_is_a_user_error(tmp_path: Path):
    sampler = Sampler(LiveFake())
    with pytest.raises(UserError, match=r"\.csv or \.arrow"):
        sampler.write_series(str(tmp_path / "series.xlsx"))
    with pytest.raises(UserError, match="No such file"):
        sampler.write_series(str(tmp_path / "nowhere" / "series.csv"))


def test_series_arrow_is_readable_or_says_what_to_install(tmp_path: Path):
    path = tmp_path / "series.arrow"
    with Sampler(LiveSystem(), hz=50) as sampler:
        watched(sampler)
    try:
        import nanoarrow
    except ImportError:
        with pytest.raises(UserError) as error:
            sampler.write_series(str(path))
        assert "pip install '.[arrow]'" in error.value.hint
        return
    sampler.write_series(str(path))
    table = nanoarrow.ArrayStream.from_path(path).read_all()
    assert len(table) == sampler.telemetry().samples
    assert [field.name for field in table.schema.fields][:2] == ["seconds", "phase"]
