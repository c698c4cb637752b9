"""The timeline view: limits, missing samples, and harmful throttle reasons."""

import msgspec
import pytest
from tests.cases import r

from unslow.facts.machine import Cpu, Gpu, Machine, Memory
from unslow.facts.run import ReasonSeen, Span, Timeline, TrackSeen
from unslow.facts.values import GIB
from unslow.page.timeline import LABELS, hold_values, timeline_view
from unslow.page.view import TimelineView, Track

GPU = Gpu(
    index=0,
    vendor=r("NVIDIA"),
    name=r("A GPU"),
    clock_max_hz=r(2e9),
    power_limit_w=r(300.0),
    vram_total_bytes=r(24 * GIB),
)
MACHINE = Machine(gpus=r((GPU,)), cpu=Cpu(logical_cpus=r(8)), memory=Memory(total_bytes=r(64 * GIB)))


def seen(clock_hz: float = 1.9e9, reason: str = "sw_power_cap") -> Timeline:
    return Timeline(
        times_s=(0.0, 1.0, 2.0, 3.0),
        tracks=(
            TrackSeen(name="clock_hz", device=0, values=(clock_hz,) * 4),
            TrackSeen(name="power_w", device=0, values=(100.0, None, 290.0, 250.0)),
            TrackSeen(name="temperature_c", device=0, values=(None, 61.0, None, 64.0)),
            TrackSeen(name="vram_used_bytes", device=0, values=(float(GIB),) * 4),
            TrackSeen(name="busy", device=0, values=(0.9,) * 4),
            TrackSeen(name="pcie_receive_bytes_per_s", device=0, values=(1e6,) * 4),
            TrackSeen(name="own_cpus", values=(1.0, 1.5, 1.0, 1.0)),
            TrackSeen(name="memory_available_bytes", values=(float(60 * GIB), None, float(50 * GIB), float(65 * GIB))),
        ),
        spans=(Span(phase="decode", start_s=1.0, end_s=3.0),),
        reasons=(ReasonSeen(device=0, reason=reason, start_s=1.0, end_s=3.0),),
    )


def track(view: TimelineView, name: str) -> Track:
    return next(one for one in view.tracks if one.name == name)


def test_tracks_have_the_limits_of_the_machine():
    view = timeline_view(seen(), MACHINE)
    limits = {one.name: one.limit for one in view.tracks}
    assert limits["clock_hz"] == 2e9
    assert limits["power_w"] == 300.0
    assert limits["vram_used_bytes"] == 24 * GIB
    assert limits["busy"] == 1.0
    assert limits["own_cpus"] == 8
    assert limits["temperature_c"] is None
    assert limits["pcie_receive_bytes_per_s"] is None
    assert {one.device for one in view.tracks} == {"A GPU", "host"}
    assert [(s.phase, s.start_s, s.end_s) for s in view.spans] == [("decode", 1.0, 3.0)]


def test_available_memory_is_shown_as_used():
    used = track(timeline_view(seen(), MACHINE), "ram_used_bytes")
    assert used.values == (4 * GIB, 4 * GIB, 14 * GIB, 0.0)
    assert (used.limit, used.label) == (64 * GIB, LABELS["ram_used_bytes"])
    assert track(timeline_view(seen(), Machine()), "memory_available_bytes").values[0] == 60 * GIB


def test_missing_sample_repeats_the_last_value_for_a_limited_time():
    assert list(hold_values((1.0, None, None, None, 2.0), (0.0, 1.0, 2.0, 3.0, 4.0))) == [1.0, 1.0, 1.0, None, 2.0]
    assert list(hold_values((None, 1.0), (0.0, 1.0))) == [None, 1.0]


@pytest.mark.parametrize(
    ("clock_hz", "reason", "harmful"),
    [
        (1.9e9, "sw_power_cap", False),  # at its limit at full speed
        (1.0e9, "sw_power_cap", True),
        (1.0e9, "sw_thermal_slowdown", True),
        (1.0e9, "hw_slowdown", True),
        (1.0e9, "gpu_idle", False),
        (1.0e9, "applications_clocks_setting", False),
    ],
)
def test_throttle_reason_is_harmful_only_if_clocks_are_low(clock_hz: float, reason: str, harmful: bool, wording):
    view = timeline_view(seen(clock_hz, reason), MACHINE)
    (mark,) = view.marks
    assert (mark.device, mark.reason, mark.harmful) == ("A GPU", reason, harmful)
    assert ("2 s" in wording(view.summary)) is harmful


def test_without_clocks_thermal_reasons_are_harmful_and_power_is_not():
    marks = [timeline_view(seen(reason=name), Machine()).marks[0] for name in ("sw_thermal_slowdown", "sw_power_cap")]
    assert [mark.harmful for mark in marks] == [True, False]
    assert marks[0].device == "GPU 0"


def test_several_gpus_are_numbered():
    two = Machine(gpus=r((GPU, Gpu(index=1, name=r("A GPU")))))
    assert track(timeline_view(seen(), two), "clock_hz").device == "GPU 0: A GPU"


def test_gpus_with_the_same_index_are_ordered_nvidia_first():
    other = Gpu(index=0, vendor=r("AMD"), name=r("Another"), power_limit_w=r(100.0))
    view = timeline_view(seen(), Machine(gpus=r((other, GPU))))
    assert track(view, "power_w").limit == 300.0


def test_timeline_summary_has_duration_and_peaks(wording):
    text = timeline_view(seen(), MACHINE, "Of yesterday.").summary
    wording(text, tells=("3 s", "1.90 GHz", "290 W"))


def test_empty_timeline_has_a_summary(wording):
    view = timeline_view(Timeline(times_s=(), tracks=()), Machine())
    assert view.tracks == ()
    wording(view.summary, tells="0 s")


def test_overlapping_throttle_reasons_are_counted_once(wording):
    both = seen(1.0e9, "sw_thermal_slowdown")
    marks = (*both.reasons, ReasonSeen(device=0, reason="hw_slowdown", start_s=2.0, end_s=3.5))
    text = timeline_view(msgspec.structs.replace(both, reasons=marks), MACHINE).summary
    wording(text, tells="2.5 s")


def test_short_throttle_reason_uses_the_nearest_clock_sample():
    short = ReasonSeen(device=0, reason="hw_slowdown", start_s=1.6, end_s=1.8)
    moved = msgspec.structs.replace(seen(1.0e9), times_s=(0.5, 1.5, 2.5, 3.5), reasons=(short,))
    assert [mark.harmful for mark in timeline_view(moved, MACHINE).marks] == [True]
