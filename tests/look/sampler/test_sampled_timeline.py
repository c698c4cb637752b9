"""Samples over time, as drawn in the report."""

from math import nan, sin

import msgspec
import pytest

from unslow.facts.run import Span, Telemetry, Timeline, TrackSeen
from unslow.look.logs.gpu_facts import reason_names
from unslow.look.sampler import Sampler
from unslow.look.sampler.readings import Device
from unslow.look.sampler.rows import SampledRows
from unslow.look.sampler.timeline import MOST_COLUMNS, MOST_REASONS, MOST_SPANS, OF_A_GPU, timeline_of
from unslow.look.system.live import LiveSystem

GPU = Device(0, "A GPU", reason_names)
COLUMNS = ("busy_cpus", "core0_busy", "gpu0_power_w", "gpu0_reason_bits", "disk_read_bytes_per_s")
POWER_CAP, HEAT = 4.0, 32.0


def filled(rows: int, reason: float = 0.0) -> SampledRows:
    book = SampledRows(COLUMNS, (GPU,))
    for number in range(rows):
        seldom = 5.0 if number % 5 == 0 else nan
        book.add(1000 + number / 10, [number / 1000, 1.0, 300.0 + 50 * sin(number), reason, seldom])
    return book


def drawn(book: SampledRows) -> Timeline:
    found = timeline_of(book)
    assert found is not None
    return found


def track(timeline: Timeline, name: str) -> TrackSeen:
    return next(one for one in timeline.tracks if one.name == name)


def test_a_short_run_keeps_every_sample():
    timeline = drawn(filled(40))
    assert len(timeline.times_s) == 40
    busy = track(timeline, "busy_cpus")
    assert (busy.device, busy.values[0], busy.values[-1]) == (None, 0.0, pytest.approx(0.039))
    assert track(timeline, "power_w").device == 0
    assert 0 <= timeline.times_s[0] < timeline.times_s[-1] <= 3.9


def test_rare_readings_have_gaps_and_single_cores_are_left_out():
    timeline = drawn(filled(40))
    values = track(timeline, "disk_read_bytes_per_s").values
    assert sum(value is not None for value in values) == 8
    assert {one.name for one in timeline.tracks} == {"busy_cpus", "power_w", "disk_read_bytes_per_s"}


def test_a_long_run_is_thinned_to_means():
    timeline = drawn(filled(8_000))
    busy = track(timeline, "busy_cpus").values
    assert len(timeline.times_s) == len(busy) == MOST_COLUMNS
    assert busy[0] == pytest.approx(0.0095, rel=0.06)  # the mean of rows 0 to 19
    assert busy == tuple(sorted(busy))
    assert timeline.times_s[-1] == pytest.approx(800, rel=0.01)


def test_a_run_of_hours_with_thinned_rows_spans_its_whole_time():
    timeline = drawn(filled(38_000))
    assert len(timeline.times_s) == MOST_COLUMNS
    assert all(value is not None for value in track(timeline, "busy_cpus").values)


def test_eight_gpus_make_a_coarser_timeline_of_the_same_size():
    devices = tuple(Device(number, "A GPU") for number in range(8))
    book = SampledRows([device.prefix + name for device in devices for name in OF_A_GPU], devices)
    for number in range(2000):
        book.add(number / 10, [1.6e9 + number] * 8 * len(OF_A_GPU))
    timeline = drawn(book)
    assert len(timeline.tracks) == 8 * len(OF_A_GPU)
    assert len(msgspec.json.encode(timeline)) < 100_000


def test_spans_start_at_the_first_sample_and_are_clipped():
    book = filled(100)
    book.note(Span(phase="decode", start_s=990.0, end_s=1002.0))
    book.note(Span(phase="prefill", start_s=1003.0, end_s=1004.5))
    book.note(Span(phase="decode", start_s=2000.0, end_s=2001.0))
    spans = drawn(book).spans
    assert [(one.phase, one.start_s, one.end_s) for one in spans] == [("decode", 0.0, 2.0), ("prefill", 3.0, 4.5)]


