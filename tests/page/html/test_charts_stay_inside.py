"""Whatever the numbers are, a chart is well formed and stays inside its box."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.page.html import chart_samples
from tests.page.html.chart_geometry import drawings, outside, overlaps

from unslow.page.html import curves, memory, roofline, timeline
from unslow.page.view import (  # fmt: skip
    CurvePoint,
    CurveView,
    MemoryBar,
    MemoryPart,
    MemoryView,
    PhaseSpan,
    Roof,
    RooflinePoint,
    RooflineView,
    ThrottleMark,
    TimelineView,
    Track,
    WhatIf,
)

HOSTILE = "</svg></script><script>alert(1)</script>\"'& \u202egnp.exe\x00\x1b[31m"
names = st.sampled_from(["", "GPU 0", "GPU 1: NVIDIA H100", HOSTILE, "a name that is far too long " * 9, "显卡一号"])
amounts = st.one_of(
    st.sampled_from([0.0, -1.0, 1.0, 1e-12, 1e30, 1e300, -1e300, float("inf"), float("nan")]),
    st.floats(min_value=0, max_value=1e13),
)
maybe = st.one_of(st.none(), amounts)
seconds = st.one_of(st.sampled_from([0.0, 1e9, 1e300, -5.0]), st.floats(min_value=0, max_value=5000))
counts = st.one_of(st.sampled_from([0, -1, 1, 10**30, 10**400]), st.integers(0, 10**12))

curve_points = st.lists(
    st.builds(
        CurvePoint, at=amounts, measured=maybe, low=maybe, high=maybe, predicted=maybe, predicted_low=maybe,
        predicted_high=maybe, note=names,
    ),
    max_size=12,
).map(tuple)  # fmt: skip
any_curve = st.builds(
    CurveView,
    axis=st.sampled_from(["depth", "users"]),
    metric=st.sampled_from(["decode_tokens_per_s", "time_to_first_token_s", HOSTILE]),
    points=curve_points,
    verdict=names,
    because=names,
    knee=maybe,
    measured_at=names,
)
any_roofline = st.builds(
    RooflineView,
    roofs=st.lists(
        st.builds(
            Roof, device=names, bytes_per_s=amounts, flops_per_s=amounts, ridge_flops_per_byte=amounts, source=names
        ),
        max_size=9,
    ).map(tuple),
    points=st.lists(
        st.builds(
            RooflinePoint, phase=st.sampled_from(["decode", "prefill"]), label=names, flops_per_byte=amounts,
            predicted_flops_per_s=maybe, measured_flops_per_s=maybe, roof_flops_per_s=amounts,
            bound_by=st.sampled_from(["memory", "compute", "overhead"]),
        ),
        max_size=6,
    ).map(tuple),
    summary=names,
)  # fmt: skip
any_timeline = st.builds(
    TimelineView,
    times_s=st.lists(seconds, max_size=12).map(lambda found: tuple(sorted(found))),
    tracks=st.lists(
        st.builds(
            Track, name=st.sampled_from(["clock_hz", "temperature_c", "busy", "own_cpus", HOSTILE]), label=names,
            device=names, values=st.lists(maybe, max_size=14).map(tuple), limit=maybe,
        ),
        max_size=10,
    ).map(tuple),
    spans=st.lists(
        st.builds(PhaseSpan, phase=st.sampled_from(["decode", "prefill", HOSTILE]), start_s=seconds, end_s=seconds),
        max_size=6,
    ).map(tuple),
    marks=st.lists(
        st.builds(ThrottleMark, device=names, reason=names, start_s=seconds, end_s=seconds, harmful=st.booleans()),
        max_size=5,
    ).map(tuple),
    summary=names,
)  # fmt: skip
any_memory = st.builds(
    MemoryBar,
    name=names,
    is_host=st.booleans(),
    capacity_bytes=st.one_of(st.none(), counts),
    parts=st.lists(
        st.builds(
            MemoryPart,
            kind=st.sampled_from(["weights", "kv", "compute", "stranger", "reserve", "free", "lacking"]),
            name=names,
            bytes=counts,
            wanted_bytes=st.one_of(st.none(), counts),
        ),
        max_size=9,
    ).map(tuple),
    fits=st.one_of(st.none(), st.booleans()),
)


def check(html: str) -> None:
    for svg in drawings(html):
        assert outside(svg) == []
    assert "<script" not in html
    assert "alert(1)" not in html or "&lt;/script&gt;" in html
    assert "\u202e" not in html
    assert not re.search(r"\snan|inf[\s,\"]|\sstyle=|\son\w+=", re.sub(r">[^<]*<", "><", html))
    found = re.findall(r'\sid="([^"]*)"', html)
    assert len(found) == len(set(found))


@settings(max_examples=20)
@given(any_curve)
def test_any_curve_is_drawn_inside_its_box_and_escaped(part):
    check(curves.render_curve(part, 0))


@settings(max_examples=20)
@given(any_roofline)
def test_any_roofline_is_drawn_inside_its_box_and_escaped(part):
    check(roofline.render_roofline(part, 0))


@settings(max_examples=20)
@given(any_timeline)
def test_any_timeline_is_drawn_inside_its_box_and_escaped(part):
    check(timeline.render_timeline(part, 0))


@settings(max_examples=20)
@given(st.lists(any_memory, max_size=4).map(tuple))
def test_any_memory_bars_are_drawn_inside_their_box_and_escaped(bars):
    now = WhatIf(settings={}, bars=bars, verdict="cannot_tell", summary=HOSTILE, command=HOSTILE, notes=(HOSTILE,))
    check(memory.render_memory(MemoryView(now=now, source=HOSTILE), 0))


SAMPLES = {
    "depth": lambda: curves.render_curve(chart_samples.depth_curve(), 0),
    "users": lambda: curves.render_curve(chart_samples.users_curve(), 0),
    "roofline": lambda: roofline.render_roofline(chart_samples.roofline(), 0),
    "memory": lambda: memory.render_memory(chart_samples.memory(), 0),
    "a recorded run": lambda: timeline.render_timeline(chart_samples.recorded_timeline(), 0),
    "eight GPUs": lambda: timeline.render_timeline(chart_samples.many_gpus(), 0),
    "two GPUs": lambda: timeline.render_timeline(chart_samples.many_gpus(2, 100, 7), 0),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_chart_labels_do_not_overlap(name):
    html = SAMPLES[name]()
    check(html)
    for svg in drawings(html):
        assert overlaps(svg) == []


@pytest.mark.parametrize("name", SAMPLES)
def test_chart_has_title_description_and_table_for_screen_readers(name):
    html = SAMPLES[name]()
    for svg in drawings(html):
        assert svg.attrib["role"] == "img"
        assert svg.find("title").attrib["id"] == svg.attrib["aria-labelledby"]
        assert svg.find("desc").attrib["id"] == svg.attrib["aria-describedby"]
        assert svg.find("title").text
    assert "<figcaption" in html
    assert re.search(r"<details.*<table.*<caption>.*</table>", html)