def test_many_close_spans_are_joined():
    book = filled(5000)
    for number in range(400):
        start = 1000 + number * 1.2
        book.note(Span(phase="prefill", start_s=start, end_s=start + 0.3))
        book.note(Span(phase="decode", start_s=start + 0.3, end_s=start + 0.6))
    spans = drawn(book).spans
    assert 0 < len(spans) <= MOST_SPANS


def test_throttle_reasons_become_time_ranges():
    book = filled(30, reason=POWER_CAP)
    for number in range(30, 60):
        book.add(1000 + number / 10, [0.1, 0.1, 200.0, 0.0, nan])
    (reason,) = drawn(book).reasons
    assert (reason.device, reason.reason) == (0, "sw_power_cap")
    assert (reason.start_s, reason.end_s) == (0.0, pytest.approx(3.0, abs=0.15))


def test_a_rarely_set_throttle_reason_is_not_drawn():
    book = SampledRows(COLUMNS, (GPU,))
    for number in range(4_000):
        book.add(number / 10, [0.1, 0.1, 200.0, POWER_CAP if number % 100 == 0 else 0.0, nan])
    assert drawn(book).reasons == ()


def test_a_flickering_throttle_reason_is_one_range():
    book = SampledRows(COLUMNS, (GPU,))
    for number in range(400):
        book.add(number / 10, [0.1, 0.1, 200.0, POWER_CAP if number % 2 else 0.0, nan])
    (reason,) = drawn(book).reasons
    assert (reason.start_s, reason.end_s) == (pytest.approx(0.1), pytest.approx(39.9, abs=0.11))


def test_one_second_of_thermal_throttling_in_an_hour_keeps_its_length():
    book = SampledRows(COLUMNS, (GPU,))
    for number in range(36_000):
        book.add(number / 10, [0.1, 0.1, 200.0, HEAT if 20_000 <= number < 20_010 else 0.0, nan])
    (reason,) = drawn(book).reasons
    assert reason.reason == "sw_thermal_slowdown"
    assert (reason.start_s, reason.end_s) == (pytest.approx(2000.0), pytest.approx(2001.0, abs=0.11))


def test_many_reasons_of_one_gpu_do_not_hide_those_of_another():
    columns = ("gpu0_reason_bits", "gpu1_reason_bits")
    book = SampledRows(columns, (GPU, Device(1, "Another", reason_names)))
    for number in range(6_000):
        book.add(number / 10, [POWER_CAP if number % 20 < 10 else 0.0, HEAT if number > 5_900 else 0.0])
    reasons = drawn(book).reasons
    assert 1 < len(reasons) <= MOST_REASONS
    assert [one.reason for one in reasons if one.device == 1] == ["sw_thermal_slowdown"]


def test_drawn_throttle_reasons_are_bounded():
    gpus = [Device(number, "A GPU", reason_names) for number in range(20)]
    book = SampledRows([f"gpu{gpu.number}_reason_bits" for gpu in gpus], gpus)
    for number in range(40):
        book.add(number / 10, [511.0] * len(gpus))
    assert len(drawn(book).reasons) == MOST_REASONS


@pytest.mark.parametrize("rows", [0, 1])
def test_fewer_than_two_rows_have_no_timeline(rows: int):
    assert timeline_of(filled(rows)) is None


def test_a_timeline_survives_encoding():
    book = filled(300, reason=POWER_CAP)
    book.note(Span(phase="decode", start_s=1001.0, end_s=1002.0))
    timeline = drawn(book)
    assert msgspec.convert(msgspec.json.decode(msgspec.json.encode(timeline)), Timeline) == timeline


def test_telemetry_of_a_live_sampler_has_a_timeline():
    with Sampler(LiveSystem(), hz=50) as sampler:
        system = LiveSystem()
        system.sleep(0.3)
    telemetry = sampler.telemetry()
    assert isinstance(telemetry, Telemetry)
    assert telemetry.timeline is not None
    assert telemetry.timeline.times_s[-1] <= telemetry.seconds
    assert track(telemetry.timeline, "busy_cpus").device is None
